"""A proxy in front of the real router that answers 500 and 503, is slow, or loses answers, as a test wants it."""

import http.client
import http.server
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
