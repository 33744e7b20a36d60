"""Real Redis servers for the tests: each in a directory of its own, stopped by its process id.

A server listens on a Unix socket unless it is asked for a port: no two runs can get in each other's way there,
and a server that was killed comes back at the same place.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import basics
import pytest
import redis

PATIENCE_S = 30  # until a server that should take milliseconds is given up

# What makes a test of several routers quick, and still leaves a router on a busy machine the time to speak up before
# others take it for dead. Nothing depends on how quick.
QUICK = {
    "LEADER_ELECTION_DURATION": "5s",
    "LEADER_ELECTION_RENEW_DEADLINE": "3s",
    "LEADER_ELECTION_RETRY_PERIOD": "500ms",
    "CLEANUP_INTERVAL": "200ms",
    "RECONCILE_INTERVAL": "500ms",
    "TIER_REFRESH_INTERVAL": "500ms",
    "REDIS_TIMEOUT": "2s",
}

# For a server that is killed: the kernel has whatever was answered. A disk that is slow to sync makes nobody wait.
SURVIVES_KILL = {"appendonly": "yes", "appendfsync": "no"}

# A router that does nothing by itself once it is ready: what is in Redis afterwards comes from requests alone.
QUIET = {
    "LEADER_ELECTION_ENABLED": "false",
    "CLEANUP_INTERVAL": "24h",
    "RECONCILE_INTERVAL": "24h",
    "TIER_REFRESH_INTERVAL": "24h",
}


def need(program="redis-server"):
    """Skips the test where the program is missing; on a machine of the CI that is a failure."""
    if shutil.which(program):
        return
    basics.skip(f"{program} is not installed (Debian: redis-server)")


class RedisServer:
    """A redis-server, or a sentinel. Options are those of redis.conf, with underscores."""

    def __init__(self, has_port=False, sentinel_conf=None, tls=None, **options):
        need()
        self.tls = tls  # a tls.Issued: the port speaks TLS alone, and so do replication and the cluster's bus
        has_port = has_port or tls is not None
        self.directory = tempfile.mkdtemp(prefix="sr-redis-")
        self.has_port = has_port
        self.port = basics.free_port() if has_port else 0
        self.sentinel_conf = sentinel_conf
        self.options = options
        self.process = None
        self.is_stopped = False
        self.start()

    @property
    def socket_path(self):
        return self.directory + "/redis.sock"

    @property
    def url(self):
        scheme = "rediss" if self.tls else "redis"
        return f"{scheme}://127.0.0.1:{self.port}" if self.has_port else f"unix://{self.socket_path}"

    def command(self):
        args = ["redis-server"]
        if self.sentinel_conf is not None:
            path = self.directory + "/sentinel.conf"
            if not os.path.exists(path):  # a sentinel writes what it learns into it
                with open(path, "w", encoding="ascii") as file:
                    file.write(self.sentinel_conf)
            args += [path, "--sentinel"]
        args += ["--port", str(0 if self.tls else self.port), "--bind", "127.0.0.1", "--dir", self.directory]
        if self.tls:
            files = {"cert": self.tls.cert, "key": self.tls.key, "ca-cert": self.tls.authority.cert}
            args += [word for name, path in files.items() for word in (f"--tls-{name}-file", str(path))]
            args += ["--tls-port", str(self.port), "--tls-replication", "yes"]
            args += ["--tls-auth-clients", self.options.get("tls_auth_clients", "no")]
            args += ["--tls-cluster", "yes"] if "cluster_enabled" in self.options else []
        if not self.has_port:
            args += ["--unixsocket", self.socket_path]
        if self.sentinel_conf is None:
            args += ["--save", ""]
        for name, value in self.options.items():
            if name == "tls_auth_clients":
                continue  # above
            args += ["--" + name.replace("_", "-"), *str(value).split()]
        return args

    def start(self):
        """Also after kill(): with appendonly the data is back as well."""
        end = time.monotonic() + PATIENCE_S
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket_path)
        self._spawn()
        while not self._answers():
            if self.process.poll() is not None:
                if self.has_port and "Address already in use" in self.log():
                    self.port = basics.free_port()
                    os.unlink(self.directory + "/log")
                    self._spawn()
                    continue
                pytest.fail(f"redis-server ended with {self.process.returncode}:\n{self.log()[-2000:]}")
            if time.monotonic() > end:
                pytest.fail(f"redis-server does not answer:\n{self.log()[-2000:]}")
            time.sleep(0.01)

    def _spawn(self):
        with open(self.directory + "/log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _answers(self):
        try:
            with self.client() as client:
                return client.ping()
        except (redis.ResponseError, redis.AuthenticationError):
            return True
        except redis.RedisError:
            return False

    def log(self):
        with open(self.directory + "/log", encoding="utf-8", errors="replace") as log:
            return log.read()

    def client(self, **kwargs):
        """redis-py, with texts instead of bytes."""
        kwargs = {"decode_responses": True, "socket_timeout": PATIENCE_S, **kwargs}
        if self.tls:
            kwargs = {"ssl_cert_reqs": "none", **kwargs}  # whom to trust is what the router is tested for
            kwargs = {"ssl_certfile": str(self.tls.cert), "ssl_keyfile": str(self.tls.key), "ssl": True, **kwargs}
        if self.has_port:
            return redis.Redis(port=self.port, **kwargs)
        return redis.Redis(unix_socket_path=self.socket_path, **kwargs)

    def cli(self, *args, stdin=None):
        """redis-cli, as an operator types it; returns its lines."""
        need("redis-cli")
        where = ["-p", str(self.port)] if self.has_port else ["-s", self.socket_path]
        done = subprocess.run(
            ["redis-cli", *where, *args], input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        assert "ERR" not in done.stdout and "WRONGTYPE" not in done.stdout, done.stdout
        return [line for line in done.stdout.splitlines() if line]

    @contextlib.contextmanager
    def paused(self):
        """SIGSTOP now, SIGCONT at the end."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """kill -9, as a crash; start() brings it back."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self):
        if self.is_stopped:
            return
        self.is_stopped = True
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Monitor:
    """What Redis executes, in order, as MONITOR shows it: commands of clients and, apart, those inside scripts."""

    def __init__(self, server):
        self.server = server
        if server.has_port:
            self.sock = socket.create_connection(("127.0.0.1", server.port))
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(server.socket_path)
        self.sock.settimeout(PATIENCE_S)
        self.file = self.sock.makefile("rb")
        self.sock.sendall(b"MONITOR\r\n")
        assert self.file.readline() == b"+OK\r\n"

    def finish(self, ignored=()):
        """Returns (commands of clients, commands inside scripts, both of the scripts `ignored`, which are named by their hashes).

        They are lists of names in capitals.
        """
        self.server.client().echo("the-end-of-monitoring")
        clients, inner, others, is_ignored = [], [], [], False
        for line in self.file:
            if b"the-end-of-monitoring" in line:
                break
            # +1339518083.107412 [0 127.0.0.1:60866] "evalsha" "..."; a script's own have [0 lua]
            where, _, rest = line.partition(b"] ")
            name = rest.split(b'"')[1].decode().upper()
            is_inner = where.endswith(b" lua")
            if not is_inner:
                is_ignored = any(sha in rest for sha in ignored)
            (others if is_ignored else inner if is_inner else clients).append(name)
        self.sock.close()
        self.file.close()
        # The client that says the end introduces itself before it does.
        while clients and clients[-1] in ("CLIENT", "HELLO", "SELECT"):
            clients.pop()
        return clients, inner, others


def keyspace(client, match="*"):
    """Everything that is stored: key -> value, whatever its type."""
    readers = {
        "string": client.get,
        "hash": client.hgetall,
        "set": client.smembers,
        "zset": lambda key: dict(client.zrange(key, 0, -1, withscores=True)),
        "list": lambda key: client.lrange(key, 0, -1),
    }
    found = {}
    for key in client.scan_iter(match, count=1000):
        kind = client.type(key)
        if kind != "none":  # it is gone since
            found[key] = readers[kind](key)
    return found
