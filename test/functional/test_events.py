"""GET /api/v1/events: what happens anywhere, told by every router, for as long as somebody watches."""

import functools
import json
import socket
import threading

import pytest
import redis_servers
from conftest import DEADLINE_S, wait_until
from test_redis_link import start_cluster

WATCHERS = 64  # at once, on one router


class Watcher:
    """A client of the stream, as a browser's EventSource reads it. `last_id`: it has read events before."""

    def __init__(self, router, last_id=None):
        head = "" if last_id is None else f"Last-Event-ID: {last_id}\r\n"
        self.sock = socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S)
        self.sock.sendall(f"GET /api/v1/events HTTP/1.0\r\nHost: x\r\n{head}\r\n".encode())
        self.file = self.sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while line := self.file.readline().strip().decode():
            name, _, value = line.partition(": ")
            self.headers[name.lower()] = value
        self.events = []  # (kind, id, data)
        self.comments = 0
        self.is_over = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        fields = {}
        try:
            for line in self.file:
                name, _, value = line.rstrip(b"\n").decode().partition(":")
                if line == b"\n":
                    if "data" in fields:
                        self.events.append((fields.get("event"), fields.get("id"), json.loads(fields["data"])))
                    fields = {}
                elif name:
                    fields[name] = value.removeprefix(" ")
                else:
                    self.comments += 1
        except (OSError, ValueError):
            pass
        self.is_over = True

    def kinds(self):
        return [kind for kind, _, _ in self.events]

    def listening(self, times=1):
        wait_until(lambda: self.kinds().count("listening") >= times, "the router listens")
        return self

    def wait(self, kind, **members):
        """The data of the first such event."""

        def found():
            for name, _, data in list(self.events):
                if name == kind and members.items() <= data.items():
                    return data
            return None

        return wait_until(found, f"{kind} {members}; there were {self.events}")

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(DEADLINE_S)
        self.file.close()
        self.sock.close()


@pytest.fixture
def watch():
    """watch(router, last_id=None) -> Watcher to whom the router listens already."""
    watchers = []

    def start(router, last_id=None, wait=True):
        watcher = Watcher(router, last_id)
        watchers.append(watcher)
        return watcher.listening() if wait else watcher

    yield start
    for watcher in watchers:
        try:
            watcher.close()
        except OSError:
            pass


@pytest.fixture(params=["embedded", "redis"])
def any_router(request, start_router):
    """One router, on either store."""
    if request.param == "embedded":
        return start_router({"HEARTBEAT_TTL": "60s"})
    server = request.getfixturevalue("redis_server")
    return request.getfixturevalue("start_on")(server, {"HEARTBEAT_TTL": "60s"})


def test_what_happens_is_told(any_router, watch):
    router = any_router
    watcher = watch(router)
    assert watcher.status == 200
    assert watcher.headers["content-type"] == "text/event-stream"
    assert watcher.headers["cache-control"] == "no-cache"

    pod = router.allocate("CA1", merchant_id="acme", provider="twilio")["pod_name"]
    allocated = watcher.wait("allocated", call_sid="CA1")
    assert allocated["pod_name"] == pod
    assert allocated["source_pool"].startswith("pool:")
    assert (allocated["merchant_id"], allocated["provider"]) == ("acme", "twilio")
    assert allocated["replica"] and allocated["time"].endswith("Z")
    router.allocate("CA1", merchant_id="acme")  # has a pod already: no news
    router.release("CA1")
    watcher.wait("released", call_sid="CA1", pod_name=pod)
    router.post("/api/v1/drain", {"pod_name": pod})
    watcher.wait("draining", pod_name=pod)
    router.post("/api/v1/undrain", {"pod_name": pod})
    watcher.wait("undrained", pod_name=pod)
    router.post("/api/v1/pods", {"pod_name": "box", "address": "127.0.0.1:9000"})
    watcher.wait("pod_joined", pod_name="box")
    router.post("/api/v1/pod/box/heartbeat", {"call_sids": ["CA2"]})
    watcher.wait("allocated", call_sid="CA2", reason="adopted")
    router.delete("/api/v1/pod/box")
    watcher.wait("ended", call_sid="CA2", pod_name="box", reason="pod_gone")
    watcher.wait("pod_left", pod_name="box")
    for i in range(10):
        router.post("/api/v1/allocate", {"call_sid": f"CB{i}"})
    watcher.wait("refused", reason="no_pods")

    ids = [id for kind, id, _ in watcher.events if kind != "listening"]
    assert len(set(ids)) == len(ids)
    assert all(data["id"] == id and data["event"] == kind for kind, id, data in watcher.events if id)
    assert [d["call_sid"] for k, _, d in watcher.events if k == "allocated"].count("CA1") == 1


def test_several_watch_and_one_leaves(any_router, watch):
    router = any_router
    first, second, third = watch(router), watch(router), watch(router)
    second.close()
    router.allocate("CA1")
    assert first.wait("allocated", call_sid="CA1") == third.wait("allocated", call_sid="CA1")


def test_shutdown_ends_the_stream(any_router, watch):
    watcher = watch(any_router)
    assert any_router.stop() == 0
    wait_until(lambda: watcher.is_over, "the stream ends")
    assert "connections cut at the shutdown timeout" not in any_router.log()


def test_more_watchers_than_there_is_room_for_are_refused(router, watch):
    watchers = [watch(router) for _ in range(WATCHERS)]
    answer = router.get("/api/v1/events")
    assert answer.status_code == 503 and answer.headers["retry-after"]
    assert answer.json()["success"] is False
    watchers[0].close()
    wait_until(lambda: Watcher(router).status == 200, "there is room again")
    router.allocate("CA1")
    watchers[-1].wait("allocated", call_sid="CA1")


def test_who_does_not_read_is_cut_off_and_the_others_go_on(redis_server, start_on, watch):
    router = start_on(redis_server, {"HTTP_WRITE_TIMEOUT": "2s"})
    reader = watch(router)
    client = redis_server.client()
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", router.port))
        lazy.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        number = 0

        def is_cut():
            return router.log_lines("a watcher of events reads too slowly")

        def publish():
            nonlocal number
            lines = [f'{{"event":"large","id":"{number}:{i}","text":"{"x" * 1900}"}}' for i in range(50)]
            client.publish("voice:events", "\n".join(lines))
            reader.wait("large", id=f"{number}:49")
            number += 1
            return is_cut()

        wait_until(publish, "the lazy one is noticed")
        assert [line["path"] for line in is_cut()] == ["/api/v1/events"]
        open_now = 'smart_router_http_connections{listener="http"} 2\n'  # the reader, and who asks
        wait_until(lambda: open_now in router.get("/metrics").text, "it is cut off")
    router.allocate("CA1")
    reader.wait("allocated", call_sid="CA1")


def id_of(watcher, kind, **members):
    return watcher.wait(kind, **members)["id"]


def is_missed(watcher):
    """What the last `listening` says about events before it."""
    return [data.get("missed") for kind, _, data in watcher.events if kind == "listening"][-1]


def test_who_comes_back_gets_what_came_meanwhile(any_router, watch):
    router = any_router
    watcher = watch(router)
    assert is_missed(watcher) is None
    router.allocate("CA1")
    seen = id_of(watcher, "allocated", call_sid="CA1")
    watcher.close()

    router.allocate("CA2")
    router.release("CA1")
    router.release("CA2")
    back = watch(router, last_id=seen)
    router.allocate("CA3")
    back.wait("allocated", call_sid="CA3")
    told = [(kind, data["call_sid"]) for kind, _, data in back.events if "call_sid" in data]
    assert told == [("allocated", "CA2"), ("released", "CA1"), ("released", "CA2"), ("allocated", "CA3")]
    assert back.kinds()[0] == "listening" and is_missed(back) is False

    again = watch(router, last_id=id_of(back, "allocated", call_sid="CA3"))
    router.release("CA3")
    again.wait("released", call_sid="CA3")
    assert again.kinds() == ["listening", "released"] and is_missed(again) is False


def test_who_comes_back_with_an_id_that_nobody_knows_is_told_and_gets_what_comes(any_router, watch):
    router = any_router
    first = watch(router, last_id="nobody:1")  # the router begins to listen only now
    router.allocate("CA1")
    first.wait("allocated", call_sid="CA1")
    assert is_missed(first) is True
    for unknown in ("nobody:1", "", "x" * 4000):
        late = watch(router, last_id=unknown)
        router.allocate("CA2")
        router.release("CA2")
        late.wait("released", call_sid="CA2")
        assert is_missed(late) is True
        assert [data.get("call_sid") for _, _, data in late.events] == [None, "CA2", "CA2"]


def publish_events(server, count, size=0, first=0):
    client = server.client()
    for start in range(first, first + count, 50):
        numbers = range(start, min(start + 50, first + count))
        client.publish("voice:events", "\n".join(f'{{"event":"e","id":"n:{i}","text":"{"x" * size}"}}' for i in numbers))


@pytest.mark.parametrize(("count", "size", "oldest"), [(2000, 0, 2000 - 1024), (300, 1000, None)])
def test_only_so_many_events_are_remembered(redis_server, start_on, watch, count, size, oldest):
    """1,024, or fewer if they are long: 192 KiB."""
    router = start_on(redis_server)
    watcher = watch(router)
    first = 0
    while True:
        publish_events(redis_server, count, size, first)
        watcher.wait("e", id=f"n:{first + count - 1}")
        if {kind for kind, _, _ in watcher.events[-count:]} == {"e"}:
            break
        first += count  # the router had an event of its own to tell among them
    if oldest is None:
        one = len("event: e\nid: n:299\ndata: \n\n") + len(json.dumps({"event": "e", "id": "n:299", "text": ""}, separators=(",", ":"))) + size
        oldest = count - 192 * 1024 // one
    oldest, count = first + oldest, first + count
    assert is_missed(watch(router, last_id=f"n:{oldest - 1}")) is True
    back = watch(router, last_id=f"n:{oldest}")
    back.wait("e", id=f"n:{count - 1}")
    assert is_missed(back) is False
    assert [id for kind, id, _ in back.events if kind == "e"] == [f"n:{i}" for i in range(oldest + 1, count)]


def test_after_a_gap_no_id_from_before_it_is_known(redis_server, start_on, watch):
    router = start_on(redis_server)
    watcher = watch(router)
    router.allocate("CA1")
    seen = id_of(watcher, "allocated", call_sid="CA1")
    assert redis_server.client().client_kill_filter(_type="pubsub") == 1
    watcher.listening(times=2)
    assert is_missed(watcher) is True
    assert is_missed(watch(router, last_id=seen)) is True


def test_who_reads_too_slowly_is_told_and_can_go_on_where_it_stopped(redis_server, start_on, watch):
    router = start_on(redis_server)
    reader = watch(router)
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.settimeout(DEADLINE_S)
        lazy.connect(("127.0.0.1", router.port))
        lazy.sendall(b"GET /api/v1/events HTTP/1.0\r\nHost: x\r\n\r\n")
        number = 0

        def publish():
            nonlocal number
            publish_events(redis_server, 50, 1000, first=number)
            number += 50
            reader.wait("e", id=f"n:{number - 1}")
            return router.log_lines("a watcher of events reads too slowly")

        wait_until(publish, "the lazy one is noticed")
        text = b"".join(iter(lambda: lazy.recv(65536), b"")).decode()
    assert text.endswith('event: too_slow\ndata: {"event":"too_slow"}\n\n')
    last = [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: n:")][-1]
    back = watch(router, last_id=last)
    back.wait("e", id=f"n:{number - 1}")
    assert is_missed(back) is False
    assert back.events[1][1] == f"n:{int(last[2:]) + 1}"


def test_a_head_request_is_answered_at_once(router):
    answer = router.request("HEAD", "/api/v1/events")
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/event-stream"


def channel_of(server, channel="voice:events"):
    subscription = server.client().pubsub(ignore_subscribe_messages=True)
    subscription.subscribe(channel)
    wait_until(lambda: server.client().pubsub_numsub(channel)[0][1] > 0, "the channel has a subscriber")
    return subscription


def next_events(subscription):
    message = wait_until(lambda: subscription.get_message(timeout=0.05), "a message")
    return [json.loads(line) for line in message["data"].splitlines()]


def test_every_router_tells_what_happens_on_any(redis_server, start_on, watch):
    routers = [start_on(redis_server) for _ in range(3)]
    watchers = [watch(router) for router in routers]
    for i, router in enumerate(routers):
        router.allocate(f"CA{i}")
    for watcher in watchers:
        told = [watcher.wait("allocated", call_sid=f"CA{i}") for i in range(3)]
        assert len({event["replica"] for event in told}) == 3


def test_a_change_of_leaders_is_told(redis_server, start_on, watch):
    first = start_on(redis_server)
    wait_until(lambda: first.get("/api/v1/status").json()["is_leader"], "the first one leads")
    second = start_on(redis_server)
    watcher = watch(second)
    identity = first.get("/api/v1/status").json()["leader"]
    assert first.stop() == 0
    assert watcher.wait("leader_lost")["replica"] == identity
    wait_until(lambda: second.get("/api/v1/status").json()["is_leader"], "the second one leads")
    watcher.wait("leader_elected", replica=second.get("/api/v1/status").json()["leader"])


def test_the_channel_is_there_for_everybody(redis_server, start_on):
    router = start_on(redis_server, {**redis_servers.QUIET, "KEY_PREFIX": "{v}:"})
    subscription = channel_of(redis_server, "{v}:events")
    router.allocate("CA1")
    router.release("CA1")
    events = []
    while not any(event["event"] == "released" for event in events):
        events += next_events(subscription)
    kinds = [event["event"] for event in events if event.get("call_sid") == "CA1"]
    assert kinds == ["allocated", "released"]
    subscription.close()


def test_what_others_publish_harms_nobody(redis_server, start_on, watch):
    router = start_on(redis_server)
    watcher = watch(router)
    client = redis_server.client()
    for text in ("", "hello", "\n\n", '{"event":"x","id":"y"}\r\n', '{"event":"x\\n","id":"y"}', "\0", "x" * 100000):
        client.publish("voice:events", text)
    client.publish("voice:events", 'junk\n{"event":"theirs","id":"y","n":1}\njunk')
    assert watcher.wait("theirs") == {"event": "theirs", "id": "y", "n": 1}
    assert set(watcher.kinds()) <= {"listening", "theirs", "pods_changed", "leader_elected"}


def subscribers(server):
    return server.client().pubsub_numsub("voice:events")[0][1]


def test_a_second_connection_is_there_only_while_somebody_watches(redis_server, start_on, watch):
    router = start_on(redis_server)
    assert subscribers(redis_server) == 0
    first, second = watch(router), watch(router)
    assert subscribers(redis_server) == 1
    first.close()
    router.allocate("CA1")
    second.wait("allocated", call_sid="CA1")
    assert subscribers(redis_server) == 1
    second.close()
    wait_until(lambda: subscribers(redis_server) == 0, "nobody listens any more")
    third = watch(router)
    router.allocate("CA2")
    third.wait("allocated", call_sid="CA2")


def allocate_when_it_can(router, call_sid):
    wait_until(
        lambda: router.post("/api/v1/allocate", {"call_sid": call_sid}).status_code == 200, "a call gets a pod"
    )


def test_the_stream_goes_on_after_redis_was_away(redis_server, start_on, watch):
    routers = [start_on(redis_server) for _ in range(2)]
    watcher = watch(routers[0])
    redis_server.kill()
    redis_server.start()
    watcher.listening(times=2)
    allocate_when_it_can(routers[1], "CA1")
    watcher.wait("allocated", call_sid="CA1")
    assert not watcher.is_over

    redis_server.client().flushall()
    allocate_when_it_can(routers[1], "CA2")
    watcher.wait("allocated", call_sid="CA2")


def test_the_stream_goes_on_after_its_connection_was_cut(redis_server, start_on, watch):
    router = start_on(redis_server)
    watcher = watch(router)
    assert redis_server.client().client_kill_filter(_type="pubsub") == 1
    watcher.listening(times=2)
    router.allocate("CA1")
    watcher.wait("allocated", call_sid="CA1")


def test_a_redis_that_hangs_is_noticed(redis_server, start_on, watch):
    router = start_on(redis_server, {"REDIS_TIMEOUT": "500ms"})
    watcher = watch(router)
    with redis_server.paused():
        wait_until(lambda: "no answer to SUBSCRIBE" in router.log(), "the silence is noticed")
    watcher.listening(times=2)
    allocate_when_it_can(router, "CA1")
    watcher.wait("allocated", call_sid="CA1")


def test_a_user_without_the_channel_can_do_everything_else(start_redis, start_on):
    server = start_redis()
    server.cli("ACL", "SETUSER", "router", "on", ">secret", "+@all", "~*", "resetchannels")
    router = start_on(server, {"REDIS_URL": f"unix://router:secret@{server.socket_path}"})
    router.allocate("CA1")
    wait_until(lambda: router.log_lines("events cannot be published: the Redis user may not PUBLISH on the channel"), "")
    router.release("CA1")
    assert Watcher(router).status == 200


def test_every_node_of_a_cluster_will_do(start_redis, start_on, watch):
    nodes = start_cluster(functools.partial(start_redis, has_port=True))
    routers = [start_on(node, {"KEY_PREFIX": "{voice}:"}) for node in nodes]
    watchers = [watch(router) for router in routers]
    for i, router in enumerate(routers):
        router.allocate(f"CA{i}")
        for watcher in watchers:
            watcher.wait("allocated", call_sid=f"CA{i}")
