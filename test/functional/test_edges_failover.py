"""A failover that loses the last seconds: the promoted replica has never heard of calls whose streams are open.

EDGE_STREAMS is how many there are.
"""

from conftest import wait_until
from edges import calls_of, carry, expect_carried, promoted, wait_free, wait_ready, wait_swept
from talkers import setting

STREAMS = int(setting("EDGE_STREAMS", 20))
ENV = {"LEASE_TTL": "15m", "REDIS_TIMEOUT": "1s", "GATEWAY_RELEASE_GRACE": "1s", "LEADER_ELECTION_ENABLED": "true"}


def refusal(router, call_sid):
    """After a failover no pod is given away for a moment: that is no answer yet."""
    answer = router.post("/api/v1/allocate", {"call_sid": call_sid})
    return None if answer.json().get("code") == "unavailable" else answer


def test_no_stream_is_closed_because_a_failover_lost_its_call(group, start_on, start_talkers, tell):
    talkers = start_talkers(pods=STREAMS)
    routers = [start_on(group.primary, {**talkers.env, **ENV, **group.env}) for _ in range(2)]
    for client in group.clients:
        wait_until(lambda c=client: c.scard("voice:pool:gold:available") == STREAMS, "the replicas know the pods")
    group.cut_replication()
    carried = carry(talkers, routers, STREAMS)
    for client in group.clients:
        assert client.zcard("voice:calls:active") == 0, "a replica has heard of the calls"
    talkers.note("the primary dies")
    group.primary.kill()
    new = wait_until(lambda: promoted(group), "a replica is promoted")
    talkers.note("a replica is promoted")
    wait_ready(*routers)
    group.stay()  # a second one could take back the releases below
    # The leases are long: the carriers do not wait for the next renewal, they renew as soon as they are connected.
    for router in routers:
        expect_carried(talkers, router, carried)
    assert new.zcard("voice:calls:active") == STREAMS
    wait_swept(*routers)
    for i, router in enumerate(routers):
        answer = wait_until(lambda r=router, i=i: refusal(r, f"new-{i}"), "pods are given away again")
        assert (answer.status_code, answer.json()["code"]) == (503, "no_pods"), answer.text
    expect_carried(talkers, routers[0], carried)
    # Each of them is a call as before: it can be released, and its stream's end ends it.
    for call_sid, (pod, stream) in list(carried.items())[::2]:
        assert routers[1].release_until_answered(call_sid) in (pod, None)
        assert stream.closed.wait(30), "the stream outlives its call"
    left = {call_sid: pod for call_sid, (pod, stream) in carried.items() if stream.is_open}
    assert len(left) == STREAMS // 2 and calls_of(routers[0]) == left
    for call_sid in left:
        carried[call_sid][1].close()
    wait_free(routers[0])
    tell(f"a failover that lost {STREAMS} calls with open streams: none was closed, all are known again")
