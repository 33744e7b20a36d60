"""Plays systemd for one service: takes its notifications, and gives it listening sockets that outlive it.

`command` is a program that a test starts in place of the router: it fetches the sockets from here, puts them where
sd_listen_fds(3) says, and becomes the router.
"""

import contextlib
import os
import socket
import stat
import threading

import basics

PATIENCE_S = 60

LAUNCHER = """#!/usr/bin/python3
import fcntl, os, socket
with socket.socket(socket.AF_UNIX) as hub:
    hub.connect({hub!r})
    names, fds, _, _ = socket.recv_fds(hub, 4096, 8)
fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in fds]
for i, fd in enumerate(fds):
    os.dup2(fd, 3 + i)
    os.close(fd)
if fds:
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names.decode())
os.execv({command[0]!r}, {command!r})
"""


class ServiceManager:
    def __init__(self, directory, command, is_abstract=False):
        """`command`: the service's own. `directory` must exist."""
        self.directory = directory
        self.messages = []  # each a dict of one notification
        self.sockets = []  # (name, socket)
        name = f"{directory}/notify"
        self.notify_name = f"@{name}" if is_abstract else name
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind("\0" + name if is_abstract else name)
        self._notify.setblocking(False)
        if not is_abstract:
            os.chmod(name, 0o666)  # the service may be another user
        self._hub = socket.socket(socket.AF_UNIX)
        self._hub.bind(f"{directory}/hub")
        self._hub.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        self.command = directory / "launcher"
        self.command.write_text(LAUNCHER.format(hub=f"{directory}/hub", command=[str(part) for part in command]))
        self.command.chmod(self.command.stat().st_mode | stat.S_IXUSR)

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                with self._hub.accept()[0] as client:
                    names = ":".join(name for name, _ in self.sockets)
                    socket.send_fds(client, [names.encode() or b":"], [sock.fileno() for _, sock in self.sockets])

    def listen(self, name, address="127.0.0.1"):
        """A listening socket of this name for the service; returns its port."""
        sock = socket.create_server((address, 0))
        self.give(name, sock)
        return sock.getsockname()[1]

    def give(self, name, sock):
        self.sockets.append((name, sock))

    def env(self, watchdog_s=None):
        env = {"NOTIFY_SOCKET": self.notify_name}
        if watchdog_s:
            env["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
        return env

    def read(self):
        """Takes what has come; returns all messages since the start or the last forget()."""
        with contextlib.suppress(BlockingIOError):
            while True:
                lines = self._notify.recv(4096).decode().splitlines()
                self.messages.append(dict(line.split("=", 1) for line in lines))
        return self.messages

    def forget(self):
        self.read()
        self.messages.clear()

    def values(self, name):
        return [message[name] for message in self.read() if name in message]

    def wait_for(self, name, count=1):
        """Returns the values of this variable once it has come so often."""
        return basics.wait_until(lambda: len(self.values(name)) >= count and self.values(name), f"{name} comes", PATIENCE_S)

    def close(self):
        self._hub.close()
        self._notify.close()
        for _, sock in self.sockets:
            sock.close()
