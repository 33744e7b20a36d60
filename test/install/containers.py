"""podman for the tests: storage of its own, and namespaces of its own to run containers in.

Images are built on the machine's network, because Debian's packages come from there. Containers run in a network
namespace of their own: the ports of compose.yaml are free there, and no bridge or rule is left behind.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import urllib.parse

import basics
from conftest import DEADLINE_S, ROOT, wait_until

TOOLS = ("podman", "podman-compose", "mmdebstrap", "crun", "unshare", "nsenter", "ip", "curl", "iptables")
BUILD_S = 600

# Containers get what a process here may have at most, no more than the test itself: raising a limit needs rights.
CONTAINERS_CONF = """
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "crun"
tmp_dir = "{folder}/tmp"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""
STORAGE_CONF = """
[storage]
driver = "{driver}"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""

# /run is empty: what another podman on this machine keeps there is of no concern. crun refuses to start beside a second
# hierarchy of cgroups; it needs none here.
SANDBOX = """
mount -t tmpfs tmpfs /run
if mountpoint -q /sys/fs/cgroup/unified; then umount -l /sys/fs/cgroup/unified; fi
ip link set lo up
echo ready
exec sleep infinity
"""


def mirror():
    """The host from which apt on this machine gets its packages."""
    sites = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True, check=True).stdout.split()
    return urllib.parse.urlsplit(sites[0]).hostname


def skip_unless_possible():
    if os.geteuid() != 0:
        basics.skip("images are tried as root, in namespaces of their own")
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        basics.skip(f"not installed: {' '.join(missing)}")
    done = subprocess.run(["unshare", "-m", "-n", "-U", "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        basics.skip(f"this machine allows no namespaces: {done.stderr.strip()}")
    if "http_proxy" not in os.environ:
        try:
            socket.create_connection((mirror(), 80), timeout=DEADLINE_S).close()
        except OSError as err:
            basics.skip(f"Debian's mirror cannot be reached: {err}")


class Engine:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "http_proxy", "https_proxy") if name in os.environ}
        self.env |= {"CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf", "CONTAINERS_CONF": f"{folder}/containers.conf"}
        # Without a runtime: a build needs no more than another root.
        self.env |= {"BUILDAH_ISOLATION": "chroot"}
        (self.folder / "containers.conf").write_text(CONTAINERS_CONF.format(folder=folder))
        self._choose_storage()
        command = ["unshare", "-m", "-n", "--propagation", "private", "bash", "-ec", SANDBOX]
        self.sandbox = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if (line := self.sandbox.stdout.readline()) != "ready\n":
            self.sandbox.wait()
            basics.skip(f"this machine allows no sandbox for containers: {line.strip()}")

    def _choose_storage(self):
        """overlay where the file system allows it: vfs copies everything for each layer."""
        for driver in ("overlay", "vfs"):
            (self.folder / "storage.conf").write_text(STORAGE_CONF.format(driver=driver, folder=self.folder))
            if self.build_side("podman", "info", check=False).returncode == 0:
                return
            shutil.rmtree(self.folder / "storage", ignore_errors=True)
        basics.skip("podman has no storage here")

    def _run(self, command, check, timeout, **kwargs):
        done = subprocess.run(command, env=self.env, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout, check=False, **kwargs)
        if check:
            assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done

    def build_side(self, *command, check=True, timeout=BUILD_S):
        """Runs a command on the machine's network."""
        return self._run(list(command), check, timeout)

    def inside(self, *command, check=True, timeout=2 * DEADLINE_S):
        """Runs a command where the containers are: on their network."""
        enter = ["nsenter", "-t", str(self.sandbox.pid), "-m", "-n", f"--wdns={ROOT}"]
        return self._run([*enter, *map(str, command)], check, timeout)

    def podman(self, *args, **kwargs):
        return self.inside("podman", *args, **kwargs)

    def inspect(self, kind, name):
        return json.loads(self.podman(kind, "inspect", name).stdout)[0]

    def ask(self, path, body=None, port=8080):
        """(status, JSON) of a router's answer; (0, None) without one."""
        data = ["-d", json.dumps(body)] if body is not None else []
        done = self.inside("curl", "-s", "-w", "\n%{http_code}", *data, f"http://localhost:{port}{path}", check=False)
        text, _, status = done.stdout.rpartition("\n")
        return (int(status), json.loads(text)) if text else (0, None)

    def wait_for(self, path, condition=lambda body: True, port=8080):
        def look():
            status, body = self.ask(path, port=port)
            return body if status == 200 and condition(body) else None

        return wait_until(look, f"port {port} answers {path} as expected")

    def close(self):
        try:
            self.podman("rm", "-a", "-f", "-t", "0", check=False)
            self.podman("volume", "rm", "-a", "-f", check=False)
            self.podman("image", "umount", "-a", check=False)
        finally:
            self.sandbox.kill()
            self.sandbox.wait()
            self.sandbox.stdout.close()
            # Not podman's own reset: that would look for more than is ours. What it still has mounted goes first.
            subprocess.run(["umount", "-l", self.folder / "storage/overlay"], capture_output=True, check=False)
            shutil.rmtree(self.folder, ignore_errors=True)
