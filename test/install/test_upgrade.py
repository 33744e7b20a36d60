"""The last release and this version: side by side on one Redis, and one after the other on the same data.

The last release (test/data/releases, or UPGRADE_FROM, a revision) is built from the history of this repository by
scripts/build-version. Where the clone does not have that history, there is nothing to compare with, and the tests of two
versions are not there; the first test says so. UPGRADE_SECONDS is how long both versions work side by side.
"""

import json
import os
import random
import subprocess
import time

import basics
import load
import pytest
import test_redis_replicas
import test_samples
from conftest import BINARY, DEADLINE_S, ROOT, harness, wait_until

SECONDS = float(os.environ.get("UPGRADE_SECONDS") or "15")
CLIENTS = 32
STATIC = test_redis_replicas.STATIC
MEDIA = [f"agent-{i}" for i in range(12)]  # they come first, and so does their pool
TIERS = json.loads(test_redis_replicas.TIERS)
TIERS["tiers"]["merchant:agents"] = {"target": len(MEDIA)}


def find_older():
    """(path of the binary or None, what is to be said about it)"""
    revision = os.environ.get("UPGRADE_FROM")
    found = subprocess.run([ROOT / "scripts/build-version", *([revision] if revision else [])], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return found.stdout.strip(), f"the older version is {found.stdout.strip().split('/')[-2][:12]}"
    return None, f"no older version was tested: {found.stderr.strip()}"


OLDER, ABOUT_OLDER = find_older()


def test_the_older_version_is_named(tell):
    tell(ABOUT_OLDER)
    assert OLDER or "history" in ABOUT_OLDER, "it is in the history, and does not build"


def test_a_sample_of_this_version_can_be_made_and_read(tmp_path, start_router):
    subprocess.run([ROOT / "scripts/make-sample", tmp_path / "sample", BINARY], check=True, timeout=3 * DEADLINE_S, capture_output=True)
    test_samples.test_the_data_of_a_release_is_read_and_used(tmp_path / "sample", tmp_path, start_router)


class Versions:
    """Routers of both versions on one Redis."""

    def __init__(self, server, start_on, monkeypatch, agents):
        self.server, self.start_on, self.monkeypatch = server, start_on, monkeypatch
        pods = [f"{pod}={agents[i % len(agents)]}" for i, pod in enumerate(MEDIA)] + STATIC
        self.env = {
            "TIER_CONFIG": json.dumps(TIERS),
            "STATIC_PODS": ",".join(pods),
            "CLEANUP_INTERVAL": "300ms",
            "REDIS_TIMEOUT": "10s",
            "GATEWAY_SECRET": "the-first-secret-is-long-enough",
            "GATEWAY_RELEASE_GRACE": "1s",
        }

    def start(self, which, port=0):
        self.monkeypatch.setattr(harness, "BINARY", OLDER if which == "old" else BINARY)
        router = self.start_on(self.server, {**self.env, "HTTP_PORT": port})
        assert router.proc.args[0] == str(OLDER if which == "old" else BINARY)
        return router


@pytest.fixture
def versions(redis_server, start_on, monkeypatch, agents):
    return Versions(redis_server, start_on, monkeypatch, agents)


@pytest.fixture
def agents():
    """agent-sim: the addresses of its agents."""
    command = [BINARY.parent / "tools/agent-sim", "--agents", "4", "--base-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = iter(process.stdout.readline, "ready\n")
    yield [line.split()[2] for line in lines if line.startswith("agent ")]
    process.terminate()
    process.wait(DEADLINE_S)


def provider(allocator, carrier, duration):
    """Calls that one router places and the other one carries."""
    command = [BINARY.parent / "tools/provider-sim", "--router", allocator.url, "--connect-to", f"127.0.0.1:{carrier.port}", "--merchant", "media"]
    command += ["--concurrent", 5, "--rate", 5, "--seconds", 2, "--duration", int(duration), "--json", "--quiet"]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)


def look(client, rng):
    """Pages and configuration, which the versions store with different members."""
    time.sleep(rng.random() * 0.2)
    for path in ("/api/v1/calls?limit=100", "/api/v1/pods?limit=100", "/api/v1/status", "/api/v1/merchants"):
        status, answer, _, _ = client.ask("GET", path)
        assert status == 200, (path, status, answer)
    merchant = f"changed-{rng.randrange(3)}"
    status, answer, _, _ = client.ask("PUT", f"/api/v1/merchants/{merchant}", {"tier": rng.choice(("gold", "standard", "basic"))})
    assert status == 200, answer
    if rng.random() < 0.3:
        client.ask("DELETE", f"/api/v1/merchants/{merchant}")


def keep_alive(client, rng, number):
    """A call that is renewed, by whichever version."""
    call_sid = f"kept-{number}-{rng.randrange(10**9)}"
    pod = client.allocate(call_sid)
    for _ in range(rng.randrange(5) if pod else 0):
        time.sleep(rng.random() * 0.2)
        status, answer, _, _ = client.ask("POST", "/api/v1/renew", {"call_sid": call_sid})
        assert status == 200 or pod in test_redis_replicas.FLAPPING, (pod, answer)
    while not client.release(call_sid):
        time.sleep(0.05)


def start_load(history, urls):
    work = load.Load(history)
    callers = load.Callers(history, urls, hot=8, hold_s=0.1, merchants=("", "", "m"))
    callers.start(work, CLIENTS - 4)
    for i in range(3):
        work.start(keep_alive, load.Client(history, urls), random.Random(100 + i), i)
    work.start(look, load.Client(history, urls), random.Random(200))
    for i, (pod, tier) in enumerate(test_redis_replicas.FLAPPING.items()):
        work.start(test_redis_replicas.flap, load.Client(history, urls), random.Random(i), pod, tier)
    work.start(test_redis_replicas.drain, load.Client(history, urls), random.Random(99))
    return work, callers


def finish_load(work, callers, urls, history):
    work.stop()
    callers.finish()
    client = load.Client(history, urls)
    for pod in test_redis_replicas.FLAPPING:
        client.end_pod("DELETE", f"/api/v1/pod/{pod}")
    for pod in STATIC:
        client.ask("POST", "/api/v1/undrain", {"pod_name": pod})


def leader_of(router):
    return router.get("/api/v1/status").json()["is_leader"]


if OLDER:  # else there is nothing to test, which is no failure of this version: see above

    @pytest.mark.parametrize("order", (("old", "new"), ("new", "old")), ids="-then-".join)
    def test_two_versions_on_one_redis(order, versions, redis_server, tell):
        first_version, second_version = order
        first = versions.start(first_version)
        first.put("/api/v1/merchants/m", {"pool": "m"})
        first.put("/api/v1/merchants/media", {"pool": "agents", "fallback": ["none"]})
        port = basics.free_port()
        urls = [first.url, f"http://127.0.0.1:{port}"]
        history = load.History()
        history.avoided.add(port)
        work, callers = start_load(history, urls)
        time.sleep(2)
        second = versions.start(second_version, port)
        history.avoided.discard(port)
        providers = [provider(first, second, SECONDS), provider(second, first, SECONDS)]
        time.sleep(SECONDS)
        summaries = [json.loads(one.communicate(timeout=DEADLINE_S)[0]) for one in providers]
        beside = history.answers()
        history.avoid(first.port)
        assert first.stop() == 0
        wait_until(lambda: leader_of(second), "the second one leads")
        time.sleep(3)
        finish_load(work, callers, urls[1:], history)

        found = load.violations(history, test_redis_replicas.room)
        tell(
            f"{first_version}, then both for {SECONDS:.0f} s, then {second_version}; {CLIENTS} clients: {history.answers()} answers ({beside} until the "
            f"first one stopped), {len(history.allocations)} allocations with success, {len(load.sure_times(history))} surely live for a while; "
            f"{sum(one['calls'] for one in summaries)} streams placed by one version and carried by the other, "
            f"{sum(one['failed'] + one['busy'] for one in summaries)} failed; {len(found)} violations"
        )
        assert found == []
        errors = {key: n for key, n in history.outcomes.items() if "None" in key or "500" in key}
        assert errors == {}, errors
        assert history.outcomes["allocate 200 new"] > 100 and history.outcomes["allocate 200 existing"] > 20
        assert all(one["fine"] and one["calls"] > 5 for one in summaries), summaries
        test_redis_replicas.nothing_is_lost(second, redis_server.client(), STATIC + MEDIA)
        assert not [line for router in (first, second) for line in router.log_lines() if line["level"] == "error"]

    def test_the_older_version_reads_what_this_one_stores_in_redis(start_on, redis_server, monkeypatch):
        """Members that it does not know have no effect; a drain without an end stays one."""
        env = {"STATIC_PODS": "p0,p1,p2", "TIER_CONFIG": json.dumps({"gold": 2, "standard": 1})}
        router = start_on(redis_server, env)
        pod = router.allocate("CA1", merchant_id="a")["pod_name"]
        drained = next(one for one in ("p0", "p1", "p2") if one != pod)
        assert router.post("/api/v1/drain", {"pod_name": drained, "ttl_seconds": 0}).status_code == 200
        assert router.put("/api/v1/merchants/a", {"tier": "gold", "priority": 3, "hold_seconds": 5}).status_code == 200
        tiers = {"tiers": {"gold": {"target": 2, "buffer": 1, "min": 1, "max": 3}, "standard": {"target": 1}}, "default_chain": ["gold", "standard"]}
        assert router.put("/api/v1/tiers", tiers).status_code == 200
        assert router.post("/api/v1/renew", {"call_sid": "CA1"}).status_code == 200
        assert router.stop() == 0
        monkeypatch.setattr(harness, "BINARY", OLDER)
        older = start_on(redis_server, env)
        wait_until(lambda: leader_of(older), "the older one leads")
        time.sleep(1)  # some sweeps
        assert older.get(f"/api/v1/pod/{drained}").json()["state"] == "draining"
        assert older.allocate("CA1")["was_existing"]
        assert older.allocate("CA2", merchant_id="a")["pod_name"] not in (pod, drained)
        assert older.post("/api/v1/allocate", {"call_sid": "CA3", "merchant_id": "a"}).status_code == 503
        assert older.get("/api/v1/merchants/a").json()["tier"] == "gold"
        assert not [line for line in older.log_lines() if line["level"] == "error"]

    def test_the_older_version_refuses_newer_data_and_changes_nothing(start_router, run_router, tmp_path, monkeypatch):
        router = start_router(data_dir=tmp_path / "data")
        router.allocate("CA1")
        assert router.stop() == 0
        files = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir() if path.name != "lock"}
        monkeypatch.setattr(harness, "BINARY", OLDER)
        done = run_router(data_dir=tmp_path / "data")
        assert done.returncode == 1
        assert "start it with the program that wrote it" in done.output or "written by a newer version" in done.output, done.output
        assert "truncate" not in done.output
        assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir() if path.name != "lock"} == files
        monkeypatch.setattr(harness, "BINARY", BINARY)
        router = start_router(data_dir=tmp_path / "data")
        assert router.get("/api/v1/call/CA1").status_code == 200

    def test_the_older_version_refuses_its_own_data_after_an_upgrade(start_router, run_router, tmp_path, monkeypatch):
        monkeypatch.setattr(harness, "BINARY", OLDER)
        router = start_router(data_dir=tmp_path / "data")
        router.allocate("CA1")
        assert router.stop() == 0
        monkeypatch.setattr(harness, "BINARY", BINARY)
        router = start_router(data_dir=tmp_path / "data")
        assert router.allocate("CA1")["was_existing"]
        assert router.post("/api/v1/renew", {"call_sid": "CA1"}).status_code == 200  # a record that 0.1.0 does not know
        router.kill()
        monkeypatch.setattr(harness, "BINARY", OLDER)
        done = run_router(data_dir=tmp_path / "data")
        assert done.returncode == 1 and "truncate" not in done.output, done.output
        monkeypatch.setattr(harness, "BINARY", BINARY)
        router = start_router(data_dir=tmp_path / "data")
        assert router.get("/api/v1/call/CA1").json()["renewed_by"] == "client"
