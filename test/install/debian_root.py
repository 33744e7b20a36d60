"""A clean Debian for packages: a root directory, commands in it, and a systemd that boots from it.

mmdebstrap makes the root with the package's dependencies. The archive of it is kept in ~/.cache/smart-router, because that
takes a minute. Nothing of this machine is changed: mounts are made in a namespace of their own and go with it.
"""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess

import basics

CACHE = pathlib.Path.home() / ".cache" / "smart-router"
MIRROR = os.environ.get("DEBIAN_MIRROR", "").split()  # none: mmdebstrap knows Debian's, with its updates
PATIENCE_S = 120
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def release():
    return re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)[1]


def dependencies(package):
    """The first alternative of each dependency."""
    depends = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [re.match(r"[a-z0-9.+-]+", depend.strip())[0] for depend in depends.split(",")]


def archive(packages):
    """The archive of a root with these packages; made if there is none yet."""
    packages = sorted({*packages, "systemd", "systemd-sysv"})
    key = hashlib.sha256(" ".join([release(), *packages]).encode()).hexdigest()[:12]
    path = CACHE / f"debian-{release()}-{key}.tar"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.tar")
        made = subprocess.run(
            ["mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", release(), partial, *MIRROR],
            env={**os.environ, **ENVIRONMENT}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False,
        )
        if made.returncode != 0:
            partial.unlink(missing_ok=True)
            basics.skip(f"mmdebstrap cannot make a Debian root:\n{made.stdout[-2000:]}")
        partial.rename(path)
    return path


class Root:
    """A directory with a Debian in it."""

    def __init__(self, directory, packages):
        self.path = directory
        self.path.mkdir()
        subprocess.run(["tar", "-x", "--numeric-owner", "--exclude=./dev/*", "-f", archive(packages), "-C", self.path], check=True)

    def command(self, *words):
        """What runs these words in the root, as the same process."""
        mounts = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts, str(self.path), *map(str, words)]

    def run(self, *words, check=True):
        done = subprocess.run(
            self.command(*words), env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def take(self, package):
        """Copies a package into the root; returns its path there."""
        shutil.copy(package, self.path / "root")
        return f"/root/{package.name}"

    def write(self, path, text):
        target = self.path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def remove(self):
        shutil.rmtree(self.path)


class Machine(Root):
    """A root whose systemd runs, in a container that shares the network."""

    def __init__(self, directory, packages):
        super().__init__(directory, packages)
        self.log_path = directory.with_suffix(".log")
        self.init = None
        with open(self.log_path, "wb") as log:
            self.nspawn = subprocess.Popen(
                ["systemd-nspawn", "--boot", "--register=no", "--keep-unit", "--quiet", f"--machine=router-{os.getpid()}",
                 "-D", self.path],
                env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )

    def boots(self):
        """Whether systemd came up. Where containers cannot be made, it does not."""
        with contextlib.suppress(basics.pytest.fail.Exception):
            return basics.wait_until(self._has_booted, "systemd has booted", PATIENCE_S, pause=0.2) == "yes"
        return False

    def _has_booted(self):
        if self.nspawn.poll() is not None:
            return "no"
        self.init = next((pid for pid, name in basics.children_of(self.nspawn.pid).items() if name == "systemd"), None)
        if not self.init:
            return None
        state = self.run("systemctl", "is-system-running", check=False).strip()
        return "yes" if state in ("running", "degraded") else None

    def command(self, *words):
        return ["nsenter", "-t", str(self.init), "-m", "-u", "-i", "-p", "-r", "-w", *map(str, words)]

    def show(self, unit, name):
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()

    def stop(self):
        if self.nspawn.poll() is None:
            self.nspawn.send_signal(signal.SIGTERM)
            try:
                self.nspawn.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()
