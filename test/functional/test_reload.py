"""SIGHUP: secrets from files change while the router runs, all of them or none."""

import pathlib
import signal

import httpx
import pytest
from conftest import wait_until

OLD = "the-old-key-of-this-test"
NEW = "the-new-key-of-this-test"


class Files:
    """The files of the secrets, and a router that reads them."""

    def __init__(self, start_router, folder, **texts):
        self.folder = pathlib.Path(folder)
        env = {}
        for name, text in texts.items():
            self.write(name, text)
            env[f"{name}_FILE"] = str(self.path(name))
        self.router = start_router(env)

    def path(self, name):
        return self.folder / name.lower()

    def write(self, name, text):
        self.path(name).write_text(text)

    def reloads(self, status):
        for line in httpx.get(f"{self.router.metrics_url}/metrics", trust_env=False).text.splitlines():
            if line.startswith(f'smart_router_reloads_total{{status="{status}"}} '):
                return int(float(line.split()[1]))
        return None

    def hup(self, status="success"):
        before = self.reloads(status)
        self.router.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: self.reloads(status) == before + 1, f"the reload is a {status}")

    def accepts(self, key):
        answer = self.router.get("/api/v1/pods", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code in (200, 401)
        return answer.status_code == 200


@pytest.fixture
def files(start_router, tmp_path):
    return lambda **texts: Files(start_router, tmp_path, **texts)


def test_keys_are_rotated_without_a_restart(files):
    world = files(API_KEY=OLD + "\n")
    assert world.accepts(OLD) and not world.accepts(NEW)
    world.write("API_KEY", f"{NEW},{OLD}\n")
    assert not world.accepts(NEW)  # not before it is told
    world.hup()
    assert world.accepts(OLD) and world.accepts(NEW)
    world.write("API_KEY", NEW)
    world.hup()
    assert not world.accepts(OLD) and world.accepts(NEW)
    assert world.router.log_lines("reloaded")[-1]["secret_files"] == 1
    assert OLD not in world.router.log() and NEW not in world.router.log()


def remove(world):
    world.path("API_KEY").unlink()


def make_folder(world):
    remove(world)
    world.path("API_KEY").mkdir()


BAD = {
    "missing": remove,
    "folder": make_folder,
    "empty": lambda world: world.write("API_KEY", "\n"),
    "two lines": lambda world: world.write("API_KEY", f"{NEW}\n{OLD}\n"),
    "blank": lambda world: world.write("API_KEY", f"{NEW}, {OLD}\n"),
    "empty entry": lambda world: world.write("API_KEY", f"{NEW},\n"),
    "too many": lambda world: world.write("API_KEY", ",".join([NEW] * 17)),
    "too long": lambda world: world.write("API_KEY", NEW * 50),
    "huge": lambda world: world.write("API_KEY", NEW * 5000),
    "binary": lambda world: world.write("API_KEY", f"{NEW}\0"),
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_a_bad_file_changes_nothing_and_is_named(files, what):
    world = files(API_KEY=OLD)
    BAD[what](world)
    world.hup("failed")
    assert world.accepts(OLD) and not world.accepts(NEW)
    (line,) = world.router.log_lines("reload refused, everything stays as it was")
    assert line["level"] == "error"
    assert "API_KEY" in line["error"] and str(world.path("API_KEY")) in line["error"]
    assert NEW not in world.router.log()


def test_one_bad_file_keeps_all_the_others_as_they_were(files):
    world = files(API_KEY=OLD, EXOTEL_TOKEN="the-old-token-of-exotel", GATEWAY_SECRET="the-old-secret-of-the-gateway")
    world.write("API_KEY", NEW)
    world.write("EXOTEL_TOKEN", "the-new-token-of-exotel")
    world.write("GATEWAY_SECRET", "a,b,c")
    world.hup("failed")
    assert world.accepts(OLD) and not world.accepts(NEW)
    assert exotel(world.router, "CA1", "the-old-token-of-exotel") == 200
    (line,) = world.router.log_lines("reload refused, everything stays as it was")
    assert "GATEWAY_SECRET" in line["error"] and str(world.path("GATEWAY_SECRET")) in line["error"]
    world.write("GATEWAY_SECRET", "the-new-secret-of-the-gateway")
    world.hup()
    assert not world.accepts(OLD) and world.accepts(NEW)
    assert exotel(world.router, "CA2", "the-old-token-of-exotel") == 403
    assert exotel(world.router, "CA2", "the-new-token-of-exotel") == 200


def exotel(router, call_sid, token):
    return router.get(f"/api/v1/exotel/allocate?CallSid={call_sid}&token={token}").status_code


def test_tokens_of_providers_are_rotated(files):
    world = files(EXOTEL_TOKEN="the-old-token-of-exotel")
    assert exotel(world.router, "CA1", "the-new-token-of-exotel") == 403
    world.write("EXOTEL_TOKEN", "the-new-token-of-exotel,the-old-token-of-exotel")
    world.hup()
    assert exotel(world.router, "CA1", "the-new-token-of-exotel") == 200
    assert exotel(world.router, "CA1", "the-old-token-of-exotel") == 200


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_the_secret_of_tickets_is_rotated(files):
    world = files(GATEWAY_SECRET="the-old-secret-of-the-gateway")

    def is_good(url):  # its pod has no address, so that a good ticket gets no further than that
        answer = world.router.get(url.removeprefix("ws://localhost:8080"), headers=UPGRADE)
        assert answer.status_code >= 400
        return answer.status_code != 403

    old = world.router.allocate("CA1")["ws_url"]
    assert is_good(old)
    world.write("GATEWAY_SECRET", "the-new-secret-of-the-gateway,the-old-secret-of-the-gateway")
    world.hup()
    new = world.router.allocate("CA1")["ws_url"]
    assert is_good(old) and is_good(new)
    world.write("GATEWAY_SECRET", "the-new-secret-of-the-gateway")
    world.hup()
    assert not is_good(old) and is_good(new)


def test_without_files_a_reload_changes_nothing(start_router):
    router = start_router({"API_KEY": OLD, "GATEWAY_SECRET": "the-old-secret-of-the-gateway"})
    before = router.state()
    router.proc.send_signal(signal.SIGHUP)
    wait_until(lambda: router.log_lines("reloaded"), "it reloads")
    assert router.log_lines("reloaded")[0]["secret_files"] == 0
    assert router.state() == before


def test_a_short_new_secret_is_warned_about(files):
    world = files(API_KEY=OLD)
    world.write("API_KEY", f"{OLD},short")
    world.hup()
    assert world.router.log_lines("secrets that are so short can be guessed")[0]["names"] == "API_KEY"


def test_a_stream_of_events_does_not_outlive_its_key(files):
    world = files(API_KEY=OLD)
    with httpx.Client(trust_env=False, timeout=60) as client:
        with client.stream("GET", world.router.url + "/api/v1/events", headers={"Authorization": f"Bearer {OLD}"}) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry:")
            world.write("API_KEY", NEW)
            world.hup()
            for _ in lines:  # ends
                pass
        assert client.get(world.router.url + "/api/v1/events", headers={"Authorization": f"Bearer {OLD}"}).status_code == 401
