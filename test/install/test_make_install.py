"""`make install`: what lies below PREFIX serves a call, without anything of the tree."""

import os
import subprocess

import documented
import pytest
from conftest import DEADLINE_S, ROOT, harness


@pytest.fixture
def installed(tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(["make", "-s", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr"], cwd=ROOT, env=env, check=True,
                   timeout=10 * DEADLINE_S)
    return tmp_path / "usr"


def test_the_installed_binary_serves_a_call(installed, start_router, monkeypatch):
    monkeypatch.setattr(harness, "BINARY", installed / "bin/smart-router")
    router = start_router()
    assert router.proc.args[0] == str(installed / "bin/smart-router")
    assert router.allocate("CA1")["pod_name"].startswith("voice-agent-")
    assert router.post("/api/v1/release", {"call_sid": "CA1"}).status_code == 200


def test_the_commands_of_the_document_install_it(tmp_path):
    """In a mount namespace, where /usr/local is empty and leaves nothing behind. Root needs no sudo."""
    if os.geteuid() != 0:
        pytest.skip("only root can install below /usr/local")
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ.get("HOME", "/root")}
    # One shell for all commands, because the namespace goes with it.
    lines = ["mount -t tmpfs tmpfs /usr/local"]
    for command, _ in documented.steps("source"):
        lines += [command, "echo; echo end of a command"]
    script = "set -e\n" + "\n".join(lines)
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", script], cwd=ROOT, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = iter(done.stdout.split("end of a command\n"))
    documented.run("source", lambda command: next(printed))
