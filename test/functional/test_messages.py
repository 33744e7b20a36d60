"""What an operator reads when something is wrong: at which level, in whose words, and how soon."""

import re
import subprocess

import httpx
import pytest
import redis_servers
from conftest import BINARY, clean_environment, wait_until
from scripted_pods import ScriptedPods
from test_kubernetes_rows import ENV

ERRNO_TEXTS = re.compile(
    "Transport endpoint|socket is not connected|Resource temporarily|Operation canceled|Stale file|Bad message", re.I
)


def starting_with(router, text):
    return [line for line in router.log_lines() if line["msg"].startswith(text)]


def metric(router, name):
    (line,) = [line for line in router.get("/metrics").text.splitlines() if line.startswith(name + " ")]
    return float(line.split()[1])


def test_redis_away_with_calls_refused_is_an_error_in_words(start_on, redis_server):
    router = start_on(redis_server)
    router.allocate("CA1")
    redis_server.kill()
    wait_until(lambda: router.get("/ready").status_code == 503, "the router has noticed")
    assert router.post("/api/v1/allocate", {"call_sid": "CA2"}).status_code == 503
    assert router.get("/api/v1/pods").status_code == 503
    (refused,) = wait_until(lambda: starting_with(router, "call not allocated"), "the refusal is said")
    assert (refused["level"], refused["cause"]) == ("error", "there is no connection to Redis")
    away = wait_until(lambda: starting_with(router, "redis is not reachable: calls are refused"), "and why")
    assert away[0]["level"] == "error"
    (lost,) = starting_with(router, "redis connection lost")
    assert lost["level"] == "warn"
    assert not ERRNO_TEXTS.search(router.log())


@pytest.mark.parametrize(("secret", "code"), [("", "NOAUTH"), (":wrong-password@", "WRONGPASS"), ("nobody:x@", "WRONGPASS")])
def test_a_wrong_password_is_not_called_unreachable(start_redis, start_on, secret, code):
    server = start_redis(requirepass="the-right-one-0123", has_port=True)
    router = start_on(server, {"REDIS_URL": f"redis://{secret}127.0.0.1:{server.port}"}, wait=False)
    (line, *_) = wait_until(
        lambda: starting_with(router, "redis refuses the router's user or password: calls are refused"), "it is said"
    )
    assert line["level"] == "error" and code in line["reason"]
    assert not starting_with(router, "redis is not reachable") and "wrong-password" not in router.log()
    assert not router.log_lines("store opened")


def test_a_missing_right_is_not_called_unreachable(start_redis, start_on):
    server = start_redis(has_port=True)
    server.client().execute_command("ACL", "SETUSER", "weak", "on", ">pw", "~voice:*", "&*", "+@all", "-evalsha")
    router = start_on(server, {"REDIS_URL": f"redis://weak:pw@127.0.0.1:{server.port}"}, wait=False)
    (line, *_) = wait_until(lambda: router.log_lines("redis reports an error"), "it is said")
    cause = "Redis refuses the router's user: its password is wrong, or it lacks a right"
    assert (line["level"], line["meaning"]) == ("error", cause) and "evalsha" in line["text"]
    url = f"http://127.0.0.1:{router.log_lines('listening')[0]['port']}"
    assert httpx.post(f"{url}/api/v1/allocate", json={"call_sid": "CA1"}, trust_env=False).status_code == 503
    assert httpx.get(f"{url}/ready", trust_env=False).json()["reason"] == cause
    (refused,) = wait_until(lambda: starting_with(router, "call not allocated"), "the refusal is said")
    assert refused["cause"] == cause


def test_the_store_is_opened_when_it_is(start_redis, start_on):
    server = start_redis(has_port=True)
    server.kill()
    router = start_on(server, wait=False)
    wait_until(lambda: starting_with(router, "redis is not reachable"), "it is not there yet")
    assert not router.log_lines("store opened")
    server.start()
    router.wait_ready()
    (line,) = router.log_lines("store opened")
    assert (line["store"], line["key_prefix"], line["tiers"]) == ("redis", "voice:", 3)


def test_the_status_says_that_the_store_is_away(start_on, redis_server):
    router = start_on(redis_server)
    wait_until(lambda: router.get("/api/v1/status").json()["is_leader"], "it leads")
    members = set(router.get("/api/v1/status").json())
    redis_server.stop()
    answer = wait_until(
        lambda: (answer := router.get("/api/v1/status")).json()["status"] == "down" and answer, "it is noticed"
    )
    assert (answer.status_code, answer.json()["store"]) == (200, "redis")
    assert members - set(answer.json()) == {"pools", "tiers", "pods", "active_calls"}


def test_a_router_that_leads_alone_waits_for_its_first_connection(start_redis, start_on):
    server = start_redis()
    router = start_on(server, {"LEADER_ELECTION_ENABLED": "false"})  # all pods are there
    assert router.log_lines("background task failed") == []
    late = start_redis(has_port=True)
    late.kill()
    router = start_on(late, {"LEADER_ELECTION_ENABLED": "false"}, wait=False)
    wait_until(lambda: router.log_lines("background task failed"), "a Redis that stays away is said")
    late.start()
    router.wait_ready()


def test_a_wiped_redis_is_said_at_once_and_counted(start_on, redis_server):
    routers = [start_on(redis_server, redis_servers.QUIET) for _ in range(2)]
    wipes = lambda: sum(metric(router, "smart_router_store_wipes_total") for router in routers)
    lines = lambda: [line for router in routers for line in starting_with(router, "Redis has lost all that was stored")]
    synced = "smart_router_sync_duration_seconds_count 1"
    wait_until(lambda: all(synced in router.get("/metrics").text for router in routers), "both have told their pods")
    assert wipes() == 0
    redis_server.cli("FLUSHALL")
    wait_until(lines, "it is said although nobody asks for anything")
    assert len(lines()) == 1 and lines()[0]["level"] == "error" and wipes() == 1
    # Ready: the router can decide. But there is no pod.
    assert routers[0].get("/ready").status_code == 200
    refused = routers[0].post("/api/v1/allocate", {"call_sid": "CA1"})
    assert (refused.status_code, refused.json()["error"]) == (503, "no pods available")
    # Losing the tiers alone is not that.
    redis_server.client().hset("voice:pods", "voice-agent-9", "{}")
    redis_server.cli("DEL", "voice:tier:config")
    wait_until(lambda: redis_server.client().exists("voice:tier:config"), "the tiers are stored again")
    assert len(lines()) == 1


def test_a_namespace_without_a_pod_is_said_at_once_and_counted(start_router):
    with ScriptedPods() as kube:
        router = start_router({**ENV, **kube.where, "RECONCILE_INTERVAL": "200ms"})
        (first,) = wait_until(lambda: starting_with(router, "Kubernetes lists no pods"), "it is said")
        assert first["level"] == "warn" and "calls are refused" in first["effect"]
        (second,) = wait_until(lambda: starting_with(router, "no pod in the namespace"), "it is confirmed")
        assert (second["level"], second["namespace"]) == ("error", first["namespace"])
        assert metric(router, "smart_router_empty_pod_lists_total") >= 2
        assert router.get("/ready").status_code == 200


def test_a_kubeconfig_that_runs_a_program_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "config").write_text(
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: a, user: me}}]\n"
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: me, user: {exec: {command: aws}}}]\n"
    )
    env = {"KUBECONFIG": tmp_path / "config", "STATIC_PODS": None}
    done = subprocess.run(
        [str(BINARY)], env=clean_environment(env, tmp_path / "data"), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "exec is not supported: run `kubectl proxy` beside the router and set KUBE_API_URL=" in done.stdout + done.stderr
