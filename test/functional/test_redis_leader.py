"""Who leads, where there is no Kubernetes to ask: a lock in Redis."""

import os
import signal
import time

from conftest import wait_until

DURATION_S = 5  # as in redis_servers.QUICK


def status(router):
    return router.get("/api/v1/status").json()


def leads(router):
    """None: right after a sleep it may have lost Redis for a moment, and does not know."""
    return status(router).get("is_leader")


def leaders(routers):
    return [router for router in routers if leads(router)]


def agree(routers):
    """Exactly one leads, and everybody says who; returns it and the others."""

    def settled():
        states = [status(router) for router in routers]
        if any("leader" not in state for state in states):  # the store is out of reach
            return None
        names = {state["leader"] for state in states}
        if sum(state["is_leader"] for state in states) != 1 or len(names) != 1 or "" in names:
            return None
        return leaders(routers)

    found = wait_until(settled, "one leads, and all know it")
    return found[0], [router for router in routers if router is not found[0]]


def syncs(router):
    """How many syncs it has done so far; a follower does none."""
    name = "smart_router_sync_duration_seconds_count "
    counts = [line for line in router.get("/metrics").text.splitlines() if line.startswith(name)]
    return int(counts[0].removeprefix(name)) if counts else 0


def start_three(redis_server, start_on):
    return [start_on(redis_server, {"POD_NAME": f"router-{i}"}) for i in range(3)]


def test_one_leads_and_only_it_acts(redis_server, start_on):
    leader, others = agree(start_three(redis_server, start_on))
    client = redis_server.client()
    assert client.get("voice:leader") == status(leader)["leader"]
    assert 0 < client.pttl("voice:leader") <= DURATION_S * 1000
    assert status(leader)["leader"].startswith(leader.env["POD_NAME"])
    before = syncs(leader)
    wait_until(lambda: syncs(leader) >= before + 3, "the leader syncs")
    assert [syncs(router) for router in others] == [0, 0]
    for router in others:
        assert not says_that_it_leads(router)
        assert router.allocate(f"CA-{router.port}")["pod_name"]  # followers serve
    assert says_that_it_leads(leader)


def test_it_stays_the_leader(redis_server, start_on):
    """Renewed again and again, for longer than the lock lasts."""
    leader, others = agree(start_three(redis_server, start_on))
    fence = redis_server.client().get("voice:leader:fence")
    time.sleep(DURATION_S + 1)
    assert leads(leader) and not any(leads(router) for router in others)
    assert redis_server.client().get("voice:leader:fence") == fence
    assert len(leader.log_lines("this router leads")) == 1


def test_sigterm_gives_the_lock_up(redis_server, start_on):
    leader, others = agree(start_three(redis_server, start_on))
    client = redis_server.client()
    fence = int(client.get("voice:leader:fence"))
    name = client.get("voice:leader")
    assert leader.stop() == 0
    assert client.get("voice:leader") != name  # nobody has to wait until it runs out
    new, _ = agree(others)
    assert int(client.get("voice:leader:fence")) == fence + 1
    wait_until(lambda: syncs(new) > 0, "the new leader acts")


def test_kill_9_is_followed_by_another_after_the_duration(redis_server, start_on):
    leader, others = agree(start_three(redis_server, start_on))
    client = redis_server.client()
    name = client.get("voice:leader")
    leader.kill()
    assert client.get("voice:leader") == name  # it runs out by itself
    new, _ = agree_after(others, name)
    wait_until(lambda: syncs(new) > 0, "the new leader acts")


def agree_after(routers, name):
    wait_until(lambda: all(status(router)["leader"] not in ("", name) for router in routers), "another one leads")
    return agree(routers)


def test_a_leader_that_slept_follows_when_it_wakes(redis_server, start_on):
    leader, others = agree(start_three(redis_server, start_on))
    client = redis_server.client()
    name = client.get("voice:leader")
    os.kill(leader.proc.pid, signal.SIGSTOP)
    try:
        new, _ = agree_after(others, name)
        time.sleep(0.5)
    finally:
        os.kill(leader.proc.pid, signal.SIGCONT)
    wait_until(lambda: leads(leader) is False, "it follows")
    acts = syncs(leader)
    agree([leader, *others])
    assert leads(new)
    before = syncs(new)
    wait_until(lambda: syncs(new) >= before + 3, "the new one syncs")
    assert syncs(leader) <= acts + 1 and not leads(leader)
    assert client.get("voice:leader") == status(new)["leader"]


def test_a_leader_that_slept_does_not_act_before_it_has_looked(redis_server, start_on):
    """What its timers were about to do when it was stopped is not done when it wakes: another one leads by then.

    It has other pods in its settings than the others: if it synced, theirs would be gone, with their calls.
    """
    old = start_on(redis_server, {"STATIC_PODS": "old-0,old-1", "RECONCILE_INTERVAL": "50ms", "CLEANUP_INTERVAL": "50ms"})
    wait_until(lambda: leads(old), "it leads")
    for _ in range(2):
        os.kill(old.proc.pid, signal.SIGSTOP)
        try:
            new = start_on(redis_server, {"STATIC_PODS": "new-0,new-1", "RECONCILE_INTERVAL": "24h"}, wait=False)
            new.env["STATIC_PODS"] = ""
            new.wait_ready()
            wait_until(lambda router=new: leads(router), "the new one leads")
            names = lambda router=new: {p["pod_name"] for p in router.get("/api/v1/pods").json()["pods"]}
            wait_until(lambda: names() == {"new-0", "new-1"}, "its pods are there")
            pod = new.allocate("CA1")["pod_name"]
        finally:
            os.kill(old.proc.pid, signal.SIGCONT)
        wait_until(lambda: leads(old) is False, "the old one follows")
        time.sleep(0.3)
        assert names() == {"new-0", "new-1"}
        assert (again := new.allocate("CA1"))["was_existing"] and again["pod_name"] == pod
        new.release("CA1")
        new.stop()
        wait_until(lambda: leads(old), "the old one leads again")


def says_that_it_leads(router):
    """As its metrics have it, which need no store."""
    page = router.client.get(router.metrics_url + "/metrics").text.splitlines()
    assert ("smart_router_leader_status 1" in page) != ("smart_router_leader_status 0" in page)
    return "smart_router_leader_status 1" in page


def test_without_redis_nobody_leads_and_then_one_does_again(redis_server, start_on):
    routers = start_three(redis_server, start_on)
    agree(routers)
    with redis_server.paused():
        for router in routers:
            wait_until(lambda r=router: not says_that_it_leads(r), "it does not lead")
    agree(routers)


def test_a_lock_that_was_deleted_by_hand_is_taken_again(redis_server, start_on):
    routers = start_three(redis_server, start_on)
    agree(routers)
    client = redis_server.client()
    for _ in range(3):
        client.delete("voice:leader")
        wait_until(lambda: client.exists("voice:leader"), "somebody takes it")
        agree(routers)


def test_a_wiped_store_is_led_by_who_led_it(redis_server, start_on):
    routers = start_three(redis_server, start_on)
    leader, _ = agree(routers)
    client = redis_server.client()
    for _ in range(3):
        client.flushall()
        wait_until(lambda: client.exists("voice:leader"), "somebody takes it")
        again, _ = agree(routers)
        assert again is leader


def test_a_wiped_store_whose_leader_died_is_led_by_another(redis_server, start_on):
    leader, others = agree(start_three(redis_server, start_on))
    leader.kill()
    redis_server.client().flushall()
    new, _ = agree(others)
    wait_until(lambda: len(new.get("/api/v1/pods").json()["pods"]) == 5, "the pools are rebuilt")


def test_election_switched_off(redis_server, start_on):
    first = start_on(redis_server, {"LEADER_ELECTION_ENABLED": "false"})
    second = start_on(redis_server)
    assert leads(first)
    wait_until(lambda: leads(second), "the other one knows nothing of it")
    assert first.get("/api/v1/status").json()["leader"] != second.get("/api/v1/status").json()["leader"]


def test_a_lock_and_a_number_that_were_made_by_hand(redis_server, start_on):
    """Without an end, nobody would lead for ever; without a number, nothing could tell an old leader from a new one."""
    client = redis_server.client()
    client.set("voice:leader", "somebody")
    client.set("voice:leader:fence", "many")
    agree([start_on(redis_server) for _ in range(2)])
    assert int(client.get("voice:leader:fence")) > 0
    assert client.pttl("voice:leader") > 0
