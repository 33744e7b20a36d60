"""Files that other users of the machine can read or write: what the router refuses, and what it warns about."""

import os
import signal

import pytest
import tls
from conftest import wait_until

READABLE = (
    "every user of this machine can read or change a file with a secret: give it to the router's user with mode 0600, or to a group of its own with 0440"
)
WRITABLE = (
    "others can write in the data directory: they can remove and replace the calls stored there; "
    "make it the router's own, with mode 0700"
)


def warned(router):
    return [(line["variable"], line["file"], line["mode"]) for line in router.log_lines(READABLE)]


def write(path, text, mode):
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_secret_that_everybody_can_read_is_warned_about_at_start_and_reload(start_router, tmp_path):
    key = write(tmp_path / "key", "the-key-of-this-test\n", 0o644)
    token = write(tmp_path / "token", "the-token-of-this-test\n", 0o600)
    for_group = write(tmp_path / "secret", "a-secret-for-the-group-of-kubernetes\n", 0o440)
    router = start_router({"API_KEY_FILE": key, "TWILIO_AUTH_TOKEN_FILE": token, "GATEWAY_SECRET_FILE": for_group})
    assert warned(router) == [("API_KEY_FILE", key, "0644")]
    assert router.log_lines(READABLE)[0]["level"] == "warn"
    os.chmod(key, 0o600)
    os.chmod(token, 0o604)
    router.proc.send_signal(signal.SIGHUP)
    wait_until(lambda: router.log_lines("reloaded"), "it has reloaded")
    assert warned(router)[1:] == [("TWILIO_AUTH_TOKEN_FILE", token, "0604")]
    assert "the-key-of" not in router.log() and "the-token-of" not in router.log()


def test_keys_of_tls_are_looked_at_as_well(start_router, tmp_path):
    pair = tls.Certificate(tmp_path / "tls")
    pair.key.chmod(0o644)
    router = start_router(pair.env)
    assert warned(router) == [("TLS_KEY_FILE", str(pair.key), "0644")]


@pytest.mark.parametrize("mode,is_warned", [(0o700, False), (0o770, False), (0o777, True), (0o1777, True)])
def test_a_data_directory_that_everybody_can_write_is_warned_about(start_router, tmp_path, mode, is_warned):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(mode)
    router = start_router(data_dir=data)
    assert [line["directory"] for line in router.log_lines(WRITABLE)] == ([str(data)] if is_warned else [])


def test_a_link_named_lock_is_refused_and_its_target_stays(run_router, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    data = tmp_path / "data"
    data.mkdir()
    (data / "lock").symlink_to(victim)
    done = run_router(data_dir=data)
    assert done.returncode != 0
    assert "lock in the data directory" in done.output and "not a regular file" in done.output
    assert victim.read_text() == "precious"
