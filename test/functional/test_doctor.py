"""`smart-router doctor` against set-ups that are broken for real: it names the fault, and a command that helps, first."""

import datetime
import json
import os
import re
import subprocess

import basics
import cli_runs
import pytest
import tls
from basics import free_port
from conftest import BINARY, BUILD_DIR, DEADLINE_S, ROOT, wait_until
from test_commands import scripted

# A set-up in which nothing is wrong; each test breaks one thing.
WELL = {
    "API_KEY": "a-key-for-these-tests-alone",
    "TWILIO_AUTH_TOKEN": "a-token-of-twilio-0123456789",
    "PLIVO_AUTH_TOKEN": "a-token-of-plivo-0123456789",
    "EXOTEL_TOKEN": "a-token-of-exotel-0123456789",
    "GATEWAY_SECRET": "a-secret-of-the-gateway-0123456789",
    "PUBLIC_BASE_URL": "https://voice.example.com",
}
DURABLE = {"appendonly": "yes"}
SHIM = (BUILD_DIR if BUILD_DIR.is_absolute() else ROOT / BUILD_DIR) / "test/clock-shim.so"


def without_numbers(text):
    """Ages and differences of clocks are others a moment later."""
    return re.sub(r"\d+", "#", text)


class Doctor:
    """Runs the command with the key of these tests."""

    def __init__(self, tmp_path):
        self.tmp_path = tmp_path
        self.key = tmp_path / "key"
        self.key.write_text(WELL["API_KEY"])

    def run(self, router, *args, env=None):
        return cli_runs.run(self.tmp_path, "doctor", "--api-key-file", self.key, *args, url=router.url, env=env)

    def findings(self, router, env=None):
        code, out, err = self.run(router, "--json", env=env)
        assert err == "", err
        answer = json.loads(out)
        assert code == (0 if answer["is_well"] else 1)
        return answer["findings"]

    def first(self, router, env=None):
        """The worst finding; fails if nothing is wrong."""
        findings = self.findings(router, env)
        assert findings, "nothing is found"
        return findings[0]

    def expect(self, router, name, sentence, command, env=None):
        """The first finding, in JSON and as text."""
        found = wait_until(lambda: (one := (self.findings(router, env) or [None])[0]) and one["name"] == name and one, f"{name} is found first")
        assert re.search(sentence, found["sentence"]), found
        assert re.search(command, found["command"]), found
        code, out, _ = self.run(router, env=env)
        assert code == (0 if found["weight"] == "note" else 1)
        assert without_numbers(out).startswith(without_numbers(f"{found['weight']}: {found['sentence'][:60]}"))
        assert found["command"] in out
        return found


@pytest.fixture
def doctor(tmp_path):
    return Doctor(tmp_path)


@pytest.fixture
def start_well(start_router):
    """start_well(env=None) -> a router with a store of its own, and nothing wrong but what env says."""
    return lambda env=None, **kwargs: start_router({**WELL, **(env or {})}, **kwargs)


@pytest.fixture
def start_well_on(start_on):
    """start_well_on(server, env=None): the same with a store in Redis."""
    return lambda server, env=None, **kwargs: start_on(server, {**WELL, **(env or {})}, **kwargs)


def calm(doctor, router):
    """Waits until the doctor finds nothing: a router that has just started is left alone for some seconds."""
    wait_until(lambda: doctor.findings(router) == [], "nothing is wrong")


@pytest.mark.parametrize("store", ["embedded", "redis"])
def test_a_set_up_in_order_has_nothing_wrong(doctor, start_well, start_well_on, start_redis, store):
    router = start_well() if store == "embedded" else start_well_on(start_redis(**DURABLE))
    calm(doctor, router)
    assert doctor.run(router) == (0, "Nothing is wrong.\n", "")


def test_no_router_and_a_wrong_key_are_told(doctor, start_well, tmp_path):
    code, out, err = cli_runs.run(tmp_path, "doctor", url=f"http://127.0.0.1:{free_port()}")
    assert (code, out) == (3, "") and "no answer" in err and "systemctl status smart-router" in err
    router = start_well()
    code, out, err = cli_runs.run(tmp_path, "doctor", url=router.url)
    assert (code, out) == (1, "") and "401" in err and "--api-key-file" in err


# ---- settings: each is one router with one mistake ----

SETTINGS = {
    "stream_url": ({"PUBLIC_BASE_URL": None}, r"localhost:8080: its host is this machine", r"PUBLIC_BASE_URL=https://"),
    "stream_url ws": ({"PUBLIC_BASE_URL": None, "VOICE_AGENT_BASE_URL": "ws://voice.example.com"}, "no TLS", "PUBLIC_BASE_URL=https://"),
    "no_api_key": ({"API_KEY": None}, "no API key", "API_KEY_FILE="),
    "no_provider_token": ({"PLIVO_AUTH_TOKEN": None}, "in the name of plivo:", "PLIVO_AUTH_TOKEN_FILE="),
    "no_gateway_secret": ({"GATEWAY_SECRET": None}, "GATEWAY_SECRET is not set", "openssl rand"),
    "callers_cannot_wait": (
        {"HOLD_MAX_WAIT": "1m", "PUBLIC_BASE_URL": None, "VOICE_AGENT_BASE_URL": "wss://voice.example.com"},
        "callers are refused at once .*Look at PUBLIC_BASE_URL", "smart-router check-config"),
    "callers_cannot_wait rescue": ({"HOLD_MAX_WAIT": "1m", "RESCUE": "false"}, "Look at RESCUE", "smart-router check-config"),
    "callers_cannot_wait template": (
        {"HOLD_MAX_WAIT": "1m", "WS_URL_TEMPLATE": "wss://{pod}.example.com/{call_sid}"}, "Look at WS_URL_TEMPLATE", "smart-router check-config"),
    "calls_do_not_resume": (
        {"PUBLIC_BASE_URL": None, "VOICE_AGENT_BASE_URL": "wss://voice.example.com"}, "lose their calls when a router stops", "smart-router check-config"),
    "log_not_synced": ({"LOG_FSYNC": "no"}, "never syncs", "LOG_FSYNC=everysec"),
    "no_pods": ({"STATIC_PODS": None, "POD_SOURCE": "api"}, "no pod, and every call is refused .POD_SOURCE=api", "/api/v1/pods"),
    "tier_empty": ({"TIER_CONFIG": '{"gold":2,"platinum":9}', "STATIC_PODS": "a,b"}, "platinum has 0 of 9", "STATIC_PODS="),
    "tier_small": ({"TIER_CONFIG": '{"gold":9}', "STATIC_PODS": "a,b"}, "gold has 2 of 9", "smart-router autoscale"),
    "pods_not_read": (
        {"POD_SOURCE": "kubernetes", "STATIC_PODS": None, "NAMESPACE": "voice", "KUBECONFIG": "KUBECONFIG"},
        "pods of the namespace voice were never read", "kubectl -n voice auth can-i list pods"),
}


def broken_kubeconfig(tmp_path):
    """Kubernetes at a port where nobody listens."""
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_is_named_first(doctor, start_well, tmp_path, name):
    env, sentence, command = SETTINGS[name]
    env = {key: broken_kubeconfig(tmp_path) if value == "KUBECONFIG" else value for key, value in env.items()}
    doctor.expect(start_well(env), name.split()[0], sentence, command)


def test_on_the_loopback_address_alone_keys_and_tokens_may_be_missing(doctor, start_router):
    router = start_router({"HTTP_BIND": "127.0.0.1"})
    calm(doctor, router)


@pytest.mark.parametrize("days,name,sentence", [(-1, "certificate_ended", "has ended"), (5, "certificate_ends", "ends soon")])
def test_a_certificate_that_ends_is_told(doctor, start_well, tmp_path, days, name, sentence):
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)
    certificate = tls.Certificate(tmp_path / "tls", start="20200101000000Z", end=end.strftime("%Y%m%d%H%M%SZ"))
    doctor.expect(start_well(certificate.env), name, sentence, "openssl x509 .*systemctl reload smart-router")


def test_tiers_that_differ_from_the_setting_are_noted(doctor, start_well):
    router = start_well({"TIER_CONFIG": '{"gold":{"target":5}}'})
    calm(doctor, router)
    router.put("/api/v1/tiers", {"gold": {"target": 4}})
    doctor.expect(router, "tier_config_differs", "not what is stored", "smart-router tiers get")
    assert doctor.run(router)[1].endswith("Nothing is wrong.\n")  # it is a note
    router.post("/api/v1/tiers/rollback")
    assert doctor.findings(router) == []


# ---- pods and calls, each mended with the command that is shown ----

def test_a_router_without_a_free_pod_says_what_holds_them(doctor, start_well, tmp_path):
    router = start_well({"TIER_CONFIG": '{"gold":2}', "STATIC_PODS": "a,b"})
    for sid in ("CA1", "CA2"):
        router.allocate(sid)
    found = doctor.expect(router, "no_capacity", "2 pods are busy", "smart-router calls --older-than 1h")
    assert "no_heartbeats" in [finding["name"] for finding in doctor.findings(router)]
    assert "smart-router release SID" in found["command"]
    assert cli_runs.run(tmp_path, "release", "CA1", "--api-key-file", doctor.key, url=router.url)[0] == 0
    router.post("/api/v1/pod/a/heartbeat", {"call_sids": []})
    assert [finding["name"] for finding in doctor.findings(router)] == []
    router.release("CA2")
    for pod in ("a", "b"):
        router.post("/api/v1/drain", {"pod_name": pod})
    found = doctor.expect(router, "no_capacity", "2 are draining", "smart-router pods --state draining .*undrain POD")
    assert cli_runs.run(tmp_path, "undrain", "a", "--api-key-file", doctor.key, url=router.url)[0] == 0
    doctor.expect(router, "pods_draining", "1 of 2 pods are draining", "smart-router undrain POD")
    assert cli_runs.run(tmp_path, "undrain", "b", "--api-key-file", doctor.key, url=router.url)[0] == 0
    assert doctor.findings(router) == []


def test_refused_calls_of_one_merchant_are_told_while_others_have_room(doctor, start_well):
    router = start_well({"TIER_CONFIG": '{"gold":2}', "STATIC_PODS": "a,b"})
    router.put("/api/v1/merchants/acme", {"fallback": ["glod"]})
    assert router.post("/api/v1/allocate", {"call_sid": "CA1", "merchant_id": "acme"}).status_code == 503
    doctor.expect(router, "calls_refused", "1 call got no pod in the last five minutes", "smart-router events .*smart-router why SID")


def wait_for_pod(router, sid):
    return router.post("/api/v1/allocate", {"call_sid": sid, "wait": True})


def test_calls_that_wait_and_a_line_that_is_full_are_told(doctor, start_well, tmp_path):
    router = start_well({"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": "a", "HOLD_MAX_WAIT": "10m", "HOLD_MAX_CALLS": "2"})
    router.allocate("CA1")
    router.post("/api/v1/pod/a/heartbeat", {"call_sids": ["CA1"]})
    doctor.expect(router, "no_capacity", "every new call must wait: 1 pods are busy", "smart-router calls")
    assert wait_for_pod(router, "CA2").status_code == 202
    found = {one["name"]: one for one in doctor.findings(router)}
    assert list(found) == ["no_capacity", "calls_wait"]
    assert re.match(r"1 call waits for a pod, the longest for \d+s", found["calls_wait"]["sentence"])
    assert found["calls_wait"]["command"].startswith("smart-router waiting ")
    assert wait_for_pod(router, "CA3").status_code == 202
    found = {one["name"]: one for one in doctor.findings(router)}
    assert list(found) == ["no_capacity", "line_full", "calls_wait"] and "2 calls wait, and further ones are refused" in found["line_full"]["sentence"]
    assert wait_for_pod(router, "CA4").status_code == 503
    for sid in ("CA2", "CA3", "CA1"):
        assert cli_runs.run(tmp_path, "release", sid, "--api-key-file", doctor.key, url=router.url)[0] == 0
    assert [one["name"] for one in doctor.findings(router)] == ["calls_refused"]


@pytest.mark.parametrize("free,pools,waited,is_found", [
    (1, ["merchant:acme", "pool:gold"], 9, True), (1, ["merchant:gold"], 9, False), (0, ["pool:gold"], 9, False), (1, ["pool:gold"], 1, False),
    (1, [7, None], 9, False)])
def test_a_call_that_waits_beside_a_free_pod_is_told(doctor, free, pools, waited, is_found):
    """A router whose store was changed by hand, and whose leader does not serve: no real one does this."""
    tiers = {"gold": {"free": free, "is_configured": True, "assigned": 1, "target": 1}, "basic": {"free": 1}}
    answers = {
        "/api/v1/diagnosis": {"store": {"is_ready": True, "name": "embedded"}, "is_leader": True, "leader": "me", "settings": {"http_bind": "127.0.0.1"}},
        "/api/v1/status": {"tiers": tiers, "pods": 1, "active_calls": 0, "waiting": 1, "leader": "me", "is_leader": True, "status": "up"},
        "/api/v1/waiting": {"waiting": [{"call_sid": "CA1", "pools": pools, "waited_seconds": waited}], "next_cursor": ""},
    }
    with scripted(lambda method, path: (200, json.dumps(answers.get(path.partition("?")[0], {"calls": [], "pods": []})).encode())) as url:
        code, out, err = cli_runs.run(doctor.tmp_path, "doctor", "--json", url=url)
    assert (code, err) == (1, "")
    found = {one["name"]: one for one in json.loads(out)["findings"]}
    assert ("waits_beside_free_pod" in found) == is_found and "calls_wait" in found
    if is_found:
        assert "1 call waits for a pod of gold, although one is free" in found["waits_beside_free_pod"]["sentence"]
        assert found["waits_beside_free_pod"]["command"].startswith("smart-router call CA1; ")


def test_a_call_whose_lease_has_run_out_is_told(doctor, start_well, tmp_path):
    router = start_well({"LEASE_TTL": "1s", "CLEANUP_INTERVAL": "24h", "CONNECT_TIMEOUT": "24h"})
    router.allocate("CA1")
    assert router.post("/api/v1/renew", {"call_sid": "CA1"}).status_code == 200
    doctor.expect(router, "calls_expired", "The lease of 1 call has run out", "smart-router release CA1")
    assert cli_runs.run(tmp_path, "release", "CA1", "--api-key-file", doctor.key, url=router.url)[0] == 0
    assert doctor.findings(router) == []


# ---- Redis ----

def test_a_store_that_is_down_is_the_first_to_be_told(doctor, start_well_on, redis_server):
    router = start_well_on(redis_server, {"API_KEY": WELL["API_KEY"], "PLIVO_AUTH_TOKEN": None})
    redis_server.kill()
    doctor.expect(router, "store_down", "The store is down, and calls are refused", "redis-cli -u .* ping")
    assert "no_provider_token" in [finding["name"] for finding in doctor.findings(router)]


def test_what_is_wrong_with_redis_is_told_and_mended(doctor, start_well_on, start_redis):
    """One Redis, broken in one way after the other; each time the command that is shown mends it."""
    server = start_redis()
    router = start_well_on(server)
    mend = lambda found: server.cli(*re.search(r'redis-cli -u "\$REDIS_URL" ([^#;]*)', found["command"])[1].split())
    mend(doctor.expect(router, "redis_without_log", "no append-only file", "config set appendonly yes"))
    calm(doctor, router)
    server.cli("config", "set", "maxmemory", "1gb")
    server.cli("config", "set", "maxmemory-policy", "allkeys-lru")
    mend(doctor.expect(router, "redis_evicts", "allkeys-lru", "config set maxmemory-policy noeviction"))
    calm(doctor, router)
    used = int(server.client().info("memory")["used_memory"])
    server.cli("config", "set", "maxmemory", str(used + used // 20))
    mend(doctor.expect(router, "redis_full", "of its", r"config set maxmemory \d+mb"))
    calm(doctor, router)
    snapshot = os.path.join(server.directory, "dump.rdb")
    os.mkdir(snapshot)  # a snapshot cannot take the place of a directory
    server.client().bgsave()
    doctor.expect(router, "redis_cannot_write", "cannot write to its disk", "info persistence; df -h .*bgsave")
    os.rmdir(snapshot)
    server.client().bgsave()
    calm(doctor, router)


def test_a_redis_that_tells_nothing_of_itself_is_not_judged(doctor, start_well_on, start_redis):
    server = start_redis(has_port=True)
    server.cli("ACL", "SETUSER", "router", "on", ">secret", "~*", "&*", "+@all", "-info", "-config")
    router = start_well_on(server, {"REDIS_URL": f"redis://router:secret@127.0.0.1:{server.port}"})
    calm(doctor, router)
    facts = router.get("/api/v1/diagnosis").json()
    assert "redis" not in facts and abs(facts["store"]["clock_ahead_ms"]) < 60000


def test_a_store_that_was_emptied_is_told(doctor, start_well_on, start_redis):
    server = start_redis(**DURABLE)
    router = start_well_on(server)
    calm(doctor, router)
    server.cli("flushall")
    doctor.expect(router, "redis_lost_data", "lost all its data 1 time since", "smart-router merchant list")


def test_stored_tiers_that_cannot_be_read_are_told_and_mended(doctor, start_well_on, start_redis, tmp_path):
    server = start_redis(**DURABLE)
    router = start_well_on(server)
    calm(doctor, router)
    server.cli("set", "voice:tier:config", "this is no JSON")
    doctor.expect(router, "tiers_unreadable", "could not be read", "smart-router tiers rollback")
    assert cli_runs.run(tmp_path, "tiers", "set", "-", "--api-key-file", doctor.key, url=router.url, stdin='{"gold":5}')[0] == 0
    assert router.get("/api/v1/tiers").json()["tiers"] == {"gold": {"type": "exclusive", "target": 5}}


def test_no_leader_is_told_and_mended(doctor, start_well_on, start_redis):
    server = start_redis(**DURABLE)
    server.client().hset("voice:leader", "made", "by hand")
    router = start_well_on(server, wait=False)
    router.env["POD_SOURCE"] = "api"  # no pod can be there without a leader: do not wait for them
    router.wait_ready()
    found = doctor.expect(router, "no_leader", "No router leads", "redis-cli .* del voice:leader")
    server.cli(*re.search(r'redis-cli -u "\$REDIS_URL" ([^#]*)', found["command"])[1].split())
    calm(doctor, router)


def test_a_leader_that_is_dead_is_told_and_mended(doctor, start_well_on, start_redis):
    """The lock of a router that died, with a life that is far too long."""
    server = start_redis(**DURABLE)
    first = start_well_on(server)
    leader = first.get("/api/v1/status").json()["leader"]
    first.kill()
    client = server.client()
    assert client.persist("voice:leader")
    client.delete(*client.keys("voice:carrier:*"), "voice:routers")
    second = start_well_on(server)
    found = doctor.expect(second, "leader_gone", f"The leader is {leader}, but", "redis-cli .* del voice:leader")
    server.cli(*re.search(r'redis-cli -u "\$REDIS_URL" ([^#]*)', found["command"])[1].split())
    calm(doctor, second)


def test_a_damaged_key_does_not_make_the_leader_dead(doctor, start_well_on, start_redis):
    server = start_redis(**DURABLE)
    first = start_well_on(server)
    second = start_well_on(server)
    leader = first.get("/api/v1/status").json()["leader"]
    names = lambda: {router["name"] for router in second.get("/api/v1/diagnosis").json()["routers"]}
    wait_until(lambda: len(names()) == 2, "both have said that they are there")
    with server.client().pipeline() as both:  # in one step: the leader may write the key at any time
        both.delete(f"voice:carrier:{leader}")
        both.hset(f"voice:carrier:{leader}", "damaged", "1")
        both.execute()
    assert len(names()) == 2 and leader in names()
    assert "leader_gone" not in [finding["name"] for finding in doctor.findings(second)]


def test_versions_that_differ_are_told(doctor, start_well_on, start_redis, tmp_path):
    """The second router is the same program with another version in it."""
    server = start_redis(**DURABLE)
    router = start_well_on(server)
    calm(doctor, router)
    version = router.get("/api/v1/status").json()["version"]
    other = version[:-1] + ("1" if version[-1] != "1" else "2")
    text = BINARY.read_bytes()
    assert version.encode() + b"\0" in text
    program = tmp_path / "smart-router-of-another-version"
    program.write_bytes(text.replace(version.encode() + b"\0", other.encode() + b"\0"))
    program.chmod(0o700)
    env = {**router.env, "POD_NAME": "older", "DATA_DIR": str(tmp_path / "older")}
    proc = subprocess.Popen([program], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        doctor.expect(router, "versions_differ", rf"{re.escape(version)} here, {re.escape(other)} on older_", "kubectl rollout status")
    finally:
        proc.terminate()
        proc.wait(DEADLINE_S)
    calm(doctor, router)


@pytest.fixture
def shifted(tmp_path):
    """shifted(seconds) -> the environment of a program whose clock is ahead by that."""
    if not SHIM.exists():
        basics.skip("the build has no clock-shim.so: build the tests")

    def make(seconds):
        path = tmp_path / f"offset-{seconds}"
        path.write_bytes(int(seconds).to_bytes(8, "little", signed=True))
        # A build with AddressSanitizer wants to be the first library; the shim may come before it.
        options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"LD_PRELOAD": str(SHIM), "CLOCK_SHIM_OFFSET_FILE": str(path), "ASAN_OPTIONS": options}

    return make


def test_clocks_that_are_apart_are_told(doctor, start_well_on, start_redis, shifted, monkeypatch):
    env = shifted(-90)
    with monkeypatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        server = start_redis(**DURABLE)
    router = start_well_on(server)
    doctor.expect(router, "clock_of_redis", "The clock of Redis is 1m(30|29|31)s behind that of the router", "timedatectl .*chronyc makestep")
    assert "clock_of_router" not in [finding["name"] for finding in doctor.findings(router)]


def test_a_clock_of_this_machine_that_is_wrong_is_told(doctor, start_well, shifted):
    router = start_well()
    calm(doctor, router)
    doctor.expect(router, "clock_of_router", "The clock of the router is 1m(30|29|31)s ahead of that of this machine", "timedatectl", shifted(-90))


def test_a_watch_goes_on_while_something_is_wrong(doctor, start_well, tmp_path):
    router = start_well({"LOG_FSYNC": "no", "GATEWAY_SECRET": None})
    terminal = cli_runs.InTerminal(tmp_path, "doctor", "--watch=100ms", "--api-key-file", doctor.key, url=router.url)
    terminal.read("GATEWAY_SECRET is not set")
    terminal.text = ""
    terminal.read("GATEWAY_SECRET is not set")
    terminal.proc.send_signal(2)
    assert terminal.end() == 0


def test_the_diagnosis_has_no_secret(start_well):
    text = start_well().get("/api/v1/diagnosis").text
    assert not any(value in text for name, value in WELL.items() if name != "PUBLIC_BASE_URL")
