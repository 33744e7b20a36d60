"""docs/PROVIDERS.md followed word by word: its settings, then its commands, run by a shell as they stand there.

The name voice.example.com leads to the router's TLS listener by way of a .curlrc, so that not one character of
the commands is changed.
"""

import pathlib
import re
import subprocess

import pytest
import tls

DOC = pathlib.Path(__file__).resolve().parents[2] / "docs/PROVIDERS.md"
TOKENS = {"twilio": "twilio-auth-token", "plivo": "plivo-auth-token", "exotel": "exotel-token"}
VARIABLES = {"twilio": "TWILIO_AUTH_TOKEN_FILE", "plivo": "PLIVO_AUTH_TOKEN_FILE", "exotel": "EXOTEL_TOKEN_FILE"}
UNREACHABLE = "providers cannot open the streams of their calls"
PATIENCE_S = 60


def blocks_of(heading):
    """The indented blocks below a heading, each as text without its indentation."""
    section = re.split(r"^#+ ", DOC.read_text().split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", section, flags=re.M)
    return [re.sub(r"^    ", "", block, flags=re.M).strip() for block in blocks]


@pytest.fixture
def place(tmp_path):
    """A directory with the tokens in files, and a name of its own."""
    place = tmp_path / "admin"
    place.mkdir()
    for name in TOKENS.values():
        (place / name).write_text(f"{name}-of-the-test-0123456789\n")
        (place / name).chmod(0o600)
    return place


@pytest.fixture
def router(start_router, place, tmp_path):
    (setting,) = blocks_of("Set-up, field by field")
    certificate = tls.Certificate(tmp_path / "tls")
    files = {VARIABLES[provider]: place / name for provider, name in TOKENS.items()}
    router = start_router({**dict([setting.split("=", 1)]), **files, **certificate.env})
    (place / ".curlrc").write_text(
        f'connect-to = "voice.example.com:443:127.0.0.1:{router.tls_port}"\ncacert = "{certificate.cert}"\n'
    )
    return router


def run(place, commands):
    return subprocess.run(
        ["bash", "-euc", commands],
        env={"PATH": "/usr/bin:/bin", "HOME": str(place), "CURL_HOME": str(place)},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def pattern(text):
    """The text of the page, where an ellipsis stands for anything."""
    return re.compile(r"\s*".join(r"[^\n]*".join(map(re.escape, line.split("…"))) for line in text.splitlines()))


@pytest.mark.parametrize("heading", ["Twilio", "Plivo", "Exotel"])
def test_the_commands_of_the_page_prove_the_set_up(router, place, heading):
    commands, answers = blocks_of(heading)
    done = run(place, commands)
    assert done.returncode == 0 and done.stderr == ""
    assert pattern(answers).fullmatch(re.sub(r"<\?xml[^>]*>\s*", "", done.stdout).strip()), done.stdout
    assert router.get("/api/v1/calls").json()["total"] == 0
    assert [line["msg"] for line in router.log_lines() if line["msg"] in ("call allocated", "call released")] == [
        "call allocated",
        "call released",
    ]
    assert UNREACHABLE not in router.log()


@pytest.mark.parametrize("heading", ["Twilio", "Plivo", "Exotel"])
def test_with_another_token_the_same_commands_prove_nothing(router, place, heading):
    commands, _ = blocks_of(heading)
    (place / TOKENS[heading.lower()]).write_text("the-token-of-somebody-else\n")
    done = run(place, commands.replace("curl -sS", "curl -sS -w '%{http_code}\n' -o /dev/null"))
    assert done.stdout.split() == ["403", "403"]
    assert router.log_lines("call allocated") == []


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({}, "this machine itself"),
        ({"VOICE_AGENT_BASE_URL": "wss://127.0.0.1:8443"}, "this machine itself"),
        ({"VOICE_AGENT_BASE_URL": "wss://[::1]"}, "this machine itself"),
        ({"VOICE_AGENT_BASE_URL": "wss://voice.LOCALHOST/x"}, "this machine itself"),
        ({"VOICE_AGENT_BASE_URL": "ws://voice.example.com"}, "no TLS"),
        ({"PUBLIC_BASE_URL": "http://voice.example.com"}, "no TLS"),
        ({"WS_URL_TEMPLATE": "ws://voice.example.com/{pod}"}, "no TLS"),
        ({"WS_URL_TEMPLATE": "wss://voice.example.com/{pod}"}, None),
        ({"PUBLIC_BASE_URL": "https://voice.example.com"}, None),
        ({"VOICE_AGENT_BASE_URL": "wss://127.example.com"}, None),
    ],
)
def test_a_url_that_no_provider_can_reach_is_warned_about_by_name(start_router, env, reason):
    router = start_router({**env, "TWILIO_AUTH_TOKEN": "0123456789abcdef", "EXOTEL_TOKEN": "0123456789abcdef"})
    lines = [line for line in router.log_lines() if line["msg"].startswith(UNREACHABLE)]
    if not reason:
        assert lines == []
        return
    (line,) = lines
    assert line["level"] == "warn" and line["providers"] == "twilio exotel" and reason in line["reason"]
    assert line["variable"] == ("WS_URL_TEMPLATE" if "WS_URL_TEMPLATE" in env else "VOICE_AGENT_BASE_URL")


def test_without_a_token_there_is_nothing_to_warn_about(start_router):
    assert UNREACHABLE not in start_router().log()
