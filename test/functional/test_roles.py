"""Roles: what each key of API_KEYS may do, that it does nothing else, and that the log names it."""

import itertools
import signal
import subprocess

import httpx
import pytest
import redis_servers
import routes
from conftest import DEADLINE_S, wait_until

ROLES = {
    "root": "admin",
    "caller": "call",
    "bot": "agent",
    "gold-bot": "agent=gold-*",
    "meter": "metrics",
    "viewer": "read",
}
POD = "gold-1"  # that of the gold-bot
OTHER = "iron-1"
ADDRESS = "127.0.0.1:9"


def secret(name):
    return f"the-secret-of-{name}"


def file_of(roles):
    return "# name role secret\n\n" + "".join(f"{name} {role} {secret(name)}\n" for name, role in roles.items())


def spec_of(role, table):
    """What the specification's sentences on roles say, for the routes that there are."""
    sentences = {
        "admin": set(table),
        "call": {("POST", f"/api/v1/{what}") for what in ("allocate", "release", "renew")} | {("GET", "/api/v1/call/{sid}"), ("GET", "/api/v1/call/{sid}/story")},
        "agent": {("POST", f"/api/v1/{what}") for what in ("pods", "pod/{name}/heartbeat", "renew", "release", "drain", "undrain")}
        | {(method, "/api/v1/pod/{name}") for method in ("GET", "DELETE")}
        | {("GET", "/api/v1/pod/{name}/drained")},
        "metrics": {("GET", path) for path in ("/metrics", "/api/v1/autoscale", "/api/v1/autoscale/{tier}")},
        "read": {route for route in table if route[0] == "GET"},
    }
    return (sentences[role] | {("GET", "/api/v1/whoami")}) & set(table)  # each key may ask what it is


def closed_routes():
    """The table without what is open: the health routes, the API's description, the files of the dashboard, and the webhooks,
    which providers sign."""
    webhooks = {f"/api/v1/{provider}/{hook}" for provider in ("twilio", "plivo", "exotel") for hook in ("allocate", "after", "status")}
    table = routes.table()
    for (_, pattern), who in table.items():
        is_open = pattern in ("/health", "/ready", "/api/v1/health", "/api/v1/ready", "/openapi.json", "/", "/ui/{file}")
        assert (who == {"anybody"}) == is_open and (who == {"provider"}) == (pattern in webhooks), (pattern, who)
    return {route: who for route, who in table.items() if not who & {"anybody", "provider"}}


class World:
    """A router with a key of each role. `ask` as one of them; None: without a key."""

    def __init__(self, start, folder, roles=None, **env):
        self.file = folder / "api-keys"
        self.file.write_text(file_of(roles or ROLES))
        self.router = start({"API_KEYS_FILE": str(self.file), "POD_SOURCE": "api", "STATIC_PODS": None, **env})
        self.client = httpx.Client(base_url=self.router.url, timeout=DEADLINE_S, trust_env=False)

    def ask(self, name, method, path, json=None):
        headers = {"Authorization": f"Bearer {secret(name)}"} if name else {}
        with self.client.stream(method, path, json=json, headers=headers) as answer:
            if answer.headers.get("Transfer-Encoding") != "chunked":  # events go on for ever
                answer.read()
        return answer

    def status(self, *args, **kwargs):
        return self.ask(*args, **kwargs).status_code

    def post(self, name, what, **body):
        return self.ask(name, "POST", f"/api/v1/{what}", body)

    def register(self, *pods):
        for pod in pods:
            assert self.post("root", "pods", pod_name=pod, address=ADDRESS, tier="gold").status_code == 200

    def call_on(self, pod, call_sid):
        """A live call on that pod."""
        self.register(pod)
        assert self.post("root", f"pod/{pod}/heartbeat", call_sids=[call_sid]).json()["adopted"] == [call_sid]

    def pod_of(self, call_sid):
        answer = self.ask("root", "GET", f"/api/v1/call/{call_sid}")
        return answer.json()["pod_name"] if answer.status_code == 200 else None

    def metric(self, name):
        text = httpx.get(f"{self.router.metrics_url}/metrics", trust_env=False).text
        return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name} ")), 0)

    def expect_logged(self, key, msg, **fields):
        """A line with that message, these fields and the name of the key; the log goes out after the answer."""
        fields = {**fields, "key": key}
        wait_until(lambda: any(fields.items() <= line.items() for line in self.router.log_lines(msg)), f"{msg} {fields}")


@pytest.fixture
def start_locked(start_router, tmp_path):
    worlds = []

    def start(**kwargs):
        worlds.append(World(start_router, tmp_path, **kwargs))
        return worlds[-1]

    yield start
    for world in worlds:
        world.client.close()


@pytest.fixture
def world(start_locked):
    return start_locked()


@pytest.fixture(params=["embedded", "redis"])
def any_world(request, start_locked, start_redis):
    if request.param == "embedded":
        return start_locked()
    redis_servers.need()
    return start_locked(REDIS_URL=start_redis().url, **redis_servers.QUICK)


def test_the_table_says_what_the_specification_says():
    table = closed_routes()
    for route, who in table.items():
        assert who == {role for role in ("admin", "call", "agent", "metrics", "read") if route in spec_of(role, table)}, route


def walk(table, names):
    """(name, method, pattern, is it routed, may the key use it) for each of `names`, each path and each method."""
    for pattern in sorted({pattern for _, pattern in table}):
        for method in routes.METHODS:
            route = ("GET" if method == "HEAD" else method, pattern)
            for name in names:
                role = ROLES[name].split("=")[0] if name in ROLES else None
                yield name, method, pattern, route in table, role is not None and route in spec_of(role, table)


HARM = {
    "/api/v1/allocate": {"call_sid": "CA-new"},
    "/api/v1/release": {"call_sid": "CA-live"},
    "/api/v1/renew": {"call_sid": "CA-live"},
    "/api/v1/pods": {"pod_name": POD, "address": "127.0.0.1:10"},
    "/api/v1/drain": {"pod_name": POD},
    "/api/v1/undrain": {"pod_name": "drained-1"},
    "/api/v1/pod/{name}/heartbeat": {"call_sids": []},
    "/api/v1/merchants/{id}": {"tier": "gold"},
    "/api/v1/tiers": {"gold": 7},
    "/api/v1/tiers/rollback": {},
    "/api/v1/merchants/{id}/rollback": {},
}


def test_no_key_does_the_work_of_another_role(world):
    """Everything that is not allowed, and that would do harm: refused, counted, and nothing has changed."""
    table = closed_routes()
    names = [*ROLES, None, "nobody-has-this"]
    world.call_on(POD, "CA-live")
    world.register("drained-1")
    assert world.post("root", "drain", pod_name="drained-1").status_code == 200
    assert world.status("root", "PUT", f"/api/v1/merchants/{POD}", json={"tier": "standard"}) == 200
    before = world.router.state()
    asked = {200: 0, 401: 0, 403: 0, 404: 0, 405: 0}
    for name, method, pattern, is_routed, is_allowed in walk(table, names):
        if is_allowed:
            continue
        path = routes.fill(pattern, "CA-live" if "{sid}" in pattern else POD)
        answer = world.ask(name, method, path, HARM.get(pattern))
        expected = 401 if name not in ROLES else 403 if is_routed else 405
        assert answer.status_code == expected, (name, method, path)
        asked[expected] += 1
        if expected == 403 and method != "HEAD":
            body = answer.json()
            assert body["code"] == "forbidden" and body["success"] is False
            assert body["error"] == f"the key may not do this: its role is {ROLES[name].split('=')[0]}"
    for name in names:
        assert world.status(name, "GET", "/api/v1/nothing") == (404 if name in ROLES else 401)
    assert asked[401] > 200 and asked[403] > 50 and asked[405] > 200
    assert world.router.state() == before
    counted = sum(world.metric(f'smart_router_forbidden_total{{role="{role}"}}') for role in ("call", "agent", "metrics", "read"))
    assert counted == asked[403]
    for name in set(ROLES) - {"root"}:
        world.expect_logged(name, "request refused", status=403)


def test_no_key_is_refused_what_its_role_allows(world):
    table = closed_routes()
    asked = 0
    for name, method, pattern, _, is_allowed in walk(table, ROLES):
        if is_allowed:
            path = routes.fill(pattern, "gold-9")
            status = world.status(name, method, path, json={"call_sid": "CA-none", "pod_name": "gold-9"})
            assert status not in (401, 403, 405) and status < 504, (name, method, path, status)
            asked += 1
    assert asked > 60


def test_what_is_open_asks_nobody(world):
    """Only with the methods of the table, though. HEAD is one of them where GET is, but for webhooks, which change something."""
    table = routes.table()
    patterns = {pattern: who for (_, pattern), who in table.items() if who & {"anybody", "provider"}}
    asked = 0
    for pattern, method, name in itertools.product(sorted(patterns), routes.METHODS, (None, "nobody-has-this", "meter")):
        status = world.status(name, method, pattern)
        if (method, pattern) in table or (method == "HEAD" and patterns[pattern] == {"anybody"}):
            assert status < 500 and status not in (401, 403, 405), (name, method, pattern, status)
            asked += 1
        else:
            assert status in (401, 405), (name, method, pattern, status)
    assert asked == 3 * (2 * 7 + 2 * 9)
    assert httpx.get(f"{world.router.metrics_url}/metrics", trust_env=False).status_code == 200


def foreign(world):
    """What the gold-bot may ask for pods of its own only: (name of the route, ask(pod))."""
    return [
        ("register", lambda pod: world.post("gold-bot", "pods", pod_name=pod, address="127.0.0.1:10")),
        ("heartbeat", lambda pod: world.post("gold-bot", f"pod/{pod}/heartbeat", call_sids=["CA-" + pod])),
        ("get", lambda pod: world.ask("gold-bot", "GET", f"/api/v1/pod/{pod}")),
        ("drain", lambda pod: world.post("gold-bot", "drain", pod_name=pod)),
        ("undrain", lambda pod: world.post("gold-bot", "undrain", pod_name=pod)),
        ("release", lambda pod: world.post("gold-bot", "release", call_sid="CA-" + pod, pod_name=pod)),
        ("delete", lambda pod: world.ask("gold-bot", "DELETE", f"/api/v1/pod/{pod}")),
    ]


def test_an_agent_speaks_for_its_own_pods_only(world):
    world.call_on(OTHER, f"CA-{OTHER}")
    before = world.router.state()
    for what, ask in foreign(world):
        answer = ask(OTHER)
        assert answer.status_code == 403, what
        assert answer.json()["error"] == "the key may not speak for this pod: its pods are gold-*"
    assert world.router.state() == before
    assert world.metric('smart_router_forbidden_total{role="agent"}') == len(foreign(world))
    world.expect_logged("gold-bot", "request refused", status=403)
    for what, ask in foreign(world):
        assert ask(POD).status_code == 200, what
    for pod in ("gold", "xgold-1"):
        assert world.post("gold-bot", "drain", pod_name=pod).status_code == 403
    assert world.ask("bot", "GET", f"/api/v1/pod/{OTHER}").status_code == 200  # no pattern: all of them


def test_empty_heartbeats_of_a_foreign_agent_do_not_reach_the_store(world):
    world.call_on(OTHER, "CA1")
    before = world.metric('smart_router_store_duration_seconds_count{operation="heartbeat"}')
    for _ in range(3):
        assert world.post("gold-bot", f"pod/{OTHER}/heartbeat", call_sids=[]).status_code == 403
    assert world.metric('smart_router_store_duration_seconds_count{operation="heartbeat"}') == before == 1
    assert world.pod_of("CA1") == OTHER


def test_a_foreign_agent_does_not_move_an_address(world):
    world.register(OTHER)
    assert world.post("gold-bot", "pods", pod_name=OTHER, address="127.0.0.1:6379").status_code == 403
    assert world.ask("root", "GET", f"/api/v1/pod/{OTHER}").json()["address"] == ADDRESS


def test_an_agent_takes_no_call_from_a_foreign_pod(any_world):
    world = any_world
    world.call_on(OTHER, "CA1")
    world.register(POD)
    answer = world.post("gold-bot", f"pod/{POD}/heartbeat", call_sids=["CA1"]).json()
    assert answer["conflicts"] == ["CA1"] and answer["adopted"] == answer["ended"] == []
    assert world.pod_of("CA1") == OTHER


def test_an_agent_releases_and_renews_only_on_its_own_pods(any_world):
    world = any_world
    world.call_on(OTHER, "CA-other")
    world.call_on(POD, "CA-own")
    assert world.post("gold-bot", "release", call_sid="CA-other").status_code == 404
    assert world.post("gold-bot", "release", call_sid="CA-other", pod_name=POD).status_code == 404
    assert world.post("gold-bot", "renew", call_sid="CA-other").status_code == 409
    answer = world.post("gold-bot", "renew", call_sids=["CA-other", "CA-own", "CA-none"]).json()
    assert (answer["renewed"], answer["conflicts"], answer["unknown"]) == (["CA-own"], ["CA-other"], ["CA-none"])
    assert world.pod_of("CA-other") == OTHER
    assert world.post("gold-bot", "release", call_sid="CA-own").status_code == 200
    assert world.pod_of("CA-own") is None
    assert world.post("caller", "renew", call_sid="CA-other").status_code == 200
    assert world.post("bot", "release", call_sid="CA-other").status_code == 200


def test_the_log_names_the_key_of_every_change(world):
    world.register(OTHER)
    world.expect_logged("root", "pod registered", pod=OTHER)
    assert world.post("gold-bot", "pods", pod_name=POD, address=ADDRESS, tier="gold").status_code == 200
    world.expect_logged("gold-bot", "pod registered", pod=POD)
    assert world.post("caller", "allocate", call_sid="CA1").status_code == 200
    world.expect_logged("caller", "call allocated")
    assert world.post("root", "allocate", call_sid="CA1").status_code == 200
    world.expect_logged("root", "call has its pod already")
    pod = world.pod_of("CA1")
    other = OTHER if pod == POD else POD
    assert world.post("bot", f"pod/{other}/heartbeat", call_sids=["CA1", "CA2"]).status_code == 200
    world.expect_logged("bot", "pod claims a call that it cannot have", call_sid="CA1")
    world.expect_logged("bot", "call adopted", call_sid="CA2")
    assert world.post("caller", "allocate", call_sid="CA3").status_code == 503
    world.expect_logged("caller", "no pods available", call_sid="CA3")
    assert world.post("caller", "release", call_sid="CA1").status_code == 200
    world.expect_logged("caller", "call released", call_sid="CA1")
    assert world.post("bot", "release", call_sid="CA1").status_code == 404
    world.expect_logged("bot", "release of an unknown call", call_sid="CA1")
    assert world.post("gold-bot", "drain", pod_name=POD).status_code == 200
    world.expect_logged("gold-bot", "pod drained")
    assert world.post("bot", "undrain", pod_name=POD).status_code == 200
    world.expect_logged("bot", "pod undrained")
    assert world.status("gold-bot", "DELETE", f"/api/v1/pod/{POD}") == 200
    world.expect_logged("gold-bot", "pod removed")
    assert world.status("root", "PUT", "/api/v1/merchants/m1", json={"tier": "gold"}) == 200
    world.expect_logged("root", "merchant configured")
    assert world.status("root", "DELETE", "/api/v1/merchants/m1") == 200
    world.expect_logged("root", "merchant removed")
    assert world.status("root", "PUT", "/api/v1/tiers", json={"gold": 2}) == 200
    world.expect_logged("root", "tiers configured")
    assert world.status("root", "PUT", "/api/v1/tiers", json={"gold": -2}) == 400
    world.expect_logged("root", "tiers refused: the configuration before stays")
    assert world.post("caller", "release").status_code == 400
    world.expect_logged("caller", "request refused", status=400)
    assert secret("caller") not in world.router.log()


def test_the_log_names_the_key_whose_heartbeats_have_ended_a_call(start_locked, shifted_server):
    """Only calls that are older than 30 s end like that."""
    world = start_locked(REDIS_URL=shifted_server.url, HEARTBEAT_TTL="10m", **redis_servers.QUICK)
    world.call_on(POD, "CA1")
    shifted_server.jump(60)
    assert world.post("gold-bot", f"pod/{POD}/heartbeat", call_sids=[]).json()["ended"] == []
    assert world.post("bot", f"pod/{POD}/heartbeat", call_sids=[]).json()["ended"] == ["CA1"]
    world.expect_logged("bot", "call ended: two heartbeats of its pod left it out", call_sid="CA1", pod=POD)
    assert world.pod_of("CA1") is None


def test_values_of_api_key_have_all_rights_and_a_name(start_locked):
    world = start_locked(API_KEY=f"{secret('first')},{secret('second')}")
    for name, logged in (("first", "API_KEY"), ("second", "API_KEY 2"), ("root", "root")):
        assert world.status(name, "PUT", "/api/v1/merchants/m1", json={"tier": "gold"}) == 200
        world.expect_logged(logged, "merchant configured")


def test_without_keys_the_log_names_none(router):
    router.allocate("CA1")
    (line,) = wait_until(lambda: router.log_lines("call allocated"), "it is logged")
    assert "key" not in line


def test_a_changed_file_counts_from_the_next_sighup_on(world):
    assert world.status("viewer", "GET", "/api/v1/status") == 200
    world.file.write_text(file_of({"root": "admin", "viewer": "metrics", "new": "read"}))
    assert world.status("viewer", "GET", "/api/v1/status") == 200  # not before it is told
    assert world.status("new", "GET", "/api/v1/status") == 401
    world.router.proc.send_signal(signal.SIGHUP)
    wait_until(lambda: world.router.log_lines("reloaded"), "it reloads")
    assert world.status("viewer", "GET", "/api/v1/status") == 403
    assert world.status("viewer", "GET", "/metrics") == 200
    assert world.status("new", "GET", "/api/v1/status") == 200
    assert world.status("caller", "GET", "/api/v1/call/CA1") == 401


GOOD = "good read a-good-secret-of-nobody\n"
BAD = {
    "no secret": ("x read\n", "line 1 must be `name role secret`"),
    "four words": (GOOD + "x read SECRET y\n", "line 2 must be `name role secret`"),
    "only a secret": (GOOD + "\n\nSECRET\n", "line 4 must be `name role secret`"),
    "words mixed up": ("SECRET call x\n", "line 1 has a name that is not allowed"),
    "name": ("a/b read SECRET\n", "line 1 has a name that is not allowed"),
    "long name": ("n" * 32 + " read SECRET\n", "line 1 has a name that is not allowed"),
    "name twice": (GOOD + "# x\ngood call SECRET\n", "line 3 has the same name as line 1"),
    "reserved name": ("API_KEY read SECRET\n", "line 1 has the name API_KEY, which is reserved"),
    "role": ("x SECRET read\n", "line 1 has an unknown role"),
    "role of capitals": ("x READ SECRET\n", "line 1 has an unknown role"),
    "empty pattern": ("x agent= SECRET\n", "line 1 has an unknown role"),
    "pattern": ("x agent=*-x SECRET\n", "line 1 has a bad pattern"),
    "pattern of another role": ("x call=gold-* SECRET\n", "line 1 has an unknown role"),
    "secret twice": ("x read SECRET\r\ny call SECRET\r\n", "line 2 has the same secret as line 1"),
    "secret of API_KEY": ("x read the-key-of-API_KEY\n", "line 1 has a secret of API_KEY"),
    "secret not printable": ("x read SECRETü\n", "line 1 has a secret with a character that is not printable ASCII"),
    "long secret": ("x read " + "S" * 1025 + "\n", "line 1 has a secret of more than 1024 characters"),
    "several secrets": ("x read SECRET,another-one\n", "line 1 has a comma in its secret"),
    "comments only": ("# x read SECRET\n", "has no key: a line must be `name role secret`"),
    "too many": ("".join(f"n{i} read s{i}-SECRET\n" for i in range(1001)), "line 1001 is one key too many: there may be 1000"),
}
HIDDEN = "hidden~Zb8mQ4xW1vN6"  # a character that no name has, so that it cannot be taken for one


@pytest.mark.parametrize("what", sorted(BAD))
def test_a_bad_file_stops_the_start_with_its_line_and_no_secret(run_router, tmp_path, what):
    text, expected = BAD[what]
    file = tmp_path / "keys"
    file.write_text(text.replace("SECRET", HIDDEN))
    done = run_router({"API_KEYS_FILE": str(file), "API_KEY": "the-key-of-API_KEY"}, args=["check-config"])
    assert done.returncode == 2
    (line,) = done.output.splitlines()
    assert line.startswith("API_KEYS") and str(file) in line and expected in line
    for hidden in (HIDDEN, "the-key-of-API_KEY", "a-good-secret-of-nobody", "S" * 100):
        assert hidden not in line


def test_a_bad_file_at_sighup_changes_nothing(world):
    world.file.write_text(file_of({"root": "admin"}) + f"x {HIDDEN} read\n")
    world.router.proc.send_signal(signal.SIGHUP)
    (line,) = wait_until(lambda: world.router.log_lines("reload refused, everything stays as it was"), "it is refused")
    assert "line 4 has an unknown role" in line["error"] and str(world.file) in line["error"]
    assert HIDDEN not in world.router.log()
    for name in ROLES:
        assert world.status(name, "GET", "/api/v1/nothing") == 404


def test_keys_in_the_environment_count_and_are_masked(start_router, run_router):
    keys = {"API_KEYS": file_of(ROLES)}
    router = start_router(keys)
    assert router.get("/api/v1/status").status_code == 200
    assert httpx.get(f"{router.url}/api/v1/status", trust_env=False).status_code == 401
    assert "API_KEY is not set" not in router.log()
    assert router.log_lines("keys of API_KEYS have secrets that are so short that they can be guessed") == []
    done = run_router(keys, args=["check-config"])
    assert "API_KEYS=********  # environment" in done.output and secret("root") not in done.output


def test_short_secrets_are_warned_about_by_the_names_of_their_keys(start_router):
    text = "".join(f"k{i} read short-{i}\n" for i in range(5)) + f"root admin {secret('root')}\n"
    router = start_router({"API_KEYS": text})
    (line,) = router.log_lines("keys of API_KEYS have secrets that are so short that they can be guessed")
    assert (line["level"], line["names"], line["keys"]) == ("warn", "k0 k1 k2", 5)


def test_a_thousand_keys_are_told_apart(start_router):
    text = "".join(f"k{i} {'read' if i % 2 else 'metrics'} {i:04}-{secret('many')}\n" for i in range(999))
    router = start_router({"API_KEYS": text + f"root admin {secret('root')}\n"})
    for i in range(0, 999, 37):
        headers = {"Authorization": f"Bearer {i:04}-{secret('many')}"}
        assert router.get("/api/v1/status", headers=headers).status_code == (200 if i % 2 else 403)
    assert router.get("/api/v1/status", headers={"Authorization": f"Bearer 0999-{secret('many')}"}).status_code == 401


def test_routes_takes_no_argument():
    done = subprocess.run([str(routes.BINARY), "routes", "x"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 2 and "unexpected argument" in done.stderr
