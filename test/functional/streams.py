"""Both ends of a media stream, with every byte in the hands of the test, and nginx with the configuration that is shipped.

`Agent` is a voice agent: it echoes, or gives its end of each stream to the test. `Stream` is the provider's end. Both speak
WebSocket by hand (RFC 6455), because a library would hide what is looked for here: what exactly arrives.

As a program, `streams.py ADDRESS PORT` is an agent that can be killed.
"""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import basics
from tls import Certificate, TlsSocket

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "deploy" / "nginx" / "smart-router.conf"
HOST = "voice.example.com"  # the shipped configuration's
PATIENCE_S = 60

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def accept_of(key):
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def frame(opcode, payload=b"", fin=True, mask=None):
    head = bytes([(0x80 if fin else 0) | opcode])
    masked = 0x80 if mask is not None else 0
    if len(payload) < 126:
        head += bytes([masked | len(payload)])
    elif len(payload) < 65536:
        head += struct.pack("!BH", masked | 126, len(payload))
    else:
        head += struct.pack("!BQ", masked | 127, len(payload))
    if mask is None:
        return head + payload
    return head + mask + unmask(payload, mask)


def unmask(payload, mask):
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


class Head:
    """A request's or a response's first line and headers. Names are compared in lower case."""

    def __init__(self, data):
        self.data = data
        lines = data.decode("latin-1").split("\r\n")
        self.first = lines[0]
        self.pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:] if line)]

    def get(self, name):
        values = [value for key, value in self.pairs if key == name.lower()]
        return ", ".join(values) if values else None

    @property
    def path(self):
        return self.first.split(" ")[1]

    @property
    def status(self):
        return int(self.first.split(" ")[1])


class Closed(Exception):
    """The other side ended the stream."""


class Peer:
    """One end of a connection: bytes and frames."""

    def __init__(self, sock, masks):
        self.sock = sock
        self.sock.settimeout(PATIENCE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.masks = masks
        self.pending = b""
        self.head = None

    def send_bytes(self, data):
        self.sock.sendall(data)

    def send(self, opcode, payload=b"", fin=True):
        self.send_bytes(frame(opcode, payload, fin, os.urandom(4) if self.masks else None))

    def more(self):
        try:
            data = self.sock.recv(262144)
        except ConnectionResetError:
            raise Closed("reset") from None
        if not data:
            raise Closed("end")
        return data

    def exactly(self, size):
        parts, have = [self.pending], len(self.pending)
        while have < size:
            parts.append(self.more())
            have += len(parts[-1])
        data = b"".join(parts)
        self.pending = data[size:]
        return data[:size]

    def read_head(self):
        while b"\r\n\r\n" not in self.pending:
            self.pending += self.more()
        data, _, self.pending = self.pending.partition(b"\r\n\r\n")
        self.head = Head(data)
        return self.head

    def receive(self):
        """The next frame: fin, opcode, payload."""
        first, second = self.exactly(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self.exactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.exactly(8))
        mask = self.exactly(4) if second & 0x80 else None
        payload = self.exactly(size)
        return bool(first & 0x80), first & 15, unmask(payload, mask) if mask else payload

    def rest(self):
        """All that comes until the other side ends, however it ends."""
        parts, self.pending = [self.pending], b""
        with contextlib.suppress(Closed):
            while True:
                parts.append(self.more())
        return b"".join(parts)

    def is_closed_by_other(self):
        """Waits for the end of the stream and drops what comes before it."""
        self.rest()
        return True

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()

    def reset(self):
        """A connection that ends with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Stream(Peer):
    """The provider's end. `head` is the answer to the handshake; `key` what was sent in it."""

    def __init__(self, port, path, headers=(), host=HOST, early=b"", receive_buffer=None, upgrade=True, address="127.0.0.1", tls=None):
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(PATIENCE_S)
        sock.connect((address, port))
        super().__init__(TlsSocket(sock, tls) if tls else sock, masks=True)
        self.key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}"]
        if upgrade:
            lines += ["Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {self.key}", "Sec-WebSocket-Version: 13"]
        lines += [f"{name}: {value}" for name, value in headers]
        self.send_bytes("\r\n".join(lines + ["", ""]).encode() + early)
        self.read_head()

    @property
    def status(self):
        return self.head.status

    def body(self):
        return self.exactly(int(self.head.get("content-length") or 0))

    def echoes(self, payload=b"are you there?"):
        """One frame there and back."""
        self.send(BINARY, payload)
        return self.receive() == (True, BINARY, payload)


class Agent:
    """A voice agent at address:port. By default it echoes each frame; with is_manual each end goes to the test: accept()."""

    def __init__(self, address="127.0.0.1", port=0, is_manual=False):
        self.address = address
        self.is_manual = is_manual
        self.refusal = None  # the whole answer to each handshake, instead of 101
        self.subprotocol = None
        self.greeting = b""  # sent in one piece with the 101
        self.heads = []
        self.peers = queue.Queue()
        self.open_peers = []
        self.port = port
        self.listener = None
        self.start()

    def start(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((self.address, self.port))
        self.listener.listen(512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, args=(self.listener,), daemon=True).start()

    def serve(self, listener):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                threading.Thread(target=self.talk, args=(sock,), daemon=True).start()

    def talk(self, sock):
        peer = Peer(sock, masks=False)
        try:
            head = peer.read_head()
            self.heads.append(head)
            if self.refusal:
                peer.send_bytes(self.refusal)
                peer.close()
                return
            lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
            lines.append(f"Sec-WebSocket-Accept: {accept_of(head.get('sec-websocket-key') or '')}")
            if self.subprotocol:
                lines.append(f"Sec-WebSocket-Protocol: {self.subprotocol}")
            lines.append("X-Agent: sim")
            peer.send_bytes("\r\n".join(lines + ["", ""]).encode() + self.greeting)
            self.open_peers.append(peer)
            if self.is_manual:
                self.peers.put(peer)
            else:
                self.echo(peer)
        except (Closed, OSError):
            peer.close()

    def echo(self, peer):
        while True:
            fin, opcode, payload = peer.receive()
            if opcode == PING:
                opcode = PONG
            peer.send(opcode, payload, fin)
            if opcode == CLOSE:
                peer.close()
                return

    def accept(self):
        return self.peers.get(timeout=PATIENCE_S)

    def stop(self):
        """Nobody listens any more; open streams stay."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def close(self):
        self.stop()
        for peer in self.open_peers:
            peer.close()


class KillableAgent:
    """An agent that is a process of its own."""

    def __init__(self, address, port):
        self.address, self.port = address, port
        self.process = None
        self.start()

    def start(self):
        command = [sys.executable, __file__, self.address, str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.process.stdout.readline() != b"listening\n":
            self.kill()
            raise OSError(f"no agent can listen at {self.address}:{self.port}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        if self.process.poll() is None:
            self.kill()


class Names:
    """Cluster DNS: answers A questions for the names it knows, all others do not exist."""

    def __init__(self):
        self.addresses = {}
        self.questions = []
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                question, who = self.sock.recvfrom(512)
                if question:
                    self.sock.sendto(self.answer(question), who)

    def answer(self, question):
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]].decode())
            at += 1 + question[at]
        asked = question[12 : at + 5]
        name = ".".join(labels)
        self.questions.append(name)
        address = self.addresses.get(name)
        head = question[:2] + struct.pack("!HHHHH", 0x8580 if address else 0x8583, 1, 1 if address else 0, 0, 0)
        if not address:
            return head + asked
        return head + asked + struct.pack("!HHHIH", 0xC00C, 1, 1, 3600, 4) + socket.inet_aton(address)

    def close(self):
        self.sock.close()


MAIN_CONF = """
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
{user}
events {{ worker_connections 4096; }}
http {{
    access_log {directory}/access.log;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/smart-router.conf;
}}
"""


def configured(settings):
    """The shipped configuration with these texts of its settings replaced, as an operator would do it; nothing else changes."""
    text = SHIPPED.read_text()
    top, mark, rest = text.partition("# ----- End of the settings")
    assert mark, "the shipped configuration has lost its settings"
    for old, new in settings.items():
        assert top.count(old) == 1, f"{old!r} is {top.count(old)} times in the settings"
        top = top.replace(old, new)
    return top + mark + rest


# What an operator changes where a load balancer, which is at 127.0.0.1 here, stands before nginx.
BEHIND_A_BALANCER = {
    "# set_real_ip_from 192.0.2.10;": "set_real_ip_from 127.0.0.1;",
    "# real_ip_header X-Forwarded-For;": "real_ip_header X-Forwarded-For;",
}


class Nginx:
    """nginx with the shipped configuration. With names it sends streams to the pods, without to the router, or to `target`.

    `is_any_path`: pods may be asked for everything, because WS_URL_TEMPLATE is whatever a test likes; else for what is shipped.
    """

    def __init__(
        self,
        directory,
        router_port,
        names=None,
        agent_port=None,
        more=(),
        target="smart_router",
        command=("/usr/sbin/nginx",),
        operators=("127.0.0.1",),
        is_any_path=True,
    ):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.port = basics.free_port("0.0.0.0")
        self.access_log = self.directory / "access.log"
        self.error_log = self.directory / "error.log"
        direct = "# default $stream_pod.voice-agent.default.svc.cluster.local:8000;"
        settings = {
            "smart-router.default.svc.cluster.local:80;": f"127.0.0.1:{router_port};",
            "kube-dns.kube-system.svc.cluster.local": f"127.0.0.1:{names.port if names else 53}",
            "    listen 80 ": f"    listen 127.0.0.1:{self.port} ",
            "    # 198.51.100.0/28 1;": "".join(f"    {operator} 1;\n" for operator in operators),
            "/var/log/nginx/access.log": str(self.access_log),
            "/var/log/nginx/error.log": str(self.error_log),
            **dict(more),
        }
        if names:
            settings["    default smart_router;\n"] = ""
            settings[direct] = direct.removeprefix("# ").replace(":8000", f":{agent_port}")
        else:
            settings["    default smart_router;\n"] = f"    default {target};\n"
        if is_any_path:
            settings["$is_stream_path {\n    default 0;"] = "$is_stream_path {\n    default 1;"
        (self.directory / "smart-router.conf").write_text(configured(settings))
        user = "user root;" if os.getuid() == 0 else ""
        (self.directory / "nginx.conf").write_text(MAIN_CONF.format(directory=self.directory, user=user))
        self.process = subprocess.Popen(
            [*command, "-p", self.directory, "-e", self.error_log, "-c", self.directory / "nginx.conf"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.wait()

    @staticmethod
    def is_installed():
        return shutil.which("nginx", path="/usr/sbin:" + os.environ.get("PATH", "")) is not None

    def wait(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.01)
        raise RuntimeError(f"nginx does not start: {self.error_log.read_text()}")

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_S)


class World:
    """Voice agents at one port of different addresses, a router that knows them, and the way in: `port`.

    front: "router", the way in is the router itself; "tls", likewise, with TLS; "nginx", the shipped nginx, which lets the router carry the streams;
    "nginx-dns", the shipped nginx, which finds the pods by their names. `nginx` are settings of it: see Nginx.
    """

    def __init__(self, start_router, directory, front):
        self.start_router = start_router
        self.directory = directory
        self.front = front
        self.agents = {}
        self.env = {}
        self.router = self.nginx = self.names = self.tls = None

    def start(self, agents=2, env=None, is_manual=False, is_killable=False, tiers=None, nginx=()):
        pods = {f"voice-agent-{number}": f"127.0.0.{2 + number}" for number in range(agents)}
        self.start_agents(pods, (lambda *at: Agent(*at, is_manual)) if not is_killable else KillableAgent)
        tiers = tiers or {"standard": {"type": "exclusive", "target": agents}}
        self.env = {
            "STATIC_PODS": ",".join(f"{pod}={address}:{self.agent_port}" for pod, address in pods.items()),
            "TIER_CONFIG": json.dumps(tiers),
            "CLEANUP_INTERVAL": "100ms",
            **(env or {}),
        }
        if self.front == "tls":
            certificate = Certificate(self.directory / "certificate")
            self.env.update(certificate.env)
            self.tls = certificate.context()
        self.start_the_router()
        if self.front == "nginx-dns":
            self.names = Names()
            for pod, address in pods.items():
                self.names.addresses[f"{pod}.voice-agent.default.svc.cluster.local"] = address
        if self.front.startswith("nginx"):
            self.nginx = Nginx(self.directory / "nginx", self.router.port, self.names, self.agent_port, **dict(nginx))
            self.env["HTTP_PORT"] = str(self.router.port)  # where nginx finds it, also after a restart

    def start_agents(self, pods, make):
        """All at one port, as in a cluster. Somebody may take it at one of the addresses meanwhile."""
        for _ in range(10):
            self.agent_port = basics.free_port("0.0.0.0")
            with contextlib.suppress(OSError):
                for pod, address in pods.items():
                    self.agents[pod] = make(address, self.agent_port)
                return
            for agent in self.agents.values():
                agent.close()
            self.agents.clear()
        raise RuntimeError("there is no port that is free at so many addresses")

    def start_the_router(self):
        """Also after it was killed, with the same state."""
        self.directory.mkdir(exist_ok=True)
        self.router = self.start_router(self.env, data_dir=self.directory / "data")

    @property
    def port(self):
        if self.tls:
            return self.router.tls_port
        return self.nginx.port if self.nginx else self.router.port

    def place(self, call_sid, **fields):
        """Allocates; returns the pod and the path of the stream."""
        answer = self.router.allocate(call_sid, **fields)
        url = answer["ws_url"]
        return answer["pod_name"], url[url.index("/", url.index("://") + 3) :]

    def connect(self, path, **kwargs):
        """Whatever the answer to the handshake is."""
        return Stream(self.port, path, tls=self.tls, **kwargs)

    def open(self, path, **kwargs):
        """A stream that must be accepted."""
        stream = self.connect(path, **kwargs)
        assert stream.status == 101, (stream.head.data, stream.body())
        return stream

    def refusal(self, path, **kwargs):
        """The status of a handshake that must fail."""
        with self.connect(path, **kwargs) as stream:
            assert stream.status != 101
            return stream.status

    def call(self, call_sid):
        """The call as the API shows it; None when there is none."""
        answer = self.router.get(f"/api/v1/call/{call_sid}")
        assert answer.status_code in (200, 404), answer.text
        return answer.json() if answer.status_code == 200 else None

    def pod(self, pod):
        answer = self.router.get(f"/api/v1/pod/{pod}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self):
        for one in (self.nginx, self.names, *self.agents.values()):
            if one:
                one.close()


def main():
    agent = Agent(sys.argv[1], int(sys.argv[2]))
    print("listening", flush=True)
    while agent:
        time.sleep(3600)


if __name__ == "__main__":
    main()
