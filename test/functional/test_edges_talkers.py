"""The watcher of the pods: it finds two calls that talk on one pod, and nothing else."""

import time

import pytest
import talkers
from conftest import wait_until


@pytest.fixture
def watched():
    """One pod, watched closely."""
    one = talkers.Talkers(interval_s=0.05, tolerance_s=0.3)
    yield one
    one.close()


def test_two_calls_that_talk_on_one_pod_are_found(watched):
    first, second = (watched.open_direct(call_sid, "agent-0") for call_sid in ("CA1", "CA2"))
    wait_until(lambda: watched.violations, "it is found")
    assert "CA1" in watched.violations[0] and "CA2" in watched.violations[0] and "agent-0" in watched.violations[0]
    assert watched.talking("agent-0") == {"CA1", "CA2"}
    assert first.is_open and second.is_open and len(watched.violations) == 1  # told once


@pytest.mark.parametrize("how", ["end", "frame", "reset"])
def test_a_call_that_has_ended_talks_no_more(watched, how):
    first = watched.open_direct("CA1", "agent-0")
    first.close(how)
    wait_until(lambda: watched.talking("agent-0") == set(), "the agent has noticed")
    with_second = watched.open_direct("CA2", "agent-0")
    time.sleep(1)
    assert with_second.wait_echo() and watched.violations == []


def test_two_streams_of_one_call_are_one_call(watched):
    streams = [watched.open_direct("CA1", "agent-0") for _ in range(2)]
    time.sleep(1)
    assert all(stream.wait_echo() for stream in streams)
    assert watched.violations == []


def test_a_short_meeting_is_tolerated(watched):
    watched.open_direct("CA1", "agent-0", wait=False)
    second = watched.open_direct("CA2", "agent-0")
    second.close()
    time.sleep(1)
    assert watched.violations == []


def test_a_stream_that_is_cut_off_is_noticed(watched):
    stream = watched.open_direct("CA1", "agent-0")
    watched.do(lambda: [talk.transport.abort() for talk in list(watched.pods["agent-0"].talks)])
    assert stream.closed.wait(talkers.PATIENCE_S)
    assert watched.cut_off == [stream] and not stream.is_open


def test_a_pod_that_takes_its_time_or_refuses(watched):
    pod = watched.pods["agent-0"]
    pod.handshake_s = 0.3
    stream = watched.open_direct("CA1", "agent-0", wait=False)
    wait_until(lambda: pod.handshakes == 1, "it was asked")
    assert watched.talking("agent-0") == set()
    stream.wait_open()
    pod.refusal = talkers.REFUSAL
    assert watched.open_direct("CA2", "agent-0", wait=False).wait_answer() == 503
