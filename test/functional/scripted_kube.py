"""An API server that does what a script says, for what a real one will not do on demand.

    authority = Authority(tmp_path)
    with ScriptedKube(tls=authority.issue("server")) as server:
        server.on("/api/v1/pods", answer(429, retry_after="7"), stream([b'{"type"', b':...}'], end="cut"))

Each request of a path takes its next step; the last step stays. A step is a function of one Exchange. HTTP/1.1 only,
one thread per connection. `server.requests` remembers what was asked.
"""

import json
import pathlib
import socket
import ssl
import struct
import subprocess
import threading

PATIENCE = 30  # seconds until a step that waits gives up


class Authority:
    """A certificate authority with files in a directory."""

    def __init__(self, directory, name="authority"):
        self.directory = pathlib.Path(directory) / name
        self.directory.mkdir()
        self.ca = self.directory / "ca.crt"
        self.key = self.directory / "ca.key"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", self.key, "-out", self.ca),
        )

    @staticmethod
    def _openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=PATIENCE)

    def issue(self, name, san="IP:127.0.0.1,DNS:localhost", group=None):
        """The paths of a certificate, its key, and of our own certificate."""
        key, request, certificate = (self.directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={san}\nextendedKeyUsage=serverAuth,clientAuth\n")
        subject = f"/O={group}/CN={name}" if group else f"/CN={name}"
        self._openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", subject, "-keyout", key, "-out", request),
        )
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial", "-days", "2"),
            *("-extfile", extensions, "-out", certificate),
        )
        return Identity(certificate, key, self.ca)


class Identity:
    def __init__(self, certificate, key, ca):
        self.certificate = certificate
        self.key = key
        self.ca = ca


class Closed(Exception):
    """The connection is at its end."""


class Request:
    def __init__(self, method, target, headers, body, connection, peer):
        self.method = method
        self.target = target
        self.path, _, self.query = target.partition("?")
        self.headers = headers  # names in lower case
        self.body = body
        self.connection = connection  # its number
        self.peer = peer  # the CN of the client's certificate, or None

    @property
    def token(self):
        return self.headers.get("authorization", "").removeprefix("Bearer ") or None


class Exchange:
    """One request and the means to answer it, well or badly."""

    def __init__(self, server, sock, request):
        self.server = server
        self.sock = sock
        self.request = request

    def write(self, data):
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Closed from error

    def answer(self, status, body=b"", headers=()):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Scripted", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in dict(headers).items()]
        self.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def start(self, status=200):
        self.write(f"HTTP/1.1 {status} Scripted\r\nTransfer-Encoding: chunked\r\n\r\n".encode())

    def chunk(self, data):
        self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def finish(self):
        self.write(b"0\r\n\r\n")

    def cut(self):
        """Closes the connection with a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Closed

    def hang(self):
        """Says nothing more until the client hangs up or the server is stopped."""
        self.sock.settimeout(0.05)
        while not self.server.stopped.is_set():
            try:
                if not self.sock.recv(4096):
                    break
            except (TimeoutError, ssl.SSLWantReadError):
                continue
            except OSError:
                break
        self.server.hung_up.set()
        raise Closed

    def wait(self, event):
        """For the test; for ever if it never says so, but not longer than the server is there."""
        while not event.wait(0.02):
            if self.server.stopped.is_set():
                raise Closed


# ---- steps ----


def answer(status, body=b"", retry_after=None, **headers):
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    if retry_after is not None:
        extra["Retry-After"] = retry_after
    return lambda exchange: exchange.answer(status, body, extra)


def status_object(code, reason, message=""):
    """A refusal as a real API server words it."""
    return answer(code, {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code})


def stream(pieces, end="finish", status=200):
    """A chunked answer of these pieces; a threading.Event among them is waited for. end: finish, cut or hang."""

    def step(exchange):
        exchange.start(status)
        for piece in pieces:
            if isinstance(piece, threading.Event):
                exchange.wait(piece)
            else:
                exchange.chunk(piece)
        getattr(exchange, end)()

    return step


def half(status, body, missing=10):
    """Promises more than it sends, then hangs up."""

    def step(exchange):
        exchange.write(f"HTTP/1.1 {status} Scripted\r\nContent-Length: {len(body) + missing}\r\n\r\n".encode() + body)
        raise Closed

    return step


def slow(step, event):
    """Waits for the test before it answers."""

    def wait(exchange):
        exchange.wait(event)
        step(exchange)

    return wait


def silence(exchange):
    exchange.hang()


def cut(exchange):
    exchange.cut()


def garbage(exchange):
    exchange.write(b"this is no HTTP\r\n\r\n")
    raise Closed


# ---- the server ----


class ScriptedKube:
    def __init__(self, tls=None, client_ca=None, port=0):
        """`tls`: an Identity. With `client_ca`, a client that shows a certificate must have it from there."""
        self.requests = []
        self.stopped = threading.Event()
        self.hung_up = threading.Event()
        self._lock = threading.Lock()
        self._steps = {}
        self._connections = 0
        self._open = set()
        self._threads = []
        self._context = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(tls.certificate, tls.key)
            self._context.set_alpn_protocols(["http/1.1"])
        if client_ca:
            self._context.load_verify_locations(client_ca)
            self._context.verify_mode = ssl.CERT_OPTIONAL
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self):
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        # shutdown() wakes accept(); close() alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._open)
        for sock in connections:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in [self._accepting, *self._threads]:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def on(self, path, *steps, method=None):
        """What the path answers, from now on; of one method only if it is given."""
        with self._lock:
            self._steps[method, path] = list(steps)

    def asked(self, path):
        with self._lock:
            return [request for request in self.requests if request.path == path]

    @property
    def connections(self):
        return self._connections

    def _next_step(self, request):
        with self._lock:
            self.requests.append(request)
            steps = self._steps.get((request.method, request.path)) or self._steps.get((None, request.path))
            if not steps:
                return status_object(404, "NotFound")
            return steps.pop(0) if len(steps) > 1 else steps[0]

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections += 1
                number = self._connections
                self._open.add(sock)
            thread = threading.Thread(target=self._serve, args=(sock, number), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock, number):
        plain = sock
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context:
                sock = self._context.wrap_socket(sock, server_side=True)
                with self._lock:
                    self._open.discard(plain)
                    self._open.add(sock)
            self._serve_requests(sock, number)
        except (Closed, OSError):
            pass
        finally:
            with self._lock:
                self._open.discard(plain)
                self._open.discard(sock)
            sock.close()

    def _serve_requests(self, sock, number):
        peer = None
        if self._context and sock.getpeercert():
            peer = dict(pair[0] for pair in sock.getpeercert()["subject"]).get("commonName")
        with sock.makefile("rb") as reader:
            while not self.stopped.is_set():
                request = self._read(reader, number, peer)
                self._next_step(request)(Exchange(self, sock, request))

    @staticmethod
    def _read(reader, number, peer):
        line = reader.readline()
        if not line:
            raise Closed
        method, target, _ = line.decode().split()
        headers = {}
        while (line := reader.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", 0)))
        return Request(method, target, headers, body, number, peer)
