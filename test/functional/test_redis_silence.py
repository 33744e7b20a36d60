"""Silence that nobody could hear is nobody's fault, with the store in Redis as well.

While Redis is out of reach no heartbeat arrives: when it is back, pods and calls must have a chance to speak first.
"""

import os
import signal
import threading
import time

import pytest
import test_silence
from conftest import wait_until
from redis_servers import SURVIVES_KILL
from test_redis_fence import NO_RESCUE, call, text_of
from test_silence import TTL_S, a_pod_with_a_call, heartbeat, is_alive, speaks

ENV = {**test_silence.ENV, "CLEANUP_INTERVAL": "50ms", "REDIS_TIMEOUT": "500ms"}


class Speaker:
    """A pod that heartbeats all the time, whether it is heard or not; less often than the router sweeps."""

    def __init__(self, router):
        self.router = router
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.is_over.wait(TTL_S / 2):
            speaks(self.router)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def no_call_was_lost(router):
    answer = wait_until(lambda: (one := heartbeat(router)).status_code != 503 and one, "the pod is heard")
    assert answer.status_code == 200 and answer.json()["renewed"] == ["CA1"], answer.text  # not adopted: it is the same call
    wait_until(lambda: is_alive(router), "the store has both")
    assert not router.log_lines("call ended") and not router.log_lines("pod gone")


@pytest.mark.parametrize("election", ["true", "false"])
def test_a_redis_that_was_stopped_ends_no_call(redis_server, start_on, election):
    router = start_on(redis_server, {**ENV, "LEADER_ELECTION_ENABLED": election})
    a_pod_with_a_call(router)
    with Speaker(router):
        for _ in range(2):
            with redis_server.paused():
                time.sleep(2.5 * TTL_S)
            wait_until(lambda: router.get("/ready").status_code == 200, "Redis is back")
            time.sleep(TTL_S)  # many sweeps
            no_call_was_lost(router)


def test_a_redis_that_was_down_ends_no_call(start_redis, start_on):
    server = start_redis(**SURVIVES_KILL)
    router = start_on(server, {**ENV, "LEADER_ELECTION_ENABLED": "false"})
    a_pod_with_a_call(router)
    with Speaker(router):
        server.kill()
        time.sleep(2.5 * TTL_S)
        server.start()
        wait_until(lambda: router.get("/ready").status_code == 200, "Redis is back")
        time.sleep(TTL_S)
        no_call_was_lost(router)


def test_a_router_that_was_stopped_ends_no_call(redis_server, start_on):
    router = start_on(redis_server, {**ENV, "LEADER_ELECTION_ENABLED": "false"})
    a_pod_with_a_call(router)
    os.kill(router.proc.pid, signal.SIGSTOP)
    time.sleep(2.5 * TTL_S)
    os.kill(router.proc.pid, signal.SIGCONT)
    time.sleep(0.5)
    no_call_was_lost(router)


def test_routers_that_were_all_down_end_no_call(redis_server, start_on):
    router = start_on(redis_server, ENV)
    a_pod_with_a_call(router)
    assert router.stop() == 0
    time.sleep(1.5 * TTL_S)
    router = start_on(redis_server, ENV)
    wait_until(lambda: router.get("/api/v1/status").json().get("is_leader"), "it leads")
    time.sleep(0.5)
    no_call_was_lost(router)


@pytest.mark.parametrize("was_stopped", [False, True])
def test_silence_that_could_be_heard_ends_it(redis_server, start_on, was_stopped):
    """The counterpart: forgiven is not forgotten."""
    router = start_on(redis_server, ENV)
    a_pod_with_a_call(router)
    if was_stopped:
        with redis_server.paused():
            time.sleep(2.5 * TTL_S)
    wait_until(lambda: router.log_lines("call ended"), "the end of the call is logged")
    wait_until(lambda: router.get("/api/v1/pod/box-1").status_code == 404, "the pod is gone")


def test_a_sweep_that_lay_around_while_redis_was_stopped_does_nothing(redis_server):
    client = redis_server.client()
    call(client, "seen", "", "90000", "1", *NO_RESCUE, "box-1", "10.0.0.1:80", "uid-1", "", "api", "r", "0")
    client.zadd("voice:heartbeats", {"box-1": 1})
    for script in ("begin_sweep", "sweep_calls", "sweep_pods"):
        text_of(script)  # which takes its time: the steps of a sweep follow one another
    asked = int(call(client, "begin_sweep", "", ""))
    for script, rest in (("sweep_calls", ["50", "2000"]), ("sweep_pods", ["2000", "50", "0", *NO_RESCUE])):
        with pytest.raises(Exception, match="^LATE"):
            call(client, script, "", asked - 3001, *rest)
    assert client.hexists("voice:pods", "box-1")
    call(client, "sweep_pods", "", asked, "2000", "50", "0", *NO_RESCUE)
    assert not client.hexists("voice:pods", "box-1")
