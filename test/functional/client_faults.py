"""Proxies that fail as a test wants it.

`FaultProxy` stands in front of the real router, and answers 500 and 503, is slow, or loses answers. `CutProxy` carries any
connection, and cuts it.
"""

import contextlib
import http.client
import http.server
import socket
import struct
import threading
import time


class FaultProxy:
    """`fault` is None (passes everything on), a status, "late" or "lost" (both after the router has done it)."""

    def __init__(self, port):
        self.router_port = port
        self.fault = None
        self.late_s = 3.0
        self.retry_after = None  # of an answer that is a fault
        self.asked = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body go together

            def do_GET(self):
                proxy.serve(self)

            do_POST = do_DELETE = do_GET

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.asked.append(f"{handler.command} {handler.path}")
        fault = self.fault
        if isinstance(fault, int):
            text = b'{"success":false,"error":"by the test","code":"unavailable"}'
            answer(handler, fault, text, {"Retry-After": self.retry_after} if self.retry_after else {})
            return
        status, text = self.pass_on(handler, body)
        if fault == "late":
            time.sleep(self.late_s)
        if fault == "lost":
            handler.close_connection = True
            return
        answer(handler, status, text)

    def pass_on(self, handler, body):
        conn = http.client.HTTPConnection("127.0.0.1", self.router_port, timeout=60)
        try:
            conn.request(handler.command, handler.path, body, {"Content-Type": "application/json"})
            response = conn.getresponse()
            return response.status, response.read()
        finally:
            conn.close()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def answer(handler, status, text, headers=None):
    try:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)
    except OSError:
        pass  # the client has not waited


class CutProxy:
    """Carries connections to a port of this machine, which may change, and cuts them."""

    def __init__(self, port):
        self.target = port
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    @property
    def url(self):
        return f"http://{self.address}"

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                try:
                    pair = (client, socket.create_connection(("127.0.0.1", self.target)))
                except OSError:
                    client.close()
                    continue
                self.pairs.append(pair)
                for one, other in (pair, pair[::-1]):
                    threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def cut(self):
        """Both ends see a reset, at once."""
        for pair in self.pairs:
            for sock in pair:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RD)
                sock.close()
        self.pairs.clear()

    def close(self):
        self.listener.close()
        self.cut()
