"""A TCP proxy between a router and Redis that holds bytes back, delivers them late, cuts and half-closes.

Its connection to Redis lives on when the router has dropped its own: what was on its way arrives, as in a real network.
"""

import contextlib
import selectors
import socket
import threading
import time

TICK_S = 0.005


class Link:
    """One connection of the router, and the one to Redis behind it."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.held = []  # [when to deliver, bytes] on the way to Redis; None: until release()
        self.is_client_gone = False


class FaultProxy:
    """`delay_s` holds each piece on its way to Redis for so long; hold() for as long as the test wants."""

    def __init__(self, target):
        self.target = target  # a RedisServer
        self.delay_s = 0
        self.is_holding = False
        self.holds_from = lambda data: False
        self.late_bytes = 0  # delivered after the router had gone
        self.links = {}
        self.lock = threading.RLock()
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.is_over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self):
        while not self.is_over:
            ready = self.selector.select(TICK_S)
            with self.lock:
                for key, _ in ready:
                    if key.data is None:
                        self.accept()
                    else:
                        self.read(key.fileobj, key.data)
                for link in list(self.links.values()):
                    self.deliver(link)

    def accept(self):
        with contextlib.suppress(OSError):
            client, _ = self.listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.target.socket_path)
            link = Link(client, server)
            for sock in (client, server):
                self.selector.register(sock, selectors.EVENT_READ, link)
                self.links[sock] = link

    def read(self, sock, link):
        try:
            data = sock.recv(262144)
        except OSError:
            data = b""
        if not data:
            if sock is link.client:
                self.client_gone(link)
            else:
                self.drop(link)
        elif sock is link.server:
            if not link.is_client_gone:
                with contextlib.suppress(OSError):
                    link.client.sendall(data)
        elif self.is_holding or self.holds_from(data):
            self.is_holding = True
            link.held.append((None, data))
        else:
            link.held.append((time.monotonic() + self.delay_s, data))

    def client_gone(self, link):
        """What is held back stays on its way."""
        link.is_client_gone = True
        self.forget(link.client)
        if not link.held:
            self.drop(link)

    def deliver(self, link):
        now = time.monotonic()
        while link.held and link.held[0][0] is not None and link.held[0][0] <= now:
            _, data = link.held.pop(0)
            try:
                link.server.sendall(data)
            except OSError:
                self.drop(link)
                return
            if link.is_client_gone:
                self.late_bytes += len(data)
        # Redis reads what it was sent before the end of the connection; the answers are for nobody.
        if link.is_client_gone and not link.held:
            with contextlib.suppress(OSError):
                link.server.shutdown(socket.SHUT_WR)

    def forget(self, sock):
        if self.links.pop(sock, None):
            self.selector.unregister(sock)
            sock.close()

    def drop(self, link):
        self.forget(link.client)
        self.forget(link.server)

    # For the test.

    def hold(self):
        """From now on nothing reaches Redis."""
        with self.lock:
            self.is_holding = True

    def hold_from(self, is_first):
        """The same from the first piece on for which `is_first` is true."""
        with self.lock:
            self.holds_from = is_first

    def waiting(self, text):
        """How often this is in what is held back."""
        with self.lock:
            return sum(data.count(text) for link in set(self.links.values()) for _, data in link.held)

    def release(self):
        """Everything that was held back is delivered, whoever sent it."""
        with self.lock:
            self.is_holding = False
            self.holds_from = lambda data: False
            for link in set(self.links.values()):
                link.held = [(0, data) for _, data in link.held]
        self.settle()

    def cut(self):
        """The router loses its connections; what is on its way to Redis stays there."""
        with self.lock:
            for link in set(self.links.values()):
                if not link.is_client_gone:
                    self.client_gone(link)

    def half_close(self):
        """The router is told that no more answers will come; it can still send."""
        with self.lock:
            for link in set(self.links.values()):
                if not link.is_client_gone:
                    with contextlib.suppress(OSError):
                        link.client.shutdown(socket.SHUT_WR)

    def settle(self):
        """Waits until nothing is held back any more."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with self.lock:
                if not any(link.held for link in self.links.values()):
                    return
            time.sleep(TICK_S)
        raise AssertionError("bytes are still held back")

    def close(self):
        self.is_over = True
        self.thread.join(30)
        with self.lock:
            for link in list(self.links.values()):
                self.drop(link)
        self.listener.close()
