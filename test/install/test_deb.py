"""The Debian package: built, judged, and lived with: installed, upgraded under load, removed and purged."""

import gzip
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import basics
import pytest
from conftest import DEADLINE_S, ROOT, harness, wait_until
from debian_root import CACHE, Machine, Root, dependencies
from service_manager import ServiceManager

BUILD_S = 900
CLIENTS = 8
KEPT_CALLS = 5
MORE_PODS = ",".join(f"voice-agent-{i}" for i in range(40))
EXPOSURE_MAX = 2.0
UNITS = ("smart-router.service", "smart-router.socket")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """What `make release` gathers of this tree, but for chart and image, which have tests of their own."""
    if not shutil.which("dpkg-buildpackage"):
        basics.skip("there is no dpkg-buildpackage")
    out = tmp_path_factory.mktemp("release") / "dist"
    gathered = subprocess.run(
        ["scripts/release", out], cwd=ROOT, env={**os.environ, "RELEASE_PARTS": "source"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=BUILD_S, check=False,
    )
    assert gathered.returncode == 0, gathered.stdout
    return out


@pytest.fixture(scope="module")
def package(release):
    """The package of this tree."""
    return next(release.glob("smart-router_*.deb"))


@pytest.fixture(scope="module")
def libraries(release):
    """The packages of the client library: (libsmartrouter1, libsmartrouter-dev)."""
    return [next(release.glob(f"{name}_*.deb")) for name in ("libsmartrouter1", "libsmartrouter-dev")]


@pytest.fixture(scope="module")
def older(package, tmp_path_factory):
    """The same with a lower version: what an upgrade replaces."""
    tree = tmp_path_factory.mktemp("older") / "tree"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", "Version: 0.0.1", control.read_text(), flags=re.M))
    target = tree.parent / "smart-router_0.0.1_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, target], check=True, stdout=subprocess.DEVNULL)
    return target


@pytest.fixture(scope="module")
def contents(package, tmp_path_factory):
    """The files of the package, unpacked."""
    tree = tmp_path_factory.mktemp("contents") / "tree"
    subprocess.run(["dpkg-deb", "-x", package, tree], check=True)
    return tree


@pytest.fixture
def root(package, tmp_path):
    """A clean Debian without a running systemd."""
    if os.geteuid() != 0:
        pytest.skip("only root can use a root directory")
    root = Root(tmp_path / "root", dependencies(package))
    yield root
    root.remove()


@pytest.fixture
def machine(package, tmp_path):
    """A clean Debian with a running systemd."""
    if os.geteuid() != 0 or not shutil.which("systemd-nspawn"):
        pytest.skip("only root can boot a container, with systemd-nspawn")
    machine = Machine(tmp_path / "machine", dependencies(package))
    try:
        if not machine.boots():
            pytest.skip(f"systemd does not boot in a container here:\n{machine.log_path.read_text(errors='replace')[-1000:]}")
        yield machine
    finally:
        machine.stop()
        machine.remove()


def unit_of(contents, name):
    return next(contents.glob(f"**/systemd/system/{name}"))


def test_lintian_finds_no_error_and_warns_of_nothing(package, libraries):
    found = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error,warning", package, *libraries], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )
    assert found.returncode == 0, found.stdout


def test_the_sources_give_the_same_package_wherever_they_are(release, package, libraries, tmp_path):
    """The second build begins with the tarball: elsewhere, without git, with another umask and no cache of the compiler."""
    subprocess.run(["tar", "-xzf", next(release.glob("*.tar.gz")), "-C", tmp_path], check=True)
    source = next(tmp_path.glob("smart-router-*"))
    env = {name: value for name, value in os.environ.items() if name not in ("SOURCE_DATE_EPOCH", "BUILD_VERSION")}
    subprocess.run(["sh", "-c", "umask 077 && scripts/deb dist"], cwd=source, check=True, timeout=BUILD_S, stdout=subprocess.DEVNULL,
                   env={**env, "CCACHE_DISABLE": "1", "TZ": "Asia/Kolkata", "HOME": str(tmp_path)})
    for built in (package, *libraries):
        again = source / "dist" / built.name
        sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (built, again)]
        assert sums[0] == sums[1], difference(built, again)
    # So do the sources themselves: what was unpacked packs to the same tarball.
    subprocess.run(["scripts/source-tarball", tmp_path / "tarball"], cwd=source, env=env, check=True, stdout=subprocess.DEVNULL)
    tarballs = [next(release.glob("*.tar.gz")), next((tmp_path / "tarball").iterdir())]
    assert tarballs[0].read_bytes() == tarballs[1].read_bytes()


def difference(one, other):
    """Which files of two packages differ."""
    listings = []
    for deb in (one, other):
        tree = pathlib.Path(tempfile.mkdtemp())
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
        listings.append({str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest() for path in tree.rglob("*") if path.is_file()})
        shutil.rmtree(tree)
    return [name for name in sorted({*listings[0], *listings[1]}) if listings[0].get(name) != listings[1].get(name)]


def test_the_sums_of_the_release_are_those_of_its_files(release):
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=release, check=True)
    named = {line.split()[1] for line in (release / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in release.iterdir()} - {"SHA256SUMS"}
    kinds = ("smart-router_*_amd64.deb", "smart-router-dbgsym_*.deb", "smart-router-*.tar.gz", "smart-router_*.spdx.json")
    assert [len(list(release.glob(kind))) for kind in kinds] == [1, 1, 1, 1]


def test_the_sbom_is_valid_and_names_what_the_binary_is_linked_with(release, package, contents):
    bill = next(release.glob("*.spdx.json"))
    judged = subprocess.run([spdx_judge(), "-m", "spdx_tools.spdx.clitools.pyspdxtools", "-i", bill], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False)
    assert judged.returncode == 0, judged.stdout
    document = json.loads(bill.read_text())
    packages = {each["name"]: each for each in document["packages"]}
    assert packages["smart-router"]["checksums"][0]["checksumValue"] == hashlib.sha256(package.read_bytes()).hexdigest()
    linked = {link["relatedSpdxElement"].removeprefix("SPDXRef-Package-") for link in document["relationships"]
              if link["relationshipType"] == "DYNAMIC_LINK"}
    assert linked == {name for name in dependencies(package) if name != "systemd"}
    for name in linked:
        version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], check=True, stdout=subprocess.PIPE, text=True).stdout
        assert packages[name]["versionInfo"] == version and packages[name]["licenseDeclared"] != "NOASSERTION", name


def spdx_judge():
    """A Python that has SPDX's own validator; installed once, into the cache."""
    wanted = pathlib.Path(__file__).with_name("spdx-requirements.txt")
    key = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()[:16]
    python = CACHE / f"spdx-{key}" / "bin/python"
    if not (python.parent / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", python.parents[1]], check=True)
        installed = subprocess.run(
            [python, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check", "--only-binary", ":all:",
             "--require-hashes", "-r", wanted],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )
        if installed.returncode != 0:
            basics.skip(f"pip cannot install the judge of SBOMs: {installed.stdout[-500:]}")
        (python.parent / "complete").touch()
    return python


def test_the_client_library_is_in_packages_of_its_own(libraries, contents, tmp_path):
    names = []
    for package in libraries:
        subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
        listed = subprocess.run(["dpkg-deb", "-c", package], check=True, stdout=subprocess.PIPE, text=True).stdout
        names.append({line.split()[5] for line in listed.splitlines() if not line.endswith("/")})
    runtime, dev = ({re.sub(r".*/", "", name) for name in each} for each in names)
    assert {"libsmartrouter.so.1", "libsmartrouter.so.1.1.0"} <= runtime
    assert {"smartrouter.h", "libsmartrouter.so", "libsmartrouter.a", "smartrouter.pc", "agent.c"} <= dev
    assert not list(contents.rglob("*libsmartrouter*.so*")), "the router does not need it"
    # A program builds with what both unpack.
    library = next(tmp_path.rglob("libsmartrouter.a")).parent
    program = tmp_path / "agent"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "smartrouter"], check=True, stdout=subprocess.PIPE, text=True,
                           env={**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}).stdout
    subprocess.run(["gcc", "-o", program, ROOT / "clients/c/examples/agent.c", *flags.split(), f"-L{library}", f"-I{tmp_path}/usr/include",
                    "-pthread"], check=True)
    refused = subprocess.run([program], env={"LD_LIBRARY_PATH": str(library)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "agent: POD_NAME and POD_IP must be set\n")


def test_the_version_is_the_trees(package, contents):
    version = subprocess.run(["scripts/version"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    field = subprocess.run(["dpkg-deb", "-f", package, "Version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    printed = subprocess.run([contents / "usr/bin/smart-router", "version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert (field, printed) == (version, f"smart-router {version}\n")


def test_the_unit_is_exposed_to_little(contents):
    unit = unit_of(contents, "smart-router.service").relative_to(contents)
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--root={contents}", unit.name],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    ).stdout
    exposure = re.search(r"Overall exposure level for smart-router.service: ([\d.]+)", judged)
    assert exposure and float(exposure[1]) <= EXPOSURE_MAX, judged


def test_the_file_of_settings_has_each_setting_once_and_sets_none(contents):
    text = (contents / "etc/default/smart-router").read_text()
    shown = subprocess.run([contents / "usr/bin/smart-router", "check-config"], env={}, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert all(not line or line.startswith("#") for line in text.splitlines())
    assert re.findall(r"^#([A-Z_]+)=", text, re.M) == re.findall(r"^([A-Z_]+)=", shown, re.M)
    # Each default is written as the router takes it.
    env = {name: value for name, value in re.findall(r"^#([A-Z_]+)=(.+)$", text, re.M) if name != "SERVICE_ACCOUNT_DIR"}
    checked = subprocess.run([contents / "usr/bin/smart-router", "check-config"], env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_manual_page_has_every_command_and_setting(contents):
    page = gzip.open(contents / "usr/share/man/man1/smart-router.1.gz", "rt").read()
    shown = subprocess.run([contents / "usr/bin/smart-router", "check-config"], env={}, check=True, stdout=subprocess.PIPE, text=True).stdout
    named = re.findall(r"^\.B (\S+)", page, re.M)
    assert set(re.findall(r"^([A-Z_]+)=", shown, re.M)) <= set(named)
    assert {"serve", r"check\-config", "routes", "version", "help"} <= set(named)
    rendered = subprocess.run(
        ["man", "--warnings", "-l", contents / "usr/share/man/man1/smart-router.1.gz"],
        env={"PATH": os.environ["PATH"], "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANROFFOPT": ""}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, check=True,
    )
    assert not rendered.stderr and "SIGTERM" in rendered.stdout


def test_bash_completes_commands_and_options(contents):
    def complete(*words):
        script = f"""source {contents}/usr/share/bash-completion/completions/smart-router
            COMP_WORDS=(smart-router {' '.join(repr(word) for word in words)}); COMP_CWORD={len(words)}
            _smart_router; echo "${{COMPREPLY[@]}}" """
        return subprocess.run(["bash", "-c", script], check=True, stdout=subprocess.PIPE, text=True).stdout.split()

    assert {"serve", "check-config", "routes", "version", "help"} <= set(complete(""))
    assert complete("che") == ["check-config"]
    assert complete("routes", "--") == ["--openapi"]
    assert complete("version", "") == []
    assert complete("merchant", "ro") == ["rollback"]


def test_zsh_has_its_completion(contents):
    assert (contents / "usr/share/zsh/vendor-completions/_smart-router").read_text().startswith("#compdef smart-router\n")


def test_the_links_of_the_documents_lead_to_files(contents):
    doc = contents / "usr/share/doc/smart-router"
    for document in (doc / "README.md", *doc.glob("docs/*.md")):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def settings_of_unit(contents):
    """What the unit sets by itself, and the command."""
    text = unit_of(contents, "smart-router.service").read_text().replace("%S", "/var/lib")
    return dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.M)), re.search(r"^ExecStart=(.*)$", text, re.M)[1]


def test_in_a_clean_root_the_package_serves_as_its_user_and_goes_as_asked(root, package, contents, tmp_path, start_router, monkeypatch):
    root.run("dpkg", "-i", root.take(package))
    for unit in UNITS:
        assert root.run("systemd-analyze", "verify", "--man=no", unit) == ""
    env, command = settings_of_unit(contents)
    root.run("install", "-d", "-o", "smart-router", "-g", "smart-router", "-m", "0700", env["DATA_DIR"])
    manager_directory = tmp_path / "manager"
    manager_directory.mkdir()
    privileges = ("setpriv", "--reuid=smart-router", "--regid=smart-router", "--clear-groups", "--no-new-privs",
                  "--bounding-set=-all", "--inh-caps=-all")
    manager = ServiceManager(manager_directory, [shutil.which("env"), *root.command(*privileges, command)], is_abstract=True)
    monkeypatch.setattr(harness, "BINARY", manager.command)
    router = start_router({**manager.env(1), **env})
    assert manager.wait_for("READY") == ["1"]
    manager.wait_for("WATCHDOG", 2)
    assert pathlib.Path(f"/proc/{router.proc.pid}").stat().st_uid != 0
    assert router.allocate("CA1")["success"]
    assert router.stop() == 0
    assert manager.values("STOPPING") == ["1"]
    manager.close()

    data = root.path / "var/lib/smart-router"
    kept = sorted(path.name for path in data.iterdir())
    assert kept
    root.run("dpkg", "-r", "smart-router")
    assert not (root.path / "usr/bin/smart-router").exists()
    assert sorted(path.name for path in data.iterdir()) == kept and (root.path / "etc/default/smart-router").exists()
    root.run("dpkg", "-P", "smart-router")
    assert not data.exists() and not (root.path / "etc/default/smart-router").exists()


class Load:
    """Clients that allocate and release without pause. A connection that ends is made anew; one that is refused is a failure."""

    def __init__(self, port):
        self.port = port
        self.answers = 0
        self.failures = []
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(i,)) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        turn = 0
        while not self.is_over.is_set():
            turn += 1
            body = json.dumps({"call_sid": f"load-{number}-{turn}"})
            for path in ("/api/v1/allocate", "/api/v1/release"):
                self._ask(path, body)

    def _ask(self, path, body):
        while not self.is_over.is_set():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
                connection.request("POST", path, body)
                answer = connection.getresponse()
                text = answer.read()
                connection.close()
            except ConnectionRefusedError as error:
                self.failures.append(f"{path}: {error}")
                return
            except (OSError, http.client.HTTPException):
                continue  # as a client whose connection was closed does
            self.answers += 1
            if answer.status != 200 and not (answer.status == 404 and path.endswith("release")):
                self.failures.append(f"{path}: {answer.status} {text}")
            return

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def call(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    connection.request(method, path, json.dumps(body) if body else None)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return json.loads(text)


def set_ports(machine, port):
    """The container shares the network with other tests. These are the drop-ins that an administrator would write."""
    machine.write("/etc/systemd/system/smart-router.service.d/test.conf",
                  f"[Service]\nEnvironment=HTTP_PORT={port} METRICS_PORT=0 SHUTDOWN_DELAY=1s\nWatchdogSec=3s\n")
    machine.write("/etc/systemd/system/smart-router.socket.d/test.conf", f"[Socket]\nListenStream=\nListenStream=127.0.0.1:{port}\n")


def test_under_systemd_it_starts_hangs_upgrades_under_load_and_goes(machine, older, package):
    port = basics.free_port()
    set_ports(machine, port)
    machine.run("dpkg", "-i", machine.take(older))
    assert machine.show("smart-router", "ActiveState") == "active"
    assert machine.show("smart-router", "StatusText") == f"Serving on port {port}"
    machine.run("systemctl", "reload", "smart-router.service")

    # The sandbox is in force.
    pid = machine.show("smart-router", "MainPID")
    status = machine.run("cat", f"/proc/{pid}/status")
    assert re.search(r"^Seccomp:\s*2$", status, re.M) and re.search(r"^NoNewPrivs:\s*1$", status, re.M)
    assert re.search(r"^CapBnd:\s*0+$", status, re.M) and not re.search(r"^Uid:\s*0", status, re.M)

    # The administrator changes the settings, and lets systemd hold the port.
    settings = machine.path / "etc/default/smart-router"
    settings.write_text(settings.read_text() + f"STATIC_PODS={MORE_PODS}\n")
    machine.run("systemctl", "stop", "smart-router.service")
    machine.run("systemctl", "enable", "--now", "smart-router.socket")
    machine.run("systemctl", "start", "smart-router.service")
    pods = {f"kept-{i}": call(port, "POST", "/api/v1/allocate", {"call_sid": f"kept-{i}"})["pod_name"] for i in range(KEPT_CALLS)}

    # A router that hangs is killed by the watchdog and started again; its calls are kept.
    hung = machine.show("smart-router", "MainPID")
    machine.run("sh", "-c", f"kill -{int(signal.SIGSTOP)} {hung}")
    wait_until(lambda: machine.show("smart-router", "MainPID") not in ("0", hung), "the watchdog starts another router")
    wait_until(lambda: machine.show("smart-router", "ActiveState") == "active", "the other router is ready")
    assert machine.show("smart-router", "NRestarts") == "1"

    # The upgrade restarts it while clients allocate: nobody is refused, no call is lost, the settings stay.
    load = Load(port)
    wait_until(lambda: load.answers > 100, "the load runs")
    before = machine.show("smart-router", "MainPID")
    machine.run("dpkg", "-i", machine.take(package))
    assert machine.show("smart-router", "MainPID") not in ("0", before)
    at_upgrade = load.answers
    wait_until(lambda: load.answers > at_upgrade + 100, "the load goes on")
    load.stop()
    assert not load.failures, load.failures[:5]
    version = subprocess.run(["dpkg-deb", "-f", package, "Version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    assert call(port, "GET", "/api/v1/status")["version"] == version
    assert "STATIC_PODS" in settings.read_text()
    for sid, pod in pods.items():
        answer = call(port, "POST", "/api/v1/allocate", {"call_sid": sid})
        assert (answer["pod_name"], answer["was_existing"]) == (pod, True)

    machine.run("dpkg", "-r", "smart-router")
    assert [machine.show(unit, "ActiveState") for unit in UNITS] == ["inactive", "inactive"]
    assert list((machine.path / "var/lib/smart-router").iterdir()), "removal keeps the data"
    machine.run("dpkg", "-P", "smart-router")
    assert not (machine.path / "var/lib/smart-router").exists() and not settings.exists()
