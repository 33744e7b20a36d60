"""What the gateway does for calls: whom it lets in, how long a call lives, and what happens when somebody dies.

All of it three times: straight into the router, through nginx in front of it, and with a router whose state is in Redis.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import resource
import signal
import socket
import struct
import threading
import time

import pytest
from conftest import wait_until
from streams import BINARY, PATIENCE_S, TEXT, Closed

SECRET, OTHER_SECRET = "the-first-secret-is-long-enough", "the-second-secret-is-long-enough"
LONG = "1h"
SOON = "300ms"


@pytest.fixture(params=("router", "nginx", "redis"))
def world_of(request):
    """world_of(...) is start_world(front, ...), for each front; or, with Redis, for the router itself."""
    env = {}
    if request.param == "redis":  # asked for first, so that it outlives the routers
        env = {"REDIS_URL": request.getfixturevalue("redis_server").url, "LEADER_ELECTION_ENABLED": "false"}
    start_world = request.getfixturevalue("start_world")
    front = "nginx" if request.param == "nginx" else "router"
    return lambda **kwargs: start_world(front, **{**kwargs, "env": {**env, **(kwargs.get("env") or {})}})


def is_gone(world, call_sid):
    return lambda: world.call(call_sid) is None


def other_pod(world, pod):
    (other,) = [name for name in world.agents if name != pod]
    return other


def state_of(world, pod):
    """What the API says of the pod, in the words that matter here."""
    found = world.pod(pod)
    return found["is_draining"], [call if isinstance(call, str) else call["call_sid"] for call in found["calls"]]


@contextlib.contextmanager
def silence_at(address, port):
    """A listener that nobody accepts from, and whose queue is full: as a machine that is gone."""
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(3):
            sock = waiting.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex((address, port))
        yield


# ----- Who is let in -----


def test_a_pod_that_nobody_knows_is_not_found(world_of):
    assert world_of().refusal("/ws/pod/voice-agent-9/x") == 404


def test_a_pod_without_a_call_takes_no_stream(world_of):
    world = world_of()
    pod, path = world.place("CA1")
    assert world.refusal(f"/ws/pod/{other_pod(world, pod)}/x") == 409
    world.router.release("CA1")
    assert world.refusal(path) == 409
    assert all(agent.heads == [] for agent in world.agents.values())


def test_a_draining_pod_keeps_its_call_and_takes_no_other(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1")
    other = other_pod(world, pod)
    for name in (pod, other):
        world.router.post("/api/v1/drain", {"pod_name": name})
    with world.open(path) as stream:
        assert stream.echoes()
    assert world.refusal(f"/ws/pod/{other}/x") == 503


def test_a_request_that_is_no_websocket_is_told_so(world_of):
    world = world_of()
    _, path = world.place("CA1")
    with world.connect(path, upgrade=False) as stream:
        assert stream.status == 426
        assert (stream.head.get("upgrade") or "websocket").lower() == "websocket"
        assert b'"success":false' in stream.body().replace(b" ", b"")
    assert all(agent.heads == [] for agent in world.agents.values())


def test_refusals_change_nothing(world_of):
    world = world_of()
    pod, path = world.place("CA1")
    before = world.router.state()
    world.refusal("/ws/pod/voice-agent-9/x")
    world.refusal(f"/ws/pod/{other_pod(world, pod)}/x")
    world.refusal(path, upgrade=False)
    assert world.router.state() == before


# ----- Tickets -----


def ticket_of(path):
    return path.split("/")[4]


REST = "/agent/voice/breeze-buddy/twilio/callback/order-confirmation/v2"


def make_ticket(secret, call_sid, pod, expiry, path=REST, purpose=1):
    said = struct.pack("!BQ", 2, expiry)
    signed = said + bytes([purpose]) + call_sid.encode() + b"\0" + pod.encode() + b"\0" + path.encode()
    mac = hmac.new(secret.encode(), signed, hashlib.sha256).digest()[:16]
    return base64.urlsafe_b64encode(said + mac + call_sid.encode()).decode().rstrip("=")


def make_old_ticket(secret, call_sid, pod, expiry):
    """As routers made it before the path was signed."""
    said = struct.pack("!BQ", 1, expiry)
    mac = hmac.new(secret.encode(), said + call_sid.encode() + b"\0" + pod.encode(), hashlib.sha256).digest()[:16]
    return base64.urlsafe_b64encode(said + mac + call_sid.encode()).decode().rstrip("=")


def test_a_url_with_its_ticket_opens_and_the_pod_does_not_see_the_ticket(world_of):
    world = world_of(env={"GATEWAY_SECRET": SECRET})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
    assert world.agents[pod].heads[-1].path == "/agent/voice/breeze-buddy/twilio/callback/order-confirmation/v2"
    assert "?" not in path


def test_a_template_says_where_the_ticket_stands_in_front_of_the_rest(world_of):
    world = world_of(env={"GATEWAY_SECRET": SECRET, "WS_URL_TEMPLATE": "{base}/ws/pod/{pod}/{ticket}/call/{call_sid}"})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
    assert world.agents[pod].heads[-1].path == "/call/CA1"


def test_no_ticket_no_stream(world_of):
    world = world_of(env={"GATEWAY_SECRET": SECRET})
    pod, path = world.place("CA1")
    rest = path.split("/", 5)[5]
    for wrong in (rest, "x", f"/{rest}", f"x/{ticket_of(path)}/{rest}"):
        assert world.refusal(f"/ws/pod/{pod}/{wrong}") == 403, wrong
    assert world.agents[pod].heads == []


def test_a_ticket_changed_anywhere_is_refused(world_of):
    """Every character replaced by a neighbour, every prefix, and some words more."""
    world = world_of(env={"GATEWAY_SECRET": SECRET})
    pod, path = world.place("CA1")
    good = ticket_of(path)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    wrong = [good[:at] + alphabet[alphabet.index(good[at]) ^ 32] + good[at + 1 :] for at in range(len(good))]
    wrong += [good[:at] + alphabet[alphabet.index(good[at]) ^ 1] + good[at + 1 :] for at in range(len(good))]
    wrong += [good[:size] for size in range(1, len(good))]
    wrong += [good + "A", good + "=", good + "%00", "%41" + good, good.swapcase(), "A" * 205, "A" * 2000]
    for ticket in wrong:
        assert world.refusal(path.replace(good, ticket)) in ((403, 400) if "%" in ticket else (403,)), ticket
    assert world.agents[pod].heads == []
    with world.open(path) as stream:
        assert stream.echoes()


def test_a_ticket_of_another_pod_or_call_or_secret_or_time_is_refused(world_of):
    world = world_of(env={"GATEWAY_SECRET": SECRET})
    pod, path = world.place("CA1")
    other, other_path = world.place("CA2")
    now = int(time.time())
    good = ticket_of(path)
    assert world.refusal(path.replace(good, ticket_of(other_path))) == 403, "that of the other pod's call"
    assert world.refusal(path.replace(f"/ws/pod/{pod}/", f"/ws/pod/{other}/")) == 403, "this one at another pod"
    for wrong in (
        make_ticket(SECRET, "CA1", other, now + 600),
        make_ticket(OTHER_SECRET, "CA1", pod, now + 600),
        make_ticket("", "CA1", pod, now + 600),
        make_ticket(SECRET, "CA1", pod, now - 1),
        make_ticket(SECRET, "CA1", pod, 0),
        make_ticket(SECRET, "CA1", pod, now + 600, path="/admin"),
        make_ticket(SECRET, "CA1", pod, now + 600, purpose=2),
        make_old_ticket(SECRET, "CA1", other, now + 600),
        make_old_ticket(SECRET, "CA1", pod, now - 1),
    ):
        assert world.refusal(path.replace(good, wrong)) == 403
    assert world.refusal(path.replace(good, make_ticket(SECRET, "CA3", pod, now + 600))) == 409, "a call that is none"
    assert all(agent.heads == [] for agent in world.agents.values())
    with world.open(path.replace(good, make_ticket(SECRET, "CA1", pod, now + 600))) as stream:
        assert stream.echoes()


def test_a_call_that_an_older_router_has_allocated_comes_back_with_its_ticket(world_of):
    """A rolling update hangs up on nobody. Such tickets sign no path; none is made any more, and the last runs out."""
    world = world_of(env={"GATEWAY_SECRET": SECRET})
    pod, path = world.place("CA1")
    with world.open(path.replace(ticket_of(path), make_old_ticket(SECRET, "CA1", pod, int(time.time()) + 600))) as stream:
        assert stream.echoes()


def test_the_ticket_of_a_call_that_ended_opens_nothing_even_if_the_pod_has_another(world_of):
    world = world_of(agents=1, env={"GATEWAY_SECRET": SECRET})
    pod, path = world.place("CA1")
    world.router.release("CA1")
    assert world.place("CA2")[0] == pod
    assert world.refusal(path) == 409
    assert world.agents[pod].heads == []


def test_with_two_secrets_the_first_signs_and_both_are_good(world_of):
    world = world_of(env={"GATEWAY_SECRET": f"{OTHER_SECRET},{SECRET}", "GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1")
    expiry = int(time.time()) + 600
    for secret in (SECRET, OTHER_SECRET):
        with world.open(path.replace(ticket_of(path), make_ticket(secret, "CA1", pod, expiry))) as stream:
            assert stream.echoes()
    raw = base64.urlsafe_b64decode(ticket_of(path) + "===")
    (signed_expiry,) = struct.unpack("!Q", raw[1:9])
    assert ticket_of(path) == make_ticket(OTHER_SECRET, "CA1", pod, signed_expiry)
    assert world.refusal(path.replace(ticket_of(path), make_ticket("a third secret", "CA1", pod, expiry))) == 403


def test_secrets_and_tickets_are_not_in_the_log(world_of):
    world = world_of(env={"GATEWAY_SECRET": SECRET, "LOG_LEVEL": "debug"})
    _, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
    world.refusal(path.replace(ticket_of(path), ticket_of(path)[:-1] + "A"))
    log = world.router.log()
    assert SECRET not in log
    assert ticket_of(path)[:40] not in log


# ----- How long a call lives -----


def test_an_open_stream_keeps_its_call_and_others_run_out(world_of):
    """Nobody says a word on it; the call that has no stream shows that time really passed."""
    world = world_of(env={"LEASE_TTL": "1500ms", "CALL_MAX_DURATION": "1500ms"})
    _, path = world.place("CA1")
    with world.open(path) as stream:
        for number in range(3):
            other, _ = world.place(f"CA-silent-{number}")
            wait_until(lambda: state_of(world, other)[1] == [], "a call without a stream ends")
            assert world.call("CA1")
        assert stream.echoes()


def test_a_stream_that_closes_ends_its_call(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
        assert state_of(world, pod) == (False, ["CA1"])
    wait_until(is_gone(world, "CA1"), "the call is released")
    assert state_of(world, pod) == (False, [])
    assert world.router.get("/api/v1/calls").json()["total"] == 0


def test_a_pod_that_hangs_up_ends_the_call(world_of):
    world = world_of(is_manual=True, env={"GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        world.agents[pod].accept().close()
        with pytest.raises(Closed):
            stream.receive()
        with pytest.raises(ConnectionError):  # a provider that talks on is cut off
            wait_until(lambda: stream.send(BINARY, bytes(160)), "nobody takes it any more")
        wait_until(is_gone(world, "CA1"), "the call is released")


def test_within_the_grace_the_call_is_still_there(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1")
    for _ in range(3):
        with world.open(path) as stream:
            assert stream.echoes()
    time.sleep(1)
    assert world.call("CA1")["pod_name"] == pod
    assert world.place("CA2")[0] != pod


def test_a_client_that_comes_back_within_the_grace_keeps_its_call(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": "3s"})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
    with world.open(path) as stream:
        time.sleep(4)
        assert world.call("CA1")["pod_name"] == pod
        assert stream.echoes()
    wait_until(is_gone(world, "CA1"), "the call is released")


def test_several_streams_of_one_call_count_as_one(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": SOON, "GATEWAY_STREAMS_PER_CALL": "4"})
    pod, path = world.place("CA1")
    streams = [world.open(path) for _ in range(4)]
    for stream in streams[:3]:
        assert stream.echoes()
        stream.close()
        time.sleep(0.5)
        assert world.call("CA1")["pod_name"] == pod
    assert streams[3].echoes()
    streams[3].close()
    wait_until(is_gone(world, "CA1"), "the call is released after its last stream")


def test_a_call_that_was_released_elsewhere_does_not_take_the_next_one_with_it(world_of):
    """The agent released; the pod has a new call when the old stream closes. The new one stays."""
    world = world_of(agents=1, env={"GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
        world.router.release("CA1")
        assert world.place("CA2")[0] == pod
    time.sleep(1)
    assert world.call("CA2")["pod_name"] == pod


def test_streams_of_a_shared_pod_belong_to_their_own_calls(world_of):
    tiers = {"basic": {"type": "shared", "target": 1, "max_concurrent": 3}}
    world = world_of(agents=1, tiers=tiers, env={"GATEWAY_RELEASE_GRACE": SOON, "GATEWAY_SECRET": SECRET})
    paths = {call: world.place(call)[1] for call in ("CA1", "CA2", "CA3")}
    streams = {call: world.open(path) for call, path in paths.items()}
    assert all(stream.echoes() for stream in streams.values())
    streams["CA2"].close()
    wait_until(is_gone(world, "CA2"), "its own call is released")
    assert world.call("CA1") and world.call("CA3")
    assert streams["CA1"].echoes() and streams["CA3"].echoes()
    for call in ("CA1", "CA3"):
        streams[call].close()
        wait_until(is_gone(world, call), "each is released")


def shared_world(world_of, **env):
    tiers = {"basic": {"type": "shared", "target": 1, "max_concurrent": 3}}
    return world_of(agents=1, tiers=tiers, env={"GATEWAY_RELEASE_GRACE": SOON, **env})


def test_without_tickets_each_stream_of_a_shared_pod_holds_one_of_its_calls(world_of):
    """Nobody can say which is whose; but as many calls are left as there are streams."""
    world = shared_world(world_of)
    (path,) = {world.place(call)[1] for call in ("CA1", "CA2", "CA3")}
    streams = [world.open(path) for _ in range(3)]
    for left, stream in zip((2, 1, 0), streams):
        assert stream.echoes()
        stream.close()
        wait_until(lambda: world.router.get("/api/v1/calls").json()["total"] == left, "one call is released")
        time.sleep(0.5)
        assert world.router.get("/api/v1/calls").json()["total"] == left


def test_without_tickets_a_stream_belongs_to_the_call_that_its_path_names(world_of):
    world = shared_world(world_of, WS_URL_TEMPLATE="{base}/ws/pod/{pod}/calls/{call_sid}/audio")
    calls = ("CA:1", "CA:2", "CA:3")
    streams = {call: world.open(world.place(call)[1]) for call in reversed(calls)}
    second = world.open(world.place("CA:1")[1])
    for call in ("CA:2", "CA:3"):
        streams[call].close()
        wait_until(is_gone(world, call), "its own call is released")
    streams["CA:1"].close()
    time.sleep(1)
    assert world.call("CA:1"), "it has another stream"
    second.close()
    wait_until(is_gone(world, "CA:1"), "the last call is released")


def test_without_tickets_a_call_that_never_came_is_not_taken_for_the_next_one(world_of):
    world = shared_world(world_of)
    world.place("CA-gone")
    _, path = world.place("CA-here")
    with world.open(path) as stream:
        assert stream.echoes()
    wait_until(is_gone(world, "CA-here"), "the newer call is released")
    assert world.call("CA-gone")


# ----- Who dies, hangs or is slow -----


def test_a_dead_agent_closes_the_stream_ends_the_call_and_gets_no_other_until_it_is_back(world_of):
    world = world_of(is_killable=True, env={"GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    other = other_pod(world, pod)
    with world.open(path) as stream:
        assert stream.echoes()
        world.agents[pod].kill()
        with pytest.raises(Closed):
            stream.receive()
        with pytest.raises(ConnectionError):  # a provider has frames under way
            wait_until(lambda: stream.send(BINARY, bytes(160)), "nobody takes them")
    wait_until(is_gone(world, "CA1"), "the call of a dead agent ends")
    if world.front == "router":  # nginx hangs up at once, so that nobody notices yet
        wait_until(lambda: state_of(world, pod) == (True, []), "it is put aside before anybody has tried it")
    for number in range(4):
        call = f"CA-after-{number}"
        _, path = world.place(call)
        with world.open(path) as stream:
            assert stream.echoes()
            assert world.call(call)["pod_name"] == other
        wait_until(is_gone(world, call), "the call is released")
    assert state_of(world, pod) == (True, []), "the dead one was put aside"
    world.agents[pod].start()
    assert world.router.post("/api/v1/undrain", {"pod_name": pod}).status_code == 200
    streams = [world.open(world.place(call)[1]) for call in ("CA-x", "CA-y")]
    assert all(stream.echoes() for stream in streams)
    assert {world.call(call)["pod_name"] for call in ("CA-x", "CA-y")} == {pod, other}
    for stream in streams:
        stream.close()


def test_a_pod_that_breaks_a_stream_and_is_still_there_goes_on(world_of):
    world = world_of(is_manual=True, agents=1, env={"GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        world.agents[pod].accept().reset()
        with pytest.raises(Closed):
            stream.receive()
        wait_until(is_gone(world, "CA1"), "the call is released")
    time.sleep(0.5)
    assert state_of(world, pod) == (False, [])
    assert world.place("CA2")[0] == pod


def test_a_drain_that_somebody_asked_for_is_not_shortened_by_a_death(world_of):
    world = world_of(is_killable=True, env={"GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
        world.router.post("/api/v1/drain", {"pod_name": pod, "ttl_seconds": 3600})
        world.agents[pod].kill()
        with pytest.raises(ConnectionError):
            wait_until(lambda: stream.send(BINARY, bytes(160)), "nobody takes them")
    wait_until(is_gone(world, "CA1"), "the call of a dead agent ends")
    time.sleep(0.5)
    assert "it is put aside" not in world.router.log()


def test_a_pod_that_is_not_there_is_put_aside_and_the_client_never_notices(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1", merchant_id="acme")
    other = other_pod(world, pod)
    before = world.call("CA1")
    world.agents[pod].stop()
    with world.open(path) as stream:
        assert stream.echoes()
        after = world.call("CA1")
        assert after["pod_name"] == other
        assert {key: after[key] for key in ("merchant_id", "allocated_at")} == {
            key: before[key] for key in ("merchant_id", "allocated_at")
        }
        assert state_of(world, pod) == (True, [])
        assert state_of(world, other) == (False, ["CA1"])
        assert world.agents[other].heads[-1].path == path.removeprefix(f"/ws/pod/{pod}")
        assert any(line["level"] in ("warn", "warning") and pod in str(line) for line in world.router.log_lines())


@pytest.mark.parametrize("secret", (None, SECRET))
def test_a_moved_call_is_found_again_with_the_url_that_the_client_has(world_of, secret):
    """The provider knows only the first pod's URL, and its first pod is back, with another call even."""
    world = world_of(env={"GATEWAY_RELEASE_GRACE": LONG, "GATEWAY_SECRET": secret})
    pod, path = world.place("CA1")
    other = other_pod(world, pod)
    world.agents[pod].stop()
    with world.open(path) as stream:
        assert stream.echoes()
    if secret:
        world.agents[pod].start()
        with world.open(path) as stream:
            assert stream.echoes()
        assert world.agents[pod].heads == []
        assert len(world.agents[other].heads) == 2
    assert world.call("CA1")["pod_name"] == other


def test_without_another_pod_the_client_hears_503_and_the_call_stays(world_of):
    world = world_of(agents=1)
    pod, path = world.place("CA1")
    world.agents[pod].stop()
    with world.connect(path) as stream:
        assert stream.status == 503
        assert stream.head.get("retry-after")
    assert world.call("CA1")["pod_name"] == pod
    assert state_of(world, pod) == (True, ["CA1"])
    world.agents[pod].start()
    with world.open(path) as stream:
        assert stream.echoes()


def test_all_pods_gone_is_503_and_no_pod_has_two_calls(world_of):
    world = world_of(agents=3)
    pod, path = world.place("CA1")
    for agent in world.agents.values():
        agent.stop()
    assert world.refusal(path) == 503
    assert sum(len(state_of(world, name)[1]) for name in world.agents) == 1


def test_a_pod_that_does_not_even_refuse_is_left_after_the_connect_timeout(world_of):
    world = world_of(env={"GATEWAY_CONNECT_TIMEOUT": "300ms"})
    pod, path = world.place("CA1")
    agent = world.agents[pod]
    agent.stop()
    with silence_at(agent.address, agent.port), world.open(path) as stream:
        assert stream.echoes()
        assert world.call("CA1")["pod_name"] == other_pod(world, pod)
    assert state_of(world, pod) == (True, [])


def test_a_second_stream_follows_its_call_to_the_pod_that_the_first_one_found(world_of):
    """Both try the pod that is gone. The first gives it up and opens elsewhere, while the second is still waiting."""
    world = world_of(env={"GATEWAY_SECRET": SECRET, "GATEWAY_CONNECT_TIMEOUT": "1s", "GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1")
    agent = world.agents[pod]
    agent.stop()
    streams = []
    with silence_at(agent.address, agent.port):
        threads = [threading.Thread(target=lambda: streams.append(world.connect(path))) for _ in range(2)]
        for thread in threads:
            thread.start()
            time.sleep(0.4)
        for thread in threads:
            thread.join()
    assert [stream.status for stream in streams] == [101, 101]
    assert all(stream.echoes() for stream in streams)
    assert len(world.agents[other_pod(world, pod)].heads) == 2
    for stream in streams:
        stream.close()


def test_a_client_that_hangs_up_on_a_pod_that_is_gone_and_comes_back_gets_another(world_of):
    """The pod's machine is gone without a word, so that the router cannot know yet that the old stream is dead."""
    world = world_of(env={"GATEWAY_SECRET": SECRET, "GATEWAY_CONNECT_TIMEOUT": "300ms"}, is_manual=True)
    pod, path = world.place("CA1")
    agent = world.agents[pod]
    stream = world.open(path)
    with agent.accept() as dead:
        agent.stop()
        with silence_at(agent.address, agent.port):
            stream.close()
            assert dead.is_closed_by_other()  # so far the router has heard of it
            with world.open(path):
                assert world.call("CA1")["pod_name"] == other_pod(world, pod)
    assert state_of(world, pod) == (True, [])


def test_a_router_that_stood_still_blames_no_pod_for_it(start_world):
    """As on a machine that is paused or overloaded: the time to connect is over when it goes on, but the connection is there."""
    env = {"GATEWAY_SECRET": SECRET, "GATEWAY_CONNECT_TIMEOUT": "100ms", "GATEWAY_RELEASE_GRACE": LONG}
    world = start_world(agents=1, env=env, tiers={"basic": {"type": "shared", "target": 1, "max_concurrent": 20}})
    is_over = threading.Event()

    def come_and_go(path):
        while not is_over.is_set():
            with contextlib.suppress(Closed, OSError):
                world.connect(path).close()

    threads = [threading.Thread(target=come_and_go, args=(world.place(f"CA{number}")[1],)) for number in range(20)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        time.sleep(0.05)
        world.router.proc.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        world.router.proc.send_signal(signal.SIGCONT)
    is_over.set()
    for thread in threads:
        thread.join()
    assert state_of(world, "voice-agent-0")[0] is False
    assert "cannot be reached" not in world.router.log()


def test_a_router_without_descriptors_blames_no_pod_for_it(start_world):
    """Or one flood of clients would put all pods aside."""
    world = start_world(agents=4)
    pod, path = world.place("CA1")
    process = world.router.proc.pid
    _, hard = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{process}/fd")) + 1, hard))
    assert world.refusal(path) == 503
    resource.prlimit(process, resource.RLIMIT_NOFILE, (hard, hard))
    assert 'smart_router_gateway_refusals_total{reason="exhausted"} 1' in world.router.get("/metrics").text
    assert {name: state_of(world, name) for name in world.agents} == {
        name: (False, ["CA1"] if name == pod else []) for name in world.agents
    }
    with world.open(path) as stream:
        assert stream.echoes()


def test_a_pod_that_accepts_and_never_answers_is_504(world_of):
    world = world_of(agents=1, env={"GATEWAY_CONNECT_TIMEOUT": "100ms"})
    pod, path = world.place("CA1")
    agent = world.agents[pod]
    agent.stop()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((agent.address, agent.port))
        listener.listen(8)
        assert world.refusal(path) == 504
    assert world.call("CA1")["pod_name"] == pod


def test_a_killed_router_double_books_nobody_when_it_is_back(world_of):
    world = world_of(env={"GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    stream = world.open(path)
    assert stream.echoes()
    world.router.kill()
    with pytest.raises(Closed):
        stream.receive()
    stream.close()
    world.start_the_router()
    assert world.call("CA1")["pod_name"] == pod
    second, _ = world.place("CA2")
    assert second != pod
    assert world.router.post("/api/v1/allocate", {"call_sid": "CA3"}).status_code == 503
    with world.open(path) as stream:
        assert stream.echoes()
    wait_until(is_gone(world, "CA1"), "it lives again as calls do: until its stream closes")


def test_a_call_that_does_not_come_back_to_a_restarted_router_runs_out(world_of):
    """Not before HEARTBEAT_TTL: a router that has just started does not know who could be heard meanwhile.

    With RESCUE it would have a minute.
    """
    world = world_of(env={"LEASE_TTL": "2s", "HEARTBEAT_TTL": "2s", "RESCUE": "false"})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
        wait_until(lambda: stream.echoes() and world.call("CA1"), "it is there")
        time.sleep(1)
        world.router.kill()
    world.start_the_router()
    wait_until(is_gone(world, "CA1"), "its lease ran out")
    wait_until(lambda: state_of(world, pod) == (False, []), "its pod is free again")


def test_a_client_that_vanishes_is_cut_off_at_the_idle_timeout(world_of):
    """Neither side says anything, nor closes."""
    world = world_of(is_manual=True, env={"GATEWAY_IDLE_TIMEOUT": "1s", "GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    with world.open(path) as stream, world.agents[pod].accept() as agent:
        stream.send(TEXT, b"hello")
        assert agent.receive() == (True, TEXT, b"hello")
        with pytest.raises(Closed):
            agent.receive()
        wait_until(is_gone(world, "CA1"), "the call is released")
        with pytest.raises(Closed):
            stream.receive()


def test_a_client_that_vanishes_while_the_pod_speaks_is_cut_off_too(start_world):
    """Its window closes, and then nothing moves any more. nginx in between would go on acknowledging for a while."""
    world = start_world("router", is_manual=True, env={"GATEWAY_IDLE_TIMEOUT": "1s", "GATEWAY_RELEASE_GRACE": SOON})
    pod, path = world.place("CA1")
    with world.open(path, receive_buffer=4096), world.agents[pod].accept() as agent:
        with pytest.raises(OSError):  # closed or reset, not a timeout
            while True:
                agent.send_bytes(bytes(65536))
        wait_until(is_gone(world, "CA1"), "the call is released")


def test_a_stream_with_words_in_one_direction_only_is_not_idle(world_of):
    idle_s = 4  # no machine is so slow that a word takes longer
    world = world_of(is_manual=True, env={"GATEWAY_IDLE_TIMEOUT": f"{idle_s}s"})
    pod, path = world.place("CA1")
    with world.open(path) as stream, world.agents[pod].accept() as agent:
        end, number = time.monotonic() + 1.5 * idle_s, 0
        while time.monotonic() < end:
            number += 1
            agent.send(TEXT, b"%d" % number)
            assert stream.receive() == (True, TEXT, b"%d" % number)
            time.sleep(0.2)


def resident_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


class Pusher(threading.Thread):
    """Sends as much as it can, up to a limit; stops when nothing moves for a while."""

    def __init__(self, peer, limit):
        super().__init__(daemon=True)
        self.peer, self.limit, self.sent = peer, limit, 0
        self.start()

    def run(self):
        chunk = bytes(65536)
        self.peer.sock.settimeout(2)
        try:
            while self.sent < self.limit:
                self.sent += self.peer.sock.send(chunk)
        except TimeoutError:
            pass
        finally:
            self.peer.sock.settimeout(PATIENCE_S)


@pytest.mark.parametrize("who", ("client", "pod"))
def test_a_slow_reader_slows_nobody_and_does_not_grow_the_router(start_world, who):
    tiers = {"basic": {"type": "shared", "target": 1, "max_concurrent": 50}}
    world = start_world("router", agents=1, is_manual=True, tiers=tiers)
    agent = world.agents["voice-agent-0"]

    def pair(number):
        stream = world.open(world.place(f"CA{number}")[1], receive_buffer=65536 if who == "client" else None)
        return stream, agent.accept()

    pairs = [pair(number) for number in range(10)]
    lively = pair("-lively")
    before = resident_kb(world.router.proc.pid)
    limit = 100_000_000
    pushers = [Pusher(pod if who == "client" else stream, limit) for stream, pod in pairs]
    talked = 0
    while any(pusher.is_alive() for pusher in pushers):
        lively[0].send(BINARY, bytes(160))
        assert lively[1].receive() == (True, BINARY, bytes(160))
        lively[1].send(BINARY, bytes(160))
        assert lively[0].receive() == (True, BINARY, bytes(160))
        talked += 1
    grown = resident_kb(world.router.proc.pid) - before
    assert talked > 50
    assert all(pusher.sent < limit for pusher in pushers), "somebody took all of it"
    assert grown < 16 * 1024, f"the router grew by {grown} KB while {sum(p.sent for p in pushers)} bytes were sent"
    for (stream, pod), pusher in zip(pairs, pushers):
        reader = stream if who == "client" else pod
        assert reader.exactly(pusher.sent) == bytes(pusher.sent), "what was sent arrives when it is read"
    for stream, pod in (*pairs, lively):
        stream.close()
        pod.close()


def test_connections_leave_nothing_behind(world_of):
    """Descriptors are counted after many streams as before them."""
    world = world_of(agents=1, env={"GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1")

    def descriptors():
        return len(os.listdir(f"/proc/{world.router.proc.pid}/fd"))

    def some(count):
        for number in range(count):
            with world.open(path) as stream:
                assert stream.echoes()
                if number % 3 == 0:
                    stream.reset()
            with world.connect(f"/ws/pod/{pod}-x/y") as stream:
                assert stream.status == 404

    some(5)
    before = descriptors()
    some(100)
    wait_until(lambda: descriptors() <= before + 2, "no descriptor is left over")


def test_a_stopping_router_lets_go_of_its_streams_and_keeps_their_calls(world_of):
    world = world_of(env={"HTTP_SHUTDOWN_TIMEOUT": "1s"})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
        assert world.router.stop() == 0
        with pytest.raises(Closed):
            stream.receive()
    world.start_the_router()
    assert world.call("CA1")["pod_name"] == pod
    with world.open(path) as stream:
        assert stream.echoes()
