"""What is said before a router serves: variables that are no settings, TIER_CONFIG, and `check-config` with its files."""

import datetime
import json
import os
import wave

import pytest
import tls
from conftest import wait_until

UNKNOWN = "a variable of the environment looks like a setting and is none: it has no effect"
IGNORED = "TIER_CONFIG has a member that is ignored; PUT /api/v1/tiers would refuse it"
DIFFERS = "TIER_CONFIG differs from the stored tiers, and the stored ones are in force"
SERVICE_PORTS = (
    "Kubernetes has set variables for services, which are also names of settings: they are ignored. "
    "Set them in the container, or set enableServiceLinks: false in the pod's spec"
)


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_variable_that_looks_like_a_setting_is_warned_about(start_router):
    router = start_router({"HTTP_PROT": "8081", "LEADER_ELECTION_TIMEOUT": "3s", "HTTP_PROXY": "http://127.0.0.1:1",
                           "REDIS_PORT": "tcp://10.0.0.7:6379", "NODE_NAME": "node-1"})  # fmt: skip
    lines = {line["variable"]: line for line in router.log_lines(UNKNOWN)}
    assert set(lines) == {"HTTP_PROT", "LEADER_ELECTION_TIMEOUT"}
    assert (lines["HTTP_PROT"]["level"], lines["HTTP_PROT"]["nearest"]) == ("warn", "HTTP_PORT")
    assert "8081" not in json.dumps(list(lines.values()))


def test_a_port_that_kubernetes_has_set_for_a_service_is_ignored_and_named(start_router, check):
    links = {"VOICE_AGENT_PORT": "tcp://10.0.0.1:8080", "TLS_PORT": "udp://10.0.0.2:53"}
    (line,) = start_router(links).log_lines(SERVICE_PORTS)
    assert (line["level"], line["names"]) == ("warn", "VOICE_AGENT_PORT TLS_PORT")
    status, errors = check(**links)
    assert status == 0 and errors.startswith("warning: Kubernetes has set VOICE_AGENT_PORT TLS_PORT for services: ignored.")
    status, errors = check(VOICE_AGENT_PORT="http://10.0.0.1:8080")
    assert status == 2 and "VOICE_AGENT_PORT is" in errors


def test_an_unknown_member_of_tier_config_is_warned_about_and_ignored(start_router):
    router = start_router({"TIER_CONFIG": '{"gold":{"targt":2},"standard":5}'})
    (line,) = router.log_lines(IGNORED)
    assert (line["level"], line["error"]) == ("warn", 'unknown member "targt" in tier "gold"; did you mean "target"?')
    assert router.get("/api/v1/tiers").json()["tiers"]["gold"] == {"type": "exclusive", "target": 0}


def test_with_redis_a_tier_config_that_differs_is_said_once(redis_server, start_on):
    first = start_on(redis_server, {"TIER_CONFIG": '{"gold":2}'})
    second = start_on(redis_server, {"TIER_CONFIG": '{"gold":{"target":3}}', "TIER_REFRESH_INTERVAL": "100ms"})
    third = start_on(redis_server, {"TIER_CONFIG": None})
    said = lambda router: [line for line in router.log_lines() if line["msg"].startswith(DIFFERS)]
    (line,) = wait_until(lambda: said(second), "it is said")
    assert (line["stored"]["tiers"]["gold"]["target"], line["tier_config"]["tiers"]["gold"]["target"]) == (2, 3)
    assert "curl -X PUT" in line["msg"]
    first.put("/api/v1/tiers", {"gold": 4})
    wait_until(lambda: second.get("/api/v1/tiers").json()["tiers"]["gold"]["target"] == 4, "the second one has read it")
    assert (len(said(first)), len(said(second)), len(said(third))) == (0, 1, 0)


# check-config opens what the settings name.


@pytest.fixture
def check(run_router):
    def run(**env):
        done = run_router(env, args=["check-config"])
        return done.returncode, done.stderr.decode()

    return run


def test_check_config_is_content_with_good_files(check, tmp_path):
    certificate = tls.Certificate(tmp_path)
    key = write(tmp_path / "api-key", "a-key-that-is-long-enough\n")
    assert check(API_KEY_FILE=key, **certificate.env) == (0, "")


@pytest.mark.parametrize(
    "start, end, found",
    [(-30, -2, "has expired: it was valid until"), (2, 30, "is not valid yet")],
    ids=["expired", "early"],
)
def test_check_config_looks_at_the_dates_of_the_certificate(check, tmp_path, start, end, found):
    now = datetime.datetime.now(datetime.timezone.utc)
    dates = [(now + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in (start, end)]
    certificate = tls.Certificate(tmp_path, start=dates[0], end=dates[1])
    status, errors = check(**certificate.env)
    assert status == 1 and errors.startswith("TLS_CERT_FILE: ") and found in errors


def test_check_config_warns_of_a_certificate_that_expires_soon(check, tmp_path):
    now = datetime.datetime.now(datetime.timezone.utc)
    dates = [(now + datetime.timedelta(days=days)).strftime("%Y%m%d%H%M%SZ") for days in (-1, 3)]
    status, errors = check(**tls.Certificate(tmp_path, start=dates[0], end=dates[1]).env)
    assert status == 0 and errors.startswith("warning: TLS_CERT_FILE: ") and "expires soon" in errors


def test_check_config_compares_certificate_and_key(check, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    env = dict(tls.Certificate(one).env)
    env["TLS_KEY_FILE"] = tls.Certificate(other).env["TLS_KEY_FILE"]
    status, errors = check(**env)
    assert status == 2 and "TLS_KEY_FILE" in errors  # a router would not start with them


def test_check_config_finds_secrets_that_are_empty_or_everybodys(check, tmp_path):
    status, errors = check(API_KEY_FILE=write(tmp_path / "empty", ""))
    assert status == 2 and "API_KEY_FILE" in errors and "is empty" in errors
    keys = write(tmp_path / "keys", "ops admin a-secret-that-is-long-enough\n", 0o644)
    status, errors = check(API_KEYS_FILE=keys)
    assert status == 1 and errors.startswith("API_KEYS_FILE: every user of this machine can read") and "a-secret" not in errors
    status, errors = check(API_KEYS_FILE=write(tmp_path / "bad", "ops chief a-secret-that-is-long-enough\n"))
    assert status == 2 and "API_KEYS" in errors and "line 1" in errors


def kubeconfig(user):
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    })  # fmt: skip


def test_check_config_reads_the_kubeconfig(check, tmp_path):
    env = {"STATIC_PODS": None, "POD_SOURCE": "kubernetes"}
    good = write(tmp_path / "good", kubeconfig({"token": "a-token"}))
    assert check(KUBECONFIG=good, **env) == (0, "")
    for text, found in (("{", ""), (kubeconfig({"exec": {"command": "x"}}), "exec"), ("{}", "")):
        status, errors = check(KUBECONFIG=write(tmp_path / "bad", text), **env)
        assert status == 1 and errors.startswith("KUBECONFIG: ") and found in errors, errors
    status, errors = check(KUBECONFIG=str(tmp_path / "nowhere"), **env)
    assert status == 1 and errors.startswith("KUBECONFIG: ") and "nowhere" in errors


def test_check_config_compares_the_client_certificate_of_the_kubeconfig(check, tmp_path):
    env = tls.Certificate(tmp_path, start="20200101000000Z", end="20200201000000Z").env
    user = {"client-certificate": str(env["TLS_CERT_FILE"]), "client-key": str(env["TLS_KEY_FILE"])}
    path = write(tmp_path / "kubeconfig", kubeconfig(user))
    status, errors = check(KUBECONFIG=path, STATIC_PODS=None, POD_SOURCE="kubernetes")
    assert status == 1 and errors.startswith("KUBECONFIG: ") and "has expired" in errors


def test_check_config_looks_at_the_data_directory(check, tmp_path):
    status, errors = check(DATA_DIR=write(tmp_path / "file", ""))
    assert status == 1 and errors.startswith("DATA_DIR: ") and "is not a directory" in errors
    if os.getuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        status, errors = check(DATA_DIR=str(tmp_path / "locked"))
        assert status == 1 and "cannot be written" in errors


def test_check_config_names_what_is_ignored(check):
    status, errors = check(HTTP_PROT="1", TIER_CONFIG='{"gold":{"targt":2}}', TIER_CONFIG_FILE="/etc/tiers")
    assert status == 0
    assert "warning: HTTP_PROT looks like a setting and is none: it has no effect; did you mean HTTP_PORT?\n" in errors
    assert "warning: TIER_CONFIG_FILE looks like a setting and is none: it has no effect; did you mean TIER_CONFIG?\n" in errors
    assert 'warning: TIER_CONFIG: unknown member "targt" in tier "gold"; did you mean "target"? (it is ignored)\n' in errors


# What waiting callers hear.


def write_wav(path, seconds=1.0, rate=8000, channels=1, cut=0):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"\1\2" * channels * int(seconds * rate))
    if cut:
        path.write_bytes(path.read_bytes()[:-cut])
    return str(path)


def test_check_config_is_content_with_good_hold_audio(check, tmp_path):
    assert check(HOLD_AUDIO=write_wav(tmp_path / "hold.wav")) == (0, "")


@pytest.mark.parametrize(
    "wrong, found",
    [
        ({"channels": 2}, "has 2 channels; mono is needed"),
        ({"rate": 16000}, "has 16000 samples a second; 8000 are needed"),
        ({"seconds": 61}, "lasts 61.000 s; from 0.1 to 60 s are allowed"),
        ({"cut": 100}, "is cut short: its head says 16044 bytes, and it has 15944"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_hold_audio_that_cannot_be_played_is_refused_with_the_reason(check, run_router, tmp_path, wrong, found):
    path = write_wav(tmp_path / "hold.wav", **wrong)
    sentence = f'HOLD_AUDIO: "{path}" {found}\n'
    status, errors = check(HOLD_AUDIO=path)
    assert status != 0 and sentence in errors
    started = run_router({"HOLD_AUDIO": path})
    assert started.returncode != 0 and sentence in started.stderr.decode()


def test_hold_audio_that_is_missing_is_refused(check):
    status, errors = check(HOLD_AUDIO="/no/such/hold.wav")
    assert status != 0
    assert 'HOLD_AUDIO: "/no/such/hold.wav" cannot be read: No such file or directory\n' in errors
