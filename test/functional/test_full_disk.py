"""A disk without room: allocations are refused, the process lives, and goes on when there is room again."""

import http.client
import json
import resource
import subprocess

import httpx
import pytest
from conftest import wait_until

# Below what is written already, and above: the first refuses the very next write, the second the next chunk.
LIMITS = [4096, 1024 * 1024 + 65536]


def set_limit(router, size):
    """Files of the router cannot grow beyond `size`, as on a disk that is full."""
    _, hard = resource.prlimit(router.proc.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(router.proc.pid, resource.RLIMIT_FSIZE, (size, hard))


def fill_until_refused(router):
    """Changes a merchant's configuration, which goes into the log as a whole, until that is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", router.port, timeout=20)
    text = '{"tier":"gold"' + " " * 8000 + "}"
    for _ in range(1000):
        connection.request("PUT", "/api/v1/merchants/filler", text)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        if answer.status != 200:
            connection.close()
            return answer, body
    pytest.fail("the disk never became full")


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
@pytest.mark.parametrize("limit", LIMITS)
def test_full_disk_refuses_and_recovers(start_router, tmp_path, fsync, limit):
    env = {"LOG_FSYNC": fsync}
    data_dir = tmp_path / "data"
    router = start_router(env, data_dir)
    kept = router.allocate("CA-kept")["pod_name"]
    router.allocate("CA-released")
    router.release("CA-released")

    set_limit(router, limit)
    refusal, body = fill_until_refused(router)
    assert refusal.status == 503
    assert int(refusal.headers["Retry-After"]) > 0
    assert body["success"] is False
    # While the disk is full: alive, not ready, and what is known can still be asked for.
    wait_until(lambda: router.get("/ready").status_code == 503, "the router is not ready")
    assert router.post("/api/v1/allocate", {"call_sid": "CA-new"}).status_code == 503
    assert router.get("/health").status_code == 200
    assert router.get("/api/v1/call/CA-kept").json()["pod_name"] == kept
    assert router.get("/api/v1/call/CA-new").status_code == 404
    assert router.proc.poll() is None

    set_limit(router, resource.RLIM_INFINITY)
    wait_until(lambda: router.get("/ready").status_code == 200, "the router is ready again")
    new = router.allocate("CA-new")["pod_name"]
    if fsync == "always":
        router.kill()
    else:
        assert router.stop() == 0

    router = start_router(env, data_dir)
    assert router.get("/api/v1/call/CA-kept").json()["pod_name"] == kept
    assert router.get("/api/v1/call/CA-new").json()["pod_name"] == new
    assert router.get("/api/v1/call/CA-released").status_code == 404


@pytest.fixture
def small_disk(tmp_path):
    path = tmp_path / "disk"
    path.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mount.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_disk_filled_by_somebody_else(small_disk, start_router):
    data_dir = small_disk / "data"
    router = start_router({}, data_dir)
    router.allocate("CA-kept")
    rubbish = small_disk / "rubbish"
    with open(rubbish, "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(4096))

    refusal, _ = fill_until_refused(router)
    assert refusal.status == 503
    assert router.post("/api/v1/allocate", {"call_sid": "CA-new"}).status_code == 503
    assert router.get("/ready").status_code == 503
    assert router.get("/health").status_code == 200
    # A call that ends still gives its pod back: some space was kept for that.
    assert router.post("/api/v1/release", {"call_sid": "CA-kept"}).status_code == 200

    # A restart on the full disk neither fails nor forgets.
    router.kill()
    router = start_router({}, data_dir, wait=False)
    ports = wait_until(
        lambda: [line["port"] for line in router.log_lines("listening") if line["name"] == "http"],
        "the router listens",
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", trust_env=False) as client:
        assert client.get("/ready").status_code == 503
        assert client.get("/api/v1/call/CA-kept").status_code == 404
        rubbish.unlink()
        wait_until(lambda: client.get("/ready").status_code == 200, "the router is ready again")
        assert client.post("/api/v1/allocate", json={"call_sid": "CA-new"}).status_code == 200
