"""The commands that ask a running router: what they show, what they change, how they end."""

import json
import re
import shutil
import signal
import subprocess
import time

import cli_runs
import pytest
from basics import free_port, skip
from conftest import BINARY, DEADLINE_S, ROOT
from test_commands import scripted

READS = ["status", "pods", "calls", "waiting", "autoscale", "merchant list", "tiers get", "tiers history", "doctor"]
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
KEYS = "ops admin an-admin-key-of-some-length\nwatch read a-read-key-of-some-length\nagents agent=* an-agent-key-of-some-length\n"


@pytest.fixture
def cli(tmp_path):
    """cli(*args, url=None, env=None, stdin=None) -> (exit status, standard output, standard error)"""
    return lambda *args, **kwargs: cli_runs.run(tmp_path, *args, **kwargs)


@pytest.fixture
def in_terminal(tmp_path):
    """in_terminal(*args, columns=80, ...) -> (exit status, what it printed)"""

    def run(*args, **kwargs):
        terminal = cli_runs.InTerminal(tmp_path, *args, **kwargs)
        text = terminal.read()
        return terminal.end(), text

    return run


@pytest.fixture(params=["embedded", "redis"])
def any_router(request):
    """A router with five pods, on each store."""
    if request.param == "embedded":
        return request.getfixturevalue("router")
    return request.getfixturevalue("start_on")(request.getfixturevalue("redis_server"))


def rows(text):
    """The rows of a table as lists of words, without its head."""
    return [line.split() for line in text.splitlines()[1:]]


def test_the_pools_the_pods_and_the_calls_are_shown(any_router, cli):
    url = any_router.url
    pod = any_router.allocate("CA1", merchant_id="acme", provider="twilio")["pod_name"]
    code, out, err = cli("status", url=url)
    assert (code, err) == (0, "")
    assert "calls           1\n" in out and "leader          this router\n" in out
    assert ["gold", "exclusive", "1", "1", "0", "1", "0", "0", "1", "0", "1"] in rows(out)
    assert ["basic", "shared", "1", "1", "1", "0", "0", "0", "0", "3", "3"] in rows(out)
    code, out, err = cli("pods", url=url)
    assert (code, err, len(rows(out))) == (0, "", 5)
    assert [pod, "gold", "busy", "1", "-", "static", "-"] in rows(out)
    assert [row[0] for row in rows(cli("pods", "--tier", "gold", "--state", "busy", url=url)[1])] == [pod]
    assert rows(cli("pods", "--tier", "gold", "--state", "available", url=url)[1]) == []
    code, out, err = cli("calls", url=url)
    assert (code, err) == (0, "")
    (row,) = rows(out)
    assert row[:2] + row[3:7] == ["CA1", "allocated", pod, "pool:gold", "acme", "twilio"] and re.fullmatch(r"\d+s", row[2])
    for filters, count in ((["--pod", pod], 1), (["--merchant", "other"], 0), (["--state", "active"], 0), (["--older-than", "1h"], 0)):
        assert len(rows(cli("calls", *filters, url=url)[1])) == count, filters
    assert "renewed         never\n" in cli("call", "CA1", url=url)[1]
    any_router.post("/api/v1/renew", {"call_sid": "CA1"})
    assert re.search(r"^renewed         \d+s ago, by the client$", cli("call", "CA1", url=url)[1], re.M)
    assert "calls           CA1\n" in cli("pod", pod, url=url)[1]


def test_a_pod_is_drained_and_undrained_and_a_call_released(any_router, cli):
    url = any_router.url
    pod = any_router.allocate("CA1")["pod_name"]
    code, out, err = cli("drain", pod, "--ttl", "600", url=url)
    assert (code, err) == (0, "") and re.fullmatch(rf"{pod}: draining until 20\S+Z, 1 call left\n", out)
    assert cli("drain", pod, "--ttl", "0", url=url)[1] == f"{pod}: draining until it is undrained, 1 call left\n"
    assert "state           draining until it is undrained\n" in cli("pod", pod, url=url)[1]
    assert cli("undrain", pod, url=url) == (0, f"{pod}: not draining\n", "")
    assert not any_router.get(f"/api/v1/pod/{pod}").json()["is_draining"]
    code, out, err = cli("release", "CA1", "--pod", "voice-agent-x", url=url)
    assert (code, out) == (1, "") and "404" in err
    assert cli("release", "CA1", url=url) == (0, f"CA1: released; {pod} is back in pool:gold\n", "")
    assert any_router.get("/api/v1/call/CA1").status_code == 404


def test_a_refused_call_shows_what_stood_in_its_way(any_router, cli):
    any_router.put("/api/v1/merchants/acme", {"pool": "acme", "fallback": ["none"]})
    assert any_router.post("/api/v1/allocate", {"call_sid": "CA1", "merchant_id": "acme"}).status_code == 503
    code, out, err = cli("call", "CA1", url=any_router.url)
    assert code == 1 and "404 call not found" in err
    assert out.startswith("refused") and ["merchant:acme", "0", "0", "0", "0", "0", "no"] in rows(out)


def test_a_merchant_is_set_shown_removed_and_brought_back(any_router, cli, tmp_path):
    url = any_router.url
    file = tmp_path / "merchant.json"
    file.write_text('{"tier": "standard"}\n')
    assert cli("merchant", "set", "acme", file, "--dry-run", url=url) == (
        0, 'merchant acme: not changed (--dry-run); it would be version 1\n+ tier: "standard"\n', "")
    assert any_router.get("/api/v1/merchants/acme").status_code == 404
    assert cli("merchant", "set", "acme", file, url=url) == (0, 'merchant acme: version 1\n+ tier: "standard"\n', "")
    assert cli("merchant", "get", "acme", url=url) == (0, '  tier: "standard"\n', "")
    code, out, _ = cli("merchant", "set", "acme", "-", stdin='{"pool":"nowhere"}', url=url)
    assert code == 0 and '- tier: "standard"\n+ pool: "nowhere"\n' in out and "warning: pool \"nowhere\" is not configured" in out
    assert cli("merchant", "list", url=url)[1] == 'MERCHANT  CONFIGURATION\nacme      {"pool":"nowhere"}\n'
    assert cli("merchant", "rm", "acme", url=url)[1] == 'merchant acme: version 3\n- pool: "nowhere"\nit is removed\n'
    assert [row[0] for row in rows(cli("merchant", "history", "acme", url=url)[1])] == ["3", "2", "1"]
    assert cli("merchant", "rollback", "acme", "1", url=url)[1] == 'merchant acme: version 4\n+ tier: "standard"\n'
    assert any_router.get("/api/v1/merchants/acme").json() == {"tier": "standard"}


def test_tiers_are_set_with_a_difference_and_taken_back(any_router, cli):
    url = any_router.url
    before = any_router.get("/api/v1/tiers").json()
    code, out, err = cli("tiers", "set", "-", stdin='{"gold":{"target":2},"basic":{"type":"shared","max_concurrent":3,"target":1}}', url=url)
    assert (code, err) == (0, "")
    assert out.startswith("tiers: version 2\n") and '- gold: {"type":"exclusive","target":1}\n+ gold: {"type":"exclusive","target":2}\n' in out
    assert '\n- standard: ' in out and '\n  basic: ' in out and '\n+ default_chain: ["gold","basic"]\n' in out
    assert cli("tiers", "get", url=url)[1].startswith('  basic: {"type":"shared"')
    assert cli("tiers", "rollback", url=url)[0] == 0
    assert any_router.get("/api/v1/tiers").json() == before
    assert [row[0] for row in rows(cli("tiers", "history", url=url)[1])] == ["3", "2", "1"]


def test_a_configuration_that_another_program_spoilt_is_shown(start_on, redis_server, cli):
    router = start_on(redis_server)
    redis_server.client().hset("voice:merchant:config", "acme", "no JSON \x1b[2J")
    code, out, err = cli("merchant", "get", "acme", url=router.url)
    assert (code, out, err) == (1, "", "smart-router: what is stored is no JSON object: no JSON \\x1b[2J\n")
    assert cli("merchant", "get", "acme", "--json", url=router.url)[0] == 1


@pytest.mark.parametrize("text,status", [("{", 2), ("", 2), ('{"gold":{"targt":2}}', 1), ("[]", 1)])
def test_bad_tiers_are_refused_and_change_nothing(router, cli, text, status):
    before = router.state()
    code, out, err = cli("tiers", "set", "-", stdin=text, url=router.url)
    assert (code, out) == (status, "") and err
    assert router.state() == before


def test_json_is_the_answer_of_the_router_untouched(router, cli):
    router.allocate("CA1")
    for command, path in (("pod voice-agent-0", "/api/v1/pod/voice-agent-0"), ("tiers get", "/api/v1/tiers"),
                          ("call CA1", "/api/v1/call/CA1"), ("autoscale", "/api/v1/autoscale"), ("pods", "/api/v1/pods?limit=1000")):
        assert cli(*command.split(), "--json", url=router.url) == (0, router.get(path).text + "\n", "")
    code, out, err = cli("call", "CA2", "--json", url=router.url)
    assert code == 1 and json.loads(out)["code"] == "not_found" and "404" in err
    code, out, _ = cli("drain", "voice-agent-4", "--json", url=router.url)
    assert code == 0 and json.loads(out)["pod_name"] == "voice-agent-4"


def test_all_pages_are_read(start_router, cli):
    router = start_router({"STATIC_PODS": ",".join(f"agent-{i}" for i in range(1203))})
    assert len({row[0] for row in rows(cli("pods", url=router.url)[1])}) == 1203
    pages = [json.loads(line) for line in cli("pods", "--json", url=router.url)[1].splitlines()]
    assert [len(page["pods"]) for page in pages] == [1000, 203]


def test_a_list_whose_cursor_never_ends_has_an_end(cli):
    with scripted(lambda method, path: (200, b'{"pods":[],"next_cursor":"a"}')) as url:
        assert cli("pods", url=url) == (0, "POD  TIER  STATE  CALLS  HEARTBEAT  SOURCE  ADDRESS\n", "")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_table_fits_the_terminal(start_router, in_terminal, cli, columns):
    names = ["a" * 63, "b" * 60, "voice-agent-1"]
    router = start_router({"STATIC_PODS": ",".join(f"{name}=127.0.0.1:9000" for name in names)})
    router.allocate("C" * 128, merchant_id="m" * 128)
    for command in ("pods", "calls", "status", "tiers history"):
        code, text = in_terminal(*command.split(), columns=columns, url=router.url)
        table = text[text.index("\x1b[1m"):]
        lines = [ESCAPE.sub("", line).rstrip() for line in table.split("\r\n")]
        assert code == 0 and max(map(len, lines)) <= columns, (command, lines)
    assert "POD" in text or "VERSION" in text
    # A pipe is not cut, unless COLUMNS says so.
    assert "a" * 63 in cli("pods", url=router.url)[1]
    assert max(map(len, cli("pods", url=router.url, env={"COLUMNS": "50"})[1].splitlines())) <= 50


def test_colours_are_for_terminals_only(router, in_terminal, cli):
    assert "\x1b" in in_terminal("pods", url=router.url)[1]
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in in_terminal("pods", url=router.url, env=env)[1]
    assert "\x1b" in in_terminal("pods", url=router.url, env={"NO_COLOR": ""})[1]
    assert "\x1b" not in cli("pods", url=router.url)[1]


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202eevil\x7f"


def hostile(method, path):
    """A router whose every text steers a terminal."""
    word = HOSTILE
    answer = {
        "pods": [{"pod_name": word, "tier": word, "state": word, "calls": [word], "address": word, "source": word}],
        "calls": [{"call_sid": word, "state": word, "allocated_at": word, "pod_name": word}],
        "waiting": [{"call_sid": word, "until": word, "merchant_id": word, "provider": word, "pools": [word]}],
        "merchants": {word: {word: word}}, "tiers": {word: {word: word}}, "versions": [{"value": {word: word}, "key": word}],
        "pod_name": word, "call_sid": word, "summary": word, "story": [{"time": word, "sentence": word}],
        "leader": word, "identity": word, "store": {"name": word, "detail": word}, "version": word, "old": None,
        "new": {word: word}, "warnings": [word], "next_cursor": "", "released_to_pool": word, "draining_until": word,
        "settings": {"http_bind": word, "stream_url": word, "stream_url_problem": word}, "provider_tokens": {"twilio": True},
        "routers": [{"name": word, "version": word}],
    }
    return 200, json.dumps(answer, ensure_ascii=False).encode()


@pytest.mark.parametrize("command", [
    *READS, "pod a", "call a", "why a", "release a", "drain a", "undrain a", "merchant get a", "merchant rm a", "merchant history a",
    "tiers rollback"])
@pytest.mark.parametrize("option", [[], ["--json"]], ids=["text", "json"])
def test_nothing_of_a_hostile_router_reaches_the_terminal_raw(in_terminal, command, option):
    with scripted(hostile) as url:
        _, text = in_terminal(*command.split(), *option, columns=400, url=url)
    text = ESCAPE.sub("", text)  # colours of our own: only those with digits
    assert "evil" in text or command in ("autoscale", "status")
    assert not re.search(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202e]", text) and "\x1b[2J" not in text


def test_a_hostile_error_reaches_the_terminal_escaped(in_terminal):
    with scripted(lambda method, path: (400, json.dumps({"error": HOSTILE}).encode())) as url:
        code, text = in_terminal("pods", url=url)
    assert code == 1 and "\\x1b[2J" in text and "\x1b" not in text


@pytest.mark.parametrize("answer", [(200, b"<html>hello</html>"), (200, b""), (200, b"[]"), (200, b'{"pods":'), (404, b"not here"), (302, b""),
                                    (500, b'{"error":7}'), (200, b'{"a":"\xff"}')])
def test_an_answer_that_is_garbage_is_told(cli, answer):
    with scripted(lambda method, path: answer) as url:
        for command in (*READS, "pod a", "why a", "release a", "drain a", "merchant rm a"):
            code, out, err = cli(*command.split(), url=url)
            assert (code, out) == (1, "") and err, (command, answer)
        assert cli("events", url=url)[0] == 1


def test_an_answer_without_the_expected_members_is_survived(cli):
    odd = {"pods": 7, "calls": [1, None], "waiting": [1, None, {"pools": [7], "position": -1, "until": "soon"}], "state": "waiting", "tiers": [1], "story": "x", "versions": {}, "merchants": [[]], "leader": 3, "settings": []}
    with scripted(lambda method, path: (200, json.dumps(odd).encode())) as url:
        for command in (*READS, "pod a", "call a", "why a", "release a", "drain a", "merchant rm a", "merchant history a"):
            assert cli(*command.split(), url=url)[0] in (0, 1), command


@pytest.mark.parametrize("command", [*READS, "pod a", "call a", "why a", "release a", "drain a", "undrain a", "merchant get a", "merchant rm a",
                                     "merchant history a", "merchant rollback a", "tiers rollback", "events", "merchant set a FILE"])
def test_no_router_is_exit_status_3(cli, tmp_path, command):
    (tmp_path / "file").write_text("{}")
    command = command.replace("FILE", str(tmp_path / "file"))
    code, out, err = cli(*command.split(), url=f"http://127.0.0.1:{free_port()}")
    assert (code, out) == (3, "") and "no answer" in err


@pytest.mark.parametrize("command", ["pod nobody", "call CA9", "release CA9", "drain nobody", "undrain nobody", "merchant get nobody",
                                     "merchant rm nobody", "merchant history nobody", "merchant rollback nobody", "tiers rollback 99",
                                     "autoscale nobody", "pods --state nonsense", "calls --older-than soon", "pod ../status"])
def test_what_is_refused_or_not_found_is_exit_status_1(router, cli, command):
    before = router.state()
    code, out, err = cli(*command.split(), url=router.url)
    assert (code, out) == (1, "") and re.search(r"smart-router: 40[04] ", err)
    assert router.state() == before


@pytest.mark.parametrize("command", ["pod", "pod a b", "pods a", "pods --pod a", "status --watch=x", "status --json=1", "merchant", "merchant nonsense",
                                     "merchant set a", "merchant set a b c", "tiers", "tiers set", "tiers set /does/not/exist", "calls --older-than",
                                     "tiers rollback x", "tiers rollback 0", "drain a --ttl soon", "events --watch", "help nonsense", "help status a",
                                     "version x", "status --timeout 0", "merchant rm a --watch"])
def test_bad_arguments_are_exit_status_2(cli, command):
    code, out, err = cli(*command.split(), url="http://127.0.0.1:1")
    assert (code, out) == (2, "") and err.startswith("smart-router: ")


def test_keys_come_from_a_file_and_roles_count(start_router, cli, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(KEYS)
    keys.chmod(0o600)
    router = start_router({"API_KEYS_FILE": keys})
    files = {}
    for line in KEYS.splitlines():
        name, _, key = line.split()
        files[name] = tmp_path / name
        files[name].write_text(key + "\n")
    code, _, err = cli("status", url=router.url)
    assert code == 1 and "401" in err and "--api-key-file" in err
    assert cli("status", "--api-key-file", files["watch"], url=router.url)[0] == 0
    assert cli("status", env={"SMART_ROUTER_API_KEY_FILE": files["watch"]}, url=router.url)[0] == 0
    assert cli("doctor", "--json", "--api-key-file", files["watch"], url=router.url)[1].startswith('{"findings":')
    for name, command, expected in (("watch", "drain voice-agent-0", 1), ("agents", "drain voice-agent-0", 0), ("agents", "pods", 1),
                                    ("watch", "merchant rm a", 1), ("watch", "release CA1", 1), ("agents", "doctor", 1)):
        code, _, err = cli(*command.split(), "--api-key-file", files[name], url=router.url)
        assert code == expected and (code == 0 or "403" in err), (name, command, err)
    assert all(line.split()[2] not in err for line in KEYS.splitlines())


def test_a_watch_shows_it_again_until_it_is_interrupted(router, tmp_path):
    terminal = cli_runs.InTerminal(tmp_path, "calls", "--watch", "100ms", url=router.url)
    terminal.read("CALL")
    router.allocate("CA1")
    terminal.read("CA1")
    assert terminal.text.count("\x1b[2J") >= 2
    terminal.proc.send_signal(signal.SIGINT)
    assert terminal.end() == 0


def test_a_watch_outlives_a_router_that_is_away(start_router, tmp_path):
    env = {"HTTP_PORT": free_port()}
    router = start_router(env, tmp_path / "data")
    terminal = cli_runs.InTerminal(tmp_path, "status", "--watch=100ms", url=router.url)
    terminal.read("TIER")
    router.kill()
    terminal.read("no answer")
    terminal.text = ""
    start_router(env, tmp_path / "data")
    terminal.read("TIER")
    terminal.proc.send_signal(signal.SIGINT)
    assert terminal.end() == 0


@pytest.mark.parametrize("option", [[], ["--json"]], ids=["text", "json"])
def test_events_are_printed_as_they_happen(start_router, tmp_path, option):
    env = {"HTTP_PORT": free_port()}
    router = start_router(env, tmp_path / "data")
    terminal = cli_runs.InTerminal(tmp_path, "events", *option, url=router.url)
    terminal.read("listening")
    pod = router.allocate("CA1", merchant_id="acme")["pod_name"]
    text = terminal.read("CA1\"" if option else "merchant_id=acme")
    assert pod in text and "allocated" in text
    router.stop()
    terminal.read("trying again")
    terminal.text = ""
    router = start_router(env, tmp_path / "data")
    terminal.read("listening")
    router.release("CA1")
    terminal.read("released")
    terminal.proc.send_signal(signal.SIGINT)
    assert terminal.end() == 0


def test_events_end_with_their_reader(router, tmp_path):
    proc = subprocess.Popen([BINARY, "events"], env=cli_runs.environment(tmp_path, router.url, None), stdout=subprocess.PIPE)
    assert b"listening" in proc.stdout.readline()
    proc.stdout.close()
    for number in range(1000):  # one write is noticed, the next one ends it
        if proc.poll() is not None:
            break
        router.allocate(f"CA{number}")
        router.release(f"CA{number}")
        time.sleep(0.05)
    assert proc.wait(DEADLINE_S) != 0


STORY = {
    "call_sid": "CA1", "state": "ended", "summary": "CA1 ended 2 minutes ago: a client released it.",
    "story": [{"time": "2026-01-01T00:00:00Z", "event": "allocated", "sentence": "It got voice-agent-0 of pool:gold."},
              {"time": "2026-01-01T00:03:00Z", "event": "released", "sentence": "A client released it."}],
}


def test_why_tells_the_story_of_a_scripted_router(cli):
    """A scripted router: see the next test for the real one."""

    def answer(method, path):
        return (200, json.dumps(STORY).encode()) if path == "/api/v1/call/CA1/story" else (404, b'{"success":false,"error":"call not found"}')

    with scripted(answer) as url:
        code, out, err = cli("why", "CA1", url=url)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "CA1 ended 2 minutes ago: a client released it."
        assert re.fullmatch(r" *\d+d\d\dh ago  It got voice-agent-0 of pool:gold\.", lines[1]) and lines[2].endswith("A client released it.")
        code, out, err = cli("why", "CA2", url=url)
        assert (code, out, err) == (1, "", "smart-router: 404 call not found\n")


def test_why_tells_the_story_of_a_real_call(any_router, cli):
    pod = any_router.allocate("CA1")["pod_name"]
    any_router.release("CA1")
    code, out, err = cli("why", "CA1", url=any_router.url)
    assert (code, err) == (0, "") and out.startswith("CA1 ended ") and pod in out and len(out.splitlines()) >= 2
    assert cli("why", "CA9", url=any_router.url)[0] == 1


def table_of_commands():
    lines = subprocess.run([BINARY, "help", "--table"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split("\t")[1] for line in lines if line.startswith("command\t")]


def test_every_command_is_in_the_help_the_manual_and_the_guide(cli):
    names = table_of_commands()
    assert {"status", "doctor", "why", "merchant rollback", "tiers set", "wait-drained", "serve", "help"} <= set(names)
    text = cli("help")[1]
    guide = (ROOT / "docs/CLI.md").read_text()
    for name in names:
        assert re.search(rf"^  {name}\b", text, re.M), name
        assert f"smart-router {name}" in guide or name == "serve", name
        code, out, err = cli(*name.split(), "--help")
        assert (code, err) == (0, "") and out.startswith(f"usage: smart-router {name}"), name
        assert cli("help", *name.split())[1] == out
    assert max(map(len, text.splitlines())) <= 100


def test_completions_name_every_command_and_its_options(tmp_path):
    def made(what):
        return subprocess.run([ROOT / "scripts/manual", what, BINARY.parent], capture_output=True, text=True, check=True).stdout

    (tmp_path / "bash").write_text(made("completion"))

    def complete(*words):
        script = f"""source {tmp_path}/bash
            COMP_WORDS=(smart-router {" ".join(map(repr, words))}); COMP_CWORD={len(words)}; _smart_router; echo "${{COMPREPLY[@]}}" """
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert {"status", "merchant", "tiers", "doctor"} <= set(complete(""))
    assert complete("merchant", "s") == ["set"]
    assert {"--tier", "--state", "--json", "--watch"} <= set(complete("pods", "--"))
    assert complete("tiers", "set", "--dry") == ["--dry-run"]
    zsh = made("zsh-completion")
    for name in table_of_commands():
        assert name.split()[-1] in zsh
    assert zsh.startswith("#compdef smart-router\n") and "--dry-run" in zsh


def test_the_zsh_completion_is_read_by_zsh(tmp_path):
    if not shutil.which("zsh"):
        skip("zsh is not installed (Debian: zsh)")
    text = subprocess.run([ROOT / "scripts/manual", "zsh-completion", BINARY.parent], capture_output=True, text=True, check=True).stdout
    (tmp_path / "_smart-router").write_text(text)
    subprocess.run(["zsh", "-n", tmp_path / "_smart-router"], check=True, timeout=DEADLINE_S)


def commands_of(document):
    """The words after `smart-router` in the lines of a document that are commands."""
    lines = (ROOT / document).read_text().splitlines()
    found = [re.match(r"    (?:\$ build/)?smart-router ([a-z].*)", line) for line in lines]
    return [re.sub(r" +#.*| >.*", "", match.group(1)).split() for match in found if match]


def test_every_command_of_the_operations_guide_exists():
    names = [name.split() for name in table_of_commands()]
    commands = commands_of("docs/OPERATIONS.md")
    assert len(commands) > 40
    assert [words for words in commands if words[:1] not in names and words[:2] not in names] == []


def test_the_nights_exercise_works_as_it_is_written(any_router, cli, tmp_path):
    """Four tasks of docs/OPERATIONS.md."""
    url = any_router.url
    pods = [any_router.allocate(f"CA{i}", merchant_id="acme")["pod_name"] for i in range(7)]
    assert any_router.post("/api/v1/allocate", {"call_sid": "CA123", "merchant_id": "acme"}).status_code == 503

    # A refused merchant.
    code, out, _ = cli("why", "CA123", url=url)
    assert code == 0 and all(pool in out for pool in ("gold", "standard", "basic"))

    # The stuck call.
    assert "CA0" in cli("calls", "--older-than", "0s", url=url)[1]
    assert pods[0] in cli("why", "CA0", url=url)[1]
    assert cli("release", "CA0", url=url)[0] == 0
    assert any_router.allocate("CA123", merchant_id="acme")["pod_name"] == pods[0]

    # A pod out.
    any_router.release("CA123")
    assert cli("wait-drained", pods[0], url=url)[:2] == (0, f"{pods[0]}: drained\n")
    assert any_router.get(f"/api/v1/pod/{pods[0]}").json()["state"] == "draining"

    # A tier, there and back.
    before = any_router.get("/api/v1/tiers").json()
    tiers = tmp_path / "tiers.json"
    tiers.write_text(cli("tiers", "get", "--json", url=url)[1])
    tiers.write_text(json.dumps({**json.loads(tiers.read_text()), "tiers": {**before["tiers"], "gold": {"type": "exclusive", "target": 2}}}))
    assert cli("tiers", "set", "--dry-run", tiers, url=url)[0] == 0
    assert any_router.get("/api/v1/tiers").json() == before
    assert cli("tiers", "set", tiers, url=url)[0] == 0
    assert any_router.get("/api/v1/tiers").json()["tiers"]["gold"]["target"] == 2
    assert cli("tiers", "rollback", url=url)[0] == 0
    assert any_router.get("/api/v1/tiers").json() == before
