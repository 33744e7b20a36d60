"""Four routers, 64 clients, and a Redis that stops at random for up to three leases. The agents tell who talked to them.

EDGE_SECONDS is how long it lasts; EDGE_SEED repeats what the clients do, though not when.
"""

import collections
import random
import threading
import time

import load
import pytest
from edges import calls_of, wait_free, wait_ready, wait_swept
from talkers import setting

SECONDS = setting("EDGE_SECONDS", 30)
SEED = int(setting("EDGE_SEED", time.time()))
LEASE_S = 5
ROUTERS = 4
CLIENTS = 64
PODS = 40
ENV = {
    "LEASE_TTL": f"{LEASE_S}s",
    "REDIS_TIMEOUT": "1s",
    "GATEWAY_RELEASE_GRACE": "1s",
    "CLEANUP_INTERVAL": "300ms",
    "HEARTBEAT_TTL": "10s",  # for so long after an outage no lease ends a call
}


class Campaign:
    def __init__(self, talkers, routers):
        self.talkers, self.routers = talkers, routers
        self.over = threading.Event()
        self.lost = []  # what nobody ended and yet is gone
        self.told = collections.Counter()
        self.fates = {}  # call_sid -> what its client did last
        self.lock = threading.Lock()
        self.history = load.History()

    def count(self, what):
        with self.lock:
            self.told[what] += 1

    def lose(self, text):
        self.talkers.note(text)
        self.lost.append(text)


class Client:
    """One call after the other, each with a fate of its own."""

    def __init__(self, campaign, number):
        self.campaign, self.talkers, self.number = campaign, campaign.talkers, number
        self.rng = random.Random(f"{SEED} {number}")
        urls = [router.url for router in campaign.routers]
        # Some stay with one router; the others ask another one each time.
        self.client = load.Client(campaign.history, [urls[number % ROUTERS]] if number % 4 == 0 else urls)
        self.name = 0

    def ask(self, path, body):
        status, answer, _, _ = self.client.ask("POST", path, body)
        self.campaign.count(f"{path.rsplit('/', 1)[1]} {status}")
        return status, answer

    def sleep(self, least, most):
        time.sleep(self.rng.uniform(least, most))

    def run(self):
        while not self.campaign.over.is_set():
            self.name += 1
            self.one(f"call-{self.number}-{self.name}")
        self.client.close()

    def one(self, call_sid):
        rng = self.rng
        fates = self.campaign.fates
        answer = self.allocate(call_sid)
        fates[call_sid] = "was allocated" if answer else "was told an error"
        if not answer:
            if rng.random() < 0.5:
                self.release(call_sid)  # others rely on it that an error holds nothing
            self.sleep(0.2, 1)
            return
        if rng.random() < 0.25:
            self.keep_by_renewing(call_sid, answer["pod_name"])
            self.release(call_sid)
            return
        has_talked = self.talk(answer)
        fates[call_sid] = "has talked"
        if not has_talked or rng.random() < 0.5:
            self.release(call_sid)  # else the grace does it

    def allocate(self, call_sid):
        """Some ask again after an error, and some although they have an answer."""
        for _ in range(self.rng.choice((1, 1, 3))):
            status, answer = self.ask("/api/v1/allocate", {"call_sid": call_sid})
            if status == 200:
                if self.rng.random() < 0.2:
                    self.again(call_sid, answer)
                return answer
            self.sleep(0, 0.3)
        return None

    def again(self, call_sid, answer):
        status, second = self.ask("/api/v1/allocate", {"call_sid": call_sid})
        if status == 200 and second["pod_name"] != answer["pod_name"]:
            self.campaign.lose(f"{call_sid} had {answer['pod_name']} and has {second['pod_name']}")

    def release(self, call_sid):
        """Until it is answered; some say it twice."""
        for _ in range(self.rng.choice((1, 1, 2))):
            while self.ask("/api/v1/release", {"call_sid": call_sid})[0] not in (200, 404):
                self.sleep(0.1, 0.4)
        self.campaign.fates[call_sid] = "was released"

    def connect(self, answer):
        """An open stream at any router, or None."""
        for _ in range(3):
            stream = self.talkers.open(self.rng.choice(self.campaign.routers), answer, wait=False)
            self.campaign.count(f"stream {stream.wait_answer()}")
            if stream.status == 101:
                return stream
            if stream.status in (404, 409):
                return None
            self.sleep(0.1, 0.5)
        return None

    def how_long_s(self):
        """Most calls are short; some are longer than a pause of Redis."""
        return self.rng.uniform(0.3, 4) if self.rng.random() < 0.6 else self.rng.uniform(LEASE_S, 4 * LEASE_S)

    def talk(self, answer):
        """One stream, or one that comes back. True if there was one."""
        times = self.rng.choice((1, 1, 1, 2))
        for left in reversed(range(times)):
            stream = self.connect(answer)
            if not stream:
                return left + 1 < times
            self.campaign.over.wait(self.how_long_s())
            if stream.is_open:  # else it is in the list of those that were cut off
                stream.close(self.rng.choice(("end", "reset")) if left else self.rng.choice(("end", "frame", "reset")))
            self.sleep(0, 0.6)
        return True

    def keep_by_renewing(self, call_sid, pod):
        """A call that no router carries: its client talks to the agent itself, and renews."""
        status, _ = self.ask("/api/v1/renew", {"call_sid": call_sid})
        stream = self.talkers.open_direct(call_sid, pod)
        end = time.monotonic() + self.how_long_s()
        while time.monotonic() < end and status in (200, 503) and not self.campaign.over.is_set():
            self.sleep(0.5, 1)
            status, _ = self.ask("/api/v1/renew", {"call_sid": call_sid})
        if status not in (200, 503):
            self.campaign.lose(f"{call_sid}, which is renewed, is told {status}")
        stream.close()


def pause_at_random(campaign, server, rng, seconds):
    """Redis stops now and then; it runs when the time is over. Returns how often, and for how long in all."""
    end, pauses = time.monotonic() + seconds, []
    while time.monotonic() < end:
        time.sleep(rng.uniform(1, 5))
        pauses.append(LEASE_S * (1.5 if not pauses else rng.uniform(0.05, 3)))
        campaign.talkers.note(f"Redis is stopped for {pauses[-1]:.1f} s")
        with server.paused():
            time.sleep(pauses[-1])
        campaign.talkers.note("Redis goes on")
    return pauses


def test_no_pod_has_two_calls_whatever_happens_to_redis(redis_server, start_on, start_talkers, tell):
    talkers = start_talkers(pods=PODS, interval_s=0.2)
    routers = [start_on(redis_server, {**talkers.env, **ENV}) for _ in range(ROUTERS)]
    campaign = Campaign(talkers, routers)
    failures = []

    def run(client):
        try:
            client.run()
        except BaseException as error:
            failures.append(f"{client.number}: {error!r}")
            raise

    clients = [threading.Thread(target=run, args=(Client(campaign, i),), daemon=True) for i in range(CLIENTS)]
    for thread in clients:
        thread.start()
    pauses = pause_at_random(campaign, redis_server, random.Random(SEED), SECONDS)
    time.sleep(3)
    campaign.over.set()
    for thread in clients:
        thread.join(90)
    assert not any(thread.is_alive() for thread in clients), "a client hangs"
    wait_ready(*routers)
    tell(
        f"{ROUTERS} routers, {CLIENTS} clients, {len(pauses)} stops of Redis, {sum(pauses):.0f} s in all: {dict(campaign.told)}; "
        f"{len(talkers.violations)} pods with two calls, {len(talkers.cut_off)} streams cut off, {len(campaign.lost)} calls "
        f"lost; seed {SEED}"
    )
    assert failures == []
    talkers.expect_no_violation()
    assert campaign.lost == []
    assert [stream.call_sid for stream in talkers.cut_off] == []
    assert campaign.told["stream 101"] > SECONDS / 2 and campaign.told["renew 200"] > SECONDS / 4, campaign.told
    wait_swept(*routers)
    try:
        wait_free(routers[0])
    except pytest.fail.Exception:
        pytest.fail(f"calls are left: {[(sid, campaign.fates.get(sid)) for sid in calls_of(routers[0])]}")
