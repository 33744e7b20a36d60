"""Certificates for tests, and a client's end of a TLS connection with every step in the hands of the test."""

import contextlib
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading

PATIENCE_S = 60
CA_CONFIG = """
[ca]
default_ca = one
[one]
database = {directory}/index.txt
new_certs_dir = {directory}
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
[server]
subjectAltName = {names}
[authority]
basicConstraints = critical,CA:true
"""
NAMES = "DNS:localhost,DNS:voice.example.com,IP:127.0.0.1"


def openssl(*args, **kwargs):
    return subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=PATIENCE_S, **kwargs)


class Certificate:
    """A certificate that vouches for itself, and its key, in files of a directory of its own."""

    def __init__(self, directory, name="localhost", kind="ec", start=None, end=None):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.cert = self.directory / "cert.pem"
        self.key = self.directory / "key.pem"
        config = self.directory / "openssl.cnf"
        config.write_text(CA_CONFIG.format(directory=self.directory, names=NAMES))
        (self.directory / "index.txt").write_text("")
        kinds = {"ec": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "rsa": ["-newkey", "rsa:2048"]}
        request = self.directory / "request.pem"
        openssl("req", "-config", config, "-new", "-nodes", *kinds[kind], "-keyout", self.key, "-out", request, "-subj", f"/CN={name}")
        dates = ["-startdate", start or "20200101000000Z", "-enddate", end or "20990101000000Z"]
        openssl(
            *("ca", "-config", config, "-batch", "-selfsign", "-keyfile", self.key, "-in", request),
            *("-out", self.cert, "-notext", "-extensions", "server", *dates),
        )
        self.key.chmod(0o600)

    @property
    def env(self):
        return {"TLS_CERT_FILE": self.cert, "TLS_KEY_FILE": self.key, "TLS_PORT": "0"}

    def replace_with(self, other):
        """As operators do it: the files keep their names."""
        shutil.copy(other.key, self.key)
        shutil.copy(other.cert, self.cert)

    def context(self):
        """A client that trusts this certificate and no other."""
        context = ssl.create_default_context(cafile=str(self.cert))
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        # Whether the other side has said that this is the end makes a difference here.
        context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
        return context


class Issued:
    """A certificate that an authority has signed, and its key."""

    def __init__(self, authority, cert, key):
        self.authority, self.cert, self.key = authority, cert, key


class Authority:
    """Signs the certificates of others. `cert` is its own, which they are checked with."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "index.txt").write_text("")
        self.cert, self.key = self.directory / "ca.pem", self.directory / "ca-key.pem"
        self._sign("ca", "NONE:x", "authority", ["-selfsign"])

    def _sign(self, name, names, section, extra=(), start=None, end=None):
        config, request = self.directory / f"{name}.cnf", self.directory / f"{name}-request.pem"
        cert, key = self.directory / f"{name}.pem", self.directory / f"{name}-key.pem"
        config.write_text(CA_CONFIG.format(directory=self.directory, names=names))
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        openssl("req", "-config", config, "-new", "-nodes", *curve, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        dates = ["-startdate", start or "20200101000000Z", "-enddate", end or "20990101000000Z"]
        signer = ["-keyfile", self.key] + (["-cert", self.cert] if not extra else [])
        openssl(
            *("ca", "-config", config, "-batch", *extra, *signer, "-in", request, "-out", cert, "-notext"),
            *("-extensions", section, *dates),
        )
        key.chmod(0o600)
        return Issued(self, cert, key)

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", **dates):
        return self._sign(name, names, "server", **dates)


class TlsSocket:
    """What a socket can do, over TLS. Unlike ssl's own it can finish sending and go on reading, and leave steps out.

    One thread may send while another receives. With `handshake=False` nothing has been sent: `step` brings the handshake as far as it goes without the other side.
    """

    def __init__(self, sock, context, name="localhost", handshake=True):
        self.sock = sock
        self.state = threading.Lock()  # of the session
        self.wire = threading.Lock()  # records go out in the order in which they were made
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        while handshake and not self.step():
            self.flush()
            self.fill()
        if handshake:
            self.flush()

    def step(self):
        """One turn of the handshake; what is to be sent is in `outgoing`. True: it is done."""
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def flush(self):
        with self.state:
            data = self.outgoing.read()
        if data:
            self.sock.sendall(data)

    def fill(self):
        data = self.sock.recv(262144)
        with self.state:
            if data:
                self.incoming.write(data)
            else:
                self.incoming.write_eof()

    def sendall(self, data):
        view = memoryview(data)
        while view:
            with self.wire:
                with self.state:
                    view = view[self.tls.write(view[:16384]) :]
                self.flush()

    def recv(self, size):
        while True:
            try:
                with self.state:
                    return self.tls.read(size)
            except ssl.SSLWantReadError:
                self.fill()
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLEOFError:
                raise ConnectionResetError("it ended without a word of TLS") from None

    def shutdown(self, how):
        """Says that nothing more comes. Reading goes on."""
        assert how == socket.SHUT_WR
        with self.wire:
            with self.state, contextlib.suppress(ssl.SSLWantReadError):
                self.tls.unwrap()
            self.flush()

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


def connect(port, context, **kwargs):
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    return TlsSocket(sock, context, **kwargs)
