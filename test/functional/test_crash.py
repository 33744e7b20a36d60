"""kill -9 at random moments under load: what was acknowledged is there after the restart, and nothing else is wrong.

CRASH_ROUNDS sets the number of rounds (10; a long campaign is 200), CRASH_SEED repeats the moments of one run.
"""

import collections
import http.client
import json
import os
import random
import threading
import time

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "10"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 32))))
CLIENTS = 8
HELD_BY_EACH = 6
SHARED_MAX = 3
ENV = {
    "LOG_FSYNC": "always",
    "STATIC_PODS": ",".join(f"voice-agent-{i}" for i in range(40)),
    "TIER_CONFIG": '{"gold":{"target":10},"standard":{"target":10},'
    '"basic":{"type":"shared","target":20,"max_concurrent":%d}}' % SHARED_MAX,
}

UNKNOWN = object()  # asked for and not answered: it may be there or not


class Client(threading.Thread):
    """Allocates and releases until the router is gone, and keeps what it was told."""

    def __init__(self, port, round_number, number, held):
        super().__init__()
        self.port = port
        self.prefix = f"r{round_number}-c{number}"
        self.random = random.Random(f"{SEED}-{self.prefix}")
        self.held = held  # call_sid -> pod or UNKNOWN
        self.released = set()
        self.acknowledged = 0
        self.complaint = None

    def ask(self, path, call_sid):
        """Status and body, or None if the router is gone. Headers and body go out in one piece: real load."""
        try:
            self.connection.request("POST", path, json.dumps({"call_sid": call_sid}))
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def allocate(self, call_sid):
        self.held[call_sid] = UNKNOWN
        answer = self.ask("/api/v1/allocate", call_sid)
        if answer is None:
            return False
        status, body = answer
        if status == 503:
            del self.held[call_sid]  # all pods are taken
        elif status == 200:
            self.held[call_sid] = body["pod_name"]
        else:
            self.complaint = f"allocate {call_sid}: {status} {body}"
            return False
        return True

    def release(self, call_sid):
        self.held[call_sid] = UNKNOWN
        answer = self.ask("/api/v1/release", call_sid)
        if answer is None:
            return False
        status, body = answer
        if status != 200:
            self.complaint = f"release {call_sid}: {status} {body}"
            return False
        del self.held[call_sid]
        self.released.add(call_sid)
        return True

    def run(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        number = 0
        goes_on = True
        while goes_on:
            number += 1
            if len(self.held) < HELD_BY_EACH or self.random.random() < 0.4:
                goes_on = self.allocate(f"{self.prefix}-{number}")
            else:
                goes_on = self.release(self.random.choice(list(self.held)))
            self.acknowledged += goes_on
        self.connection.close()


def all_calls(router):
    calls = {}
    cursor = ""
    while True:
        page = router.get("/api/v1/calls", params={"limit": 1000, "cursor": cursor}).json()
        for call in page["calls"]:
            assert call["call_sid"] not in calls
            calls[call["call_sid"]] = call
        cursor = page["next_cursor"]
        if not cursor:
            assert page["total"] == len(calls)
            return calls


def check_invariants(router, calls):
    shared = {pod["pod_name"] for pod in router.get("/api/v1/pods?tier=basic&limit=1000").json()["pods"]}
    assert shared
    for pod, count in collections.Counter(call["pod_name"] for call in calls.values()).items():
        assert count <= (SHARED_MAX if pod in shared else 1), f"{pod} carries {count} calls"
    status = router.get("/api/v1/status").json()
    assert status["active_calls"] == len(calls)
    assert sum(tier["calls"] for tier in status["tiers"].values()) == len(calls)
    assert sum(tier["assigned"] for tier in status["tiers"].values()) == 40


def check_promises(router, clients, calls):
    """What was acknowledged is so; what was not is now known, and goes on as it is."""
    for client in clients:
        for call_sid in client.released:
            assert call_sid not in calls, f"{call_sid} was released"
        for call_sid, pod in list(client.held.items()):
            if pod is not UNKNOWN:
                assert call_sid in calls, f"{call_sid} was allocated and is lost"
                assert calls[call_sid]["pod_name"] == pod
            elif call_sid in calls:
                client.held[call_sid] = calls[call_sid]["pod_name"]
            else:
                del client.held[call_sid]
        for call_sid in random.sample(sorted(client.released), min(3, len(client.released))):
            assert router.get(f"/api/v1/call/{call_sid}").status_code == 404
        for call_sid, pod in random.sample(sorted(client.held.items()), min(3, len(client.held))):
            answer = router.get(f"/api/v1/call/{call_sid}")
            assert answer.status_code == 200 and answer.json()["pod_name"] == pod
    known = {call_sid for client in clients for call_sid in client.held}
    assert set(calls) == known, "there are calls that nobody asked for"


def test_acknowledged_changes_survive_kill_9(start_router, tmp_path):
    print(f"CRASH_SEED={SEED}")
    moments = random.Random(SEED)
    data_dir = tmp_path / "data"
    held = [{} for _ in range(CLIENTS)]
    acknowledged = 0
    router = start_router(ENV, data_dir)
    for round_number in range(ROUNDS):
        clients = [Client(router.port, round_number, i, held[i]) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(moments.uniform(0.02, 0.4))
        router.kill()
        for client in clients:
            client.join()
            assert client.complaint is None
            acknowledged += client.acknowledged
        router = start_router(ENV, data_dir)
        calls = all_calls(router)
        check_invariants(router, calls)
        check_promises(router, clients, calls)
    print(f"{acknowledged} changes acknowledged")
    assert acknowledged > ROUNDS  # otherwise nothing was tested
    assert router.stop() == 0
