"""The container image: it is built here without a registry, has what the router needs and nothing else, and serves a call
with a read-only root, no capability and no user of this machine. compose.yaml is started as it is.

The base of the build is a Debian that mmdebstrap makes (scripts/debian-root); the stand-in for the image of Redis is made of
this machine's redis-server.
"""

import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess

import containers
import documented
import pytest
from conftest import BUILD_DIR, ROOT, wait_until

STARTS_EARLY = True
NOBODY = 65534
FIRST_ID = 1000000  # of the ids that the container's users have on this machine: none of them is anybody's
BINARY = "usr/bin/smart-router"
DATA_DIR = "var/lib/smart-router"
TERMINALS = ("xterm", "xterm-256color", "screen", "screen-256color", "tmux", "tmux-256color", "linux", "vt100", "vt220")
OTHER_FILES = {BINARY, "etc/passwd", "etc/group", "etc/ssl/certs/ca-certificates.crt"}
OTHER_FILES |= {f"usr/share/terminfo/{name[0]}/{name}" for name in TERMINALS}  # for `smart-router top`
RESTRICTED = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--uidmap", f"0:{FIRST_ID}:65536",
              "--gidmap", f"0:{FIRST_ID}:65536", "--network", "host")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """An engine that has both images, made by `make image`."""
    containers.skip_unless_possible()
    engine = containers.Engine(tmp_path_factory.mktemp("containers"))
    try:
        engine.env |= {"BASE": "mmdebstrap", "IMAGE_TOOL": "podman"}
        documented.run("image", lambda command: engine.build_side("bash", "-c", command).stdout)
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="module")
def image_root(engine):
    """The image as a directory."""
    yield pathlib.Path(engine.build_side("podman", "image", "mount", "smart-router").stdout.strip())
    engine.build_side("podman", "image", "umount", "smart-router", check=False)


@pytest.fixture
def start(engine):
    """start(*options) -> the name of a running router, which answers on ports 8080 and 9090."""
    names = []

    def run(*options):
        name = f"router-{len(names)}"
        names.append(name)
        started = engine.podman("run", "-d", "--name", name, *RESTRICTED, *options, "smart-router", check=False)
        assert started.returncode == 0, started.stderr
        engine.wait_for("/ready")
        return name

    yield run
    for name in names:
        engine.podman("rm", "-f", "-t", "0", "-v", name, check=False)


def libraries_of(root):
    """What the image's own loader finds for the router, inside the image; and the loader."""
    interpreter = subprocess.run(["readelf", "-l", root / BINARY], capture_output=True, text=True, check=True).stdout
    loader = re.search(r"interpreter: (/\S+)\]", interpreter).group(1)
    listed = subprocess.run(["chroot", root, loader, "--list", f"/{BINARY}"], capture_output=True, text=True, check=False)
    assert listed.returncode == 0 and "not found" not in listed.stdout, listed.stdout + listed.stderr
    return {loader[1:]} | {path[1:] for path in re.findall(r"=> (/\S+)", listed.stdout)}


def expect_same(found, expected, what):
    """Both differences are in the message, whatever pytest cuts off."""
    differences = f"too many {what}: {sorted(found - expected)}; missing {what}: {sorted(expected - found)}"
    assert found == expected, differences


def test_the_image_has_what_the_router_needs_and_nothing_else(image_root, tell):
    found = {str(path.relative_to(image_root)): path.lstat() for path in image_root.rglob("*")}
    files = {name for name, info in found.items() if not stat.S_ISDIR(info.st_mode)}
    expect_same(files, OTHER_FILES | libraries_of(image_root), "files")
    parents = {str(parent) for name in [*files, DATA_DIR] for parent in pathlib.PurePath(name).parents} - {"."}
    expect_same(set(found) - files, parents | {DATA_DIR}, "directories")
    assert [name for name in files if not stat.S_ISREG(found[name].st_mode)] == []
    for name, info in found.items():
        owner = NOBODY if name == DATA_DIR else 0
        shown = f"{name} {stat.filemode(info.st_mode)} {info.st_uid}:{info.st_gid}"
        assert (info.st_uid, info.st_gid) == (owner, owner), shown
        assert not info.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH | stat.S_IWGRP), shown
    size = sum(found[name].st_size for name in files)
    tell(f"the image has {size / 1e6:.1f} MB in {len(files)} files, {len(files) - len(OTHER_FILES)} of them libraries")
    assert size < 40e6


def test_the_image_says_how_it_runs(engine):
    config = engine.inspect("image", "smart-router")["Config"]
    version = engine.podman("run", "--rm", *RESTRICTED, "smart-router", "version").stdout
    assert config["User"] == f"{NOBODY}:{NOBODY}"
    assert config["Entrypoint"] == ["/usr/bin/smart-router"] and "Cmd" not in config
    assert config["StopSignal"] == "SIGTERM"
    assert list(config["Volumes"]) == [f"/{DATA_DIR}"] and f"DATA_DIR=/{DATA_DIR}" in config["Env"]
    assert version == f"smart-router {config['Labels']['org.opencontainers.image.version']}\n"
    # The variables of the image are known to the router, and all of its settings are good.
    settings = engine.podman("run", "--rm", *RESTRICTED, "smart-router", "check-config").stdout
    assert f"DATA_DIR=/{DATA_DIR}  # environment" in settings


def test_it_serves_a_call_with_no_rights_and_ends_with_0(engine, start):
    name = start("-e", "STATIC_PODS=voice-agent-0", "-v", "state:/var/lib/smart-router")
    status, call = engine.ask("/api/v1/allocate", {"call_sid": "CA1"})
    assert status == 200 and call["pod_name"] == "voice-agent-0"

    pid = engine.inspect("container", name)["State"]["Pid"]
    rights = dict(line.split(":\t") for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert {who for kind in ("Uid", "Gid", "Groups") for who in rights[kind].split()} == {str(FIRST_ID + NOBODY)}
    assert {int(rights[kind], 16) for kind in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
    assert rights["NoNewPrivs"] == "1"
    mounts = [line.split() for line in pathlib.Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    assert "ro" in next(options for _, place, _, options, *_ in mounts if place == "/").split(",")

    # What was answered is there after a stop: the volume is the store.
    engine.podman("stop", "-t", "60", name)
    assert engine.inspect("container", name)["State"]["ExitCode"] == 0
    engine.podman("start", name)
    engine.wait_for("/ready")
    assert engine.ask("/api/v1/call/CA1")[1]["pod_name"] == "voice-agent-0"
    assert engine.ask("/api/v1/release", {"call_sid": "CA1"})[0] == 200


def test_the_health_check_tells_a_well_router_from_one_that_hangs(engine, start):
    name = start()
    assert engine.inspect("container", name)["Config"]["Healthcheck"]["Test"] == ["CMD", "/usr/bin/smart-router", "health"]
    engine.podman("healthcheck", "run", name)
    engine.podman("exec", name, "/usr/bin/smart-router", "health", "--ready")
    pid = engine.inspect("container", name)["State"]["Pid"]
    os.kill(pid, signal.SIGSTOP)
    assert engine.podman("healthcheck", "run", name, check=False).returncode != 0
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: engine.podman("healthcheck", "run", name, check=False).returncode == 0, "it is well again")


def test_the_commands_of_the_document_run_a_container(engine):
    try:
        documented.run("container", lambda command: engine.inside("bash", "-c", command).stdout)
    finally:
        engine.podman("rm", "-f", "-t", "0", "smart-router", check=False)


@pytest.fixture
def redis_image(engine, tmp_path):
    """This machine's redis-server, in an image with the name that compose.yaml asks for."""
    root = tmp_path / "redis"
    subprocess.run([ROOT / "scripts/image-root", root, shutil.which("redis-server")], check=True)
    (root / "data").mkdir()
    subprocess.run(["tar", "-C", root, "-cf", tmp_path / "redis.tar", "."], check=True)
    engine.build_side("podman", "import", "-q", str(tmp_path / "redis.tar"), "redis:7-bookworm")


@pytest.fixture
def compose(engine, redis_image):
    """An engine for compose.yaml. What was started is removed, with its logs shown if the test failed."""
    yield engine
    for name in engine.podman("ps", "-a", "--format", "{{.Names}}").stdout.split():
        print(name, engine.podman("logs", name, check=False))
    engine.podman("rm", "-a", "-f", "-t", "0", check=False)


def container_of(engine, service):
    """The one container of a service of compose.yaml."""
    names = engine.podman("ps", "-a", "--filter", f"label=com.docker.compose.service={service}", "--format", "{{.Names}}")
    return names.stdout.strip()


def test_the_commands_of_the_document_start_two_routers_redis_and_agents(compose):
    documented.run("compose", lambda command: compose.inside("bash", "-c", command).stdout)
    talk = BUILD_DIR.resolve() / "tools/talk"
    for port in (8080, 8081):
        talked = compose.inside(talk, "--router", f"http://localhost:{port}", "--call", f"CA{port}", "Hello, agent")
        assert "received  Hello, agent" in talked.stdout
    leaders = [compose.ask("/api/v1/status", port=port)[1]["is_leader"] for port in (8080, 8081)]
    assert sorted(leaders) == [False, True]
    for service in ("router-a", "router-b"):
        compose.podman("healthcheck", "run", container_of(compose, service))

    # One router is enough.
    stopped = container_of(compose, "router-a")
    compose.podman("stop", "-t", "60", stopped)
    assert compose.inspect("container", stopped)["State"]["ExitCode"] == 0
    assert compose.ask("/api/v1/allocate", {"call_sid": "CA3"}, port=8081)[0] == 200

    documented.run("compose-down", lambda command: compose.inside("bash", "-c", command).stdout)
    assert compose.podman("ps", "-a", "-q").stdout == "" and "redis" not in compose.podman("volume", "ls").stdout
