"""An HTTP front between a client and a router: passes requests on, or spoils their answers, at will."""

import http.client
import http.server
import threading

HOP_HEADERS = ("connection", "content-length", "transfer-encoding", "host", "keep-alive")


class Front:
    """`mode` says what happens to a request:

    pass      it is passed on, and so is its answer
    500, 503  the answer is this status; the router sees nothing
    done-500  the router carries it out; the answer is 500 nevertheless
    done-late the router carries it out; the answer comes when `mode` changes
    """

    def __init__(self, router_port):
        self.router_port = router_port
        self.mode = "pass"
        self.requests = 0  # how many have come, whatever became of them
        self.has_changed = threading.Condition()
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                front.serve(self)

            do_GET = do_DELETE = do_POST

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                pass  # a client that has gone

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def set(self, mode):
        with self.has_changed:
            self.mode = mode
            self.has_changed.notify_all()

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        with self.has_changed:
            self.requests += 1
            mode = self.mode
        if mode in ("500", "503"):
            self.reply(handler, int(mode), b'{"success":false,"error":"as the test wants","code":"unavailable"}')
            return
        status, answer, retry_after = self.ask(handler, body)
        if mode == "done-500":
            status, answer = 500, b"{}"
        if mode == "done-late":
            with self.has_changed:
                self.has_changed.wait_for(lambda: self.mode != "done-late")
        self.reply(handler, status, answer, retry_after)

    def ask(self, handler, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.router_port, timeout=60)
        try:
            headers = {name: value for name, value in handler.headers.items() if name.lower() not in HOP_HEADERS}
            connection.request(handler.command, handler.path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get("Retry-After")
        except OSError:
            return 502, b"{}", None
        finally:
            connection.close()

    def reply(self, handler, status, body, retry_after=None):
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        if retry_after:
            handler.send_header("Retry-After", retry_after)
        handler.end_headers()
        handler.wfile.write(body)

    def close(self):
        self.set("pass")
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
