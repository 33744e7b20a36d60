"""No secret gets out: not in a log, an answer, a metric, check-config, or the list of processes."""

import base64
import pathlib
import signal
import urllib.parse

import httpx
import pytest
import redis_servers
import routes
from conftest import DEADLINE_S, wait_until

SECRETS = {
    "API_KEY": "key-Kq7wZ2mX9vB4,key-second-Jd8sH3fL",
    "API_KEYS": "reader read role-Vr6nE1bW4yZ8\nbot agent=p-* role-Qd3xC9uJ5mA2\n",
    "TWILIO_AUTH_TOKEN": "twilio-Pn5tY8cR1gD6",
    "PLIVO_AUTH_TOKEN": "plivo-Wx3eU7hN2jQ9",
    "EXOTEL_TOKEN": "exotel-Sb6kM4zV8pT1",
    "GATEWAY_SECRET": "gateway-Fa9rL2yC5wE7,gateway-old-Gu4iO6dX",
}
REDIS_PASSWORD = "redis-Hm1vB7sK3nJ8"
SENTINEL_PASSWORD = "sentinel-Tz2qW9xF5cA6"
GUESSES = ["guess-Ye8uR3oP6kD1", "guess-Nc5wM2bV7tG4"]  # what somebody sends is as secret as what we keep


def forms(secret):
    """A secret, and what it looks like on its way."""
    pair = base64.b64encode(f"user:{secret}".encode()).decode()
    return {secret, urllib.parse.quote(secret, safe=""), base64.b64encode(secret.encode()).decode().rstrip("="), pair.rstrip("=")}


def all_secrets():
    values = [REDIS_PASSWORD, SENTINEL_PASSWORD, *GUESSES]
    for text in SECRETS.values():
        values += [line.split()[-1] for part in text.split(",") for line in part.splitlines()]
    return values


def assert_clean(text, where):
    for secret in all_secrets():
        for form in forms(secret):
            assert form not in text, f"{secret} in {where}"


class Listener:
    """Asks, and keeps everything that is answered."""

    def __init__(self, router):
        self.client = httpx.Client(base_url=router.url, timeout=DEADLINE_S, trust_env=False)
        self.heard = []

    def ask(self, method, path, **kwargs):
        with self.client.stream(method, path, **kwargs) as answer:
            body = b"" if answer.headers.get("Transfer-Encoding") == "chunked" else answer.read()
        self.heard.append(f"{answer.status_code} {answer.headers} {body.decode(errors='replace')}")
        return answer.status_code


def credentials():
    """Headers of all kinds, good and bad."""
    good = SECRETS["API_KEY"].split(",")[1]
    yield {}
    roles = [line.split()[-1] for line in SECRETS["API_KEYS"].splitlines()]
    for key in [good, *roles, *GUESSES]:
        yield {"Authorization": f"Bearer {key}"}
        yield {"Authorization": f"Basic {base64.b64encode(f'user:{key}'.encode()).decode()}"}
    for token in [SECRETS["EXOTEL_TOKEN"], *GUESSES]:
        yield {"Authorization": f"Basic {base64.b64encode(f'user:{token}'.encode()).decode()}"}
    for guess in GUESSES:
        yield {"X-Twilio-Signature": guess, "X-Plivo-Signature-V3": guess, "X-Plivo-Signature-V3-Nonce": guess}


def drive(router):
    listener = Listener(router)
    statuses = set()
    for method, pattern in sorted(routes.all_routes()):
        for headers in credentials():
            for query in ("", f"?token={GUESSES[0]}&CallSid=CA1", f"?token={SECRETS['EXOTEL_TOKEN']}&CallSid=CA2"):
                body = {} if method == "GET" else {"json": {"call_sid": "CA1", "pod_name": "p"}}
                statuses.add(listener.ask(method, routes.fill(pattern) + query, headers=headers, **body))
    assert {200, 401, 403} <= statuses
    return listener.heard


@pytest.fixture
def sentinel_env(start_redis):
    redis_servers.need()
    primary = start_redis(has_port=True, requirepass=REDIS_PASSWORD)
    conf = f"sentinel monitor mymaster 127.0.0.1 {primary.port} 1\n"
    conf += f"sentinel auth-pass mymaster {REDIS_PASSWORD}\nrequirepass {SENTINEL_PASSWORD}\n"
    sentinel = start_redis(has_port=True, sentinel_conf=conf)
    return {
        "REDIS_URL": f"redis://:{REDIS_PASSWORD}@127.0.0.1",
        "REDIS_SENTINELS": f"127.0.0.1:{sentinel.port}",
        "REDIS_SENTINEL_PASSWORD": SENTINEL_PASSWORD,
        **redis_servers.QUICK,
    }


def test_no_secret_gets_out_of_a_router_at_work(start_router, sentinel_env):
    env = {**SECRETS, **sentinel_env, "LOG_LEVEL": "debug"}
    router = start_router(env)
    heard = drive(router)
    for text in heard:
        assert_clean(text, "an answer")
    for text in (router.get("/metrics").text, httpx.get(router.metrics_url + "/metrics", trust_env=False).text):
        assert "smart_router_forbidden_total" in text
        assert_clean(text, "/metrics")
    process = pathlib.Path("/proc") / str(router.proc.pid)
    assert_clean((process / "cmdline").read_bytes().decode(errors="replace"), "the command line")
    assert_clean((process / "comm").read_text(), "the name of the process")
    router.proc.send_signal(signal.SIGHUP)
    wait_until(lambda: router.log_lines("reloaded"), "it reloads")
    ticket = router.allocate("CA-ticket")["ws_url"].split("/")[6]
    assert router.stop() == 0
    assert len(router.log_lines()) > 100
    assert_clean(router.log(), "the log")
    assert ticket not in router.log()


def test_no_secret_gets_out_of_a_start_that_fails(start_router, sentinel_env, run_router):
    broken = {**SECRETS, **sentinel_env, "HTTP_PORT": "x"}
    for args in ([], ["check-config"]):
        done = run_router(broken, args=args)
        assert done.returncode == 2
        assert_clean(done.output, "what a refused start says")
    for name, value in {**SECRETS, "REDIS_URL": f"nonsense://{REDIS_PASSWORD}"}.items():
        done = run_router({**SECRETS, name: f"{value},\t, x"}, args=["check-config"])
        assert done.returncode == 2 and name in done.output
        assert_clean(done.output, f"what is said of a bad {name}")
    router = start_router(
        {**SECRETS, "REDIS_URL": f"redis://user:{REDIS_PASSWORD}@127.0.0.1:1", "LOG_LEVEL": "debug"}, wait=False
    )
    wait_until(lambda: "redis" in router.log(), "it tells of its store")
    router.kill()
    assert_clean(router.log(), "the log of a router without its store")


def test_check_config_masks_every_secret(run_router, sentinel_env, tmp_path):
    done = run_router({**SECRETS, **sentinel_env}, args=["check-config"])
    assert done.returncode == 0, done.output
    assert_clean(done.output, "check-config")
    for name in [*SECRETS, "REDIS_URL", "REDIS_SENTINEL_PASSWORD"]:
        assert f"{name}=********  # environment" in done.output
    env = {}
    for name, text in SECRETS.items():
        (tmp_path / name).write_text(text)
        env[f"{name}_FILE"] = str(tmp_path / name)
    done = run_router(env, args=["check-config"])
    assert_clean(done.output, "check-config")
    for name in SECRETS:
        assert f"{name}=********  # file" in done.output
