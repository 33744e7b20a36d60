"""A disk without room: allocations are refused, the process lives, and goes on when there is room again."""

import resource

import pytest
from conftest import wait_until

# Below what is written already, and above: the first refuses the very next write, the second the next chunk.
LIMITS = [4096, 1024 * 1024 + 65536]


def set_limit(router, size):
    """Files of the router cannot grow beyond `size`, as on a disk that is full."""
    _, hard = resource.prlimit(router.proc.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(router.proc.pid, resource.RLIMIT_FSIZE, (size, hard))


def work_until_refused(router):
    """Allocates and releases one call until that is refused; returns the refusal."""
    for _ in range(20000):
        for path in ("/api/v1/allocate", "/api/v1/release"):
            answer = router.post(path, {"call_sid": "CA-again"})
            if answer.status_code != 200:
                return answer
    pytest.fail("the disk never became full")


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
@pytest.mark.parametrize("limit", LIMITS)
def test_full_disk_refuses_and_recovers(start_router, tmp_path, fsync, limit):
    env = {"LOG_FSYNC": fsync, "LOG_LEVEL": "warn"}
    data_dir = tmp_path / "data"
    router = start_router(env, data_dir)
    kept = router.allocate("CA-kept")["pod_name"]
    router.allocate("CA-released")
    router.release("CA-released")

    set_limit(router, limit)
    refusal = work_until_refused(router)
    assert refusal.status_code == 503
    assert int(refusal.headers["Retry-After"]) > 0
    assert refusal.json()["success"] is False
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
