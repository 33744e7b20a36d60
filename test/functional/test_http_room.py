"""Who makes room when the HTTP server has no connection left, and who never does.

The server by itself, as in test_http_server.py; the router with its webhooks is in test_idle_clients.py.
"""

import signal
import time

import pytest
from test_http_server import close_all, fill, has_room, is_refusal, request, wait_for

PATIENCE_S = 1  # EVICT_PATIENCE_MS
HASTE_S = 0.1  # EVICT_HASTE_MS


def ask(client, path="/tiny"):
    client.send(request("GET", path))
    return client.answer()


def idle(server, count):
    """They have asked once, one after the other."""
    clients = []
    for _ in range(count):
        clients.append(server.connect())
        assert ask(clients[-1]).status == 200
    return clients


def test_who_has_been_idle_longest_makes_room(make_server):
    server = make_server(max_connections=10)
    clients = idle(server, 10)
    assert ask(clients[0]).status == 200  # now the second one has been idle longest
    with server.connect() as client:
        assert ask(client).status == 200
        assert clients.pop(1).is_closed()
        for one in clients:
            assert ask(one).status == 200
        stats = ask(client, "/stats").json()
        assert (stats["connections"], stats["evicted"], stats["refused"]) == (10, 1, 0)
    close_all(clients)


def test_each_new_one_is_let_in_however_many_are_idle(make_server):
    server = make_server(max_connections=4)
    clients = idle(server, 40)
    for client in clients[:36]:
        assert client.is_closed()
    stats = ask(clients[39], "/stats").json()
    assert (stats["connections"], stats["evicted"], stats["refused"]) == (4, 36, 0)
    errors = server.stop()
    assert errors.count("too many connections: one is closed for each new one") == 1
    assert errors.count('"reason":"idle"') == 1
    assert "more are refused" not in errors


def test_who_never_asked_goes_before_who_did(make_server):
    server = make_server(max_connections=4)
    asked = idle(server, 2)
    with server.connect() as silent:
        wait_for(lambda: ask(asked[1], "/stats").json()["connections"] == 3)
        time.sleep(PATIENCE_S + 0.1)
        with server.connect() as fourth, server.connect() as fifth:
            assert ask(fourth).status == 200
            assert ask(fifth).status == 200
            assert silent.is_closed()
            for client in asked:
                assert ask(client).status == 200
    close_all(asked)


def test_a_request_that_has_arrived_is_not_lost(make_server):
    """It has not been read when the new connections are accepted, because the process stood still."""
    server = make_server(max_connections=3)
    clients = idle(server, 3)
    server.process.send_signal(signal.SIGSTOP)
    new = [server.connect() for _ in range(2)]
    for client in new + clients[:2]:
        client.send(request("GET", "/tiny"))
    server.process.send_signal(signal.SIGCONT)
    for client in clients[:2]:
        assert client.answer().status == 200
    assert clients[2].is_closed()
    # One found the third idle. The other one may have been accepted before the first two had been answered.
    assert sorted(client.answer().status for client in new) in ([200, 200], [200, 503])
    close_all(clients + new)


def test_a_flood_of_new_ones_does_not_push_out_who_has_asked(make_server):
    server = make_server(max_connections=4)
    server.process.send_signal(signal.SIGSTOP)
    early = [server.connect() for _ in range(3)]
    for client in early:
        client.send(request("GET", "/delay?ms=1"))
    flood = [server.connect() for _ in range(300)]
    server.process.send_signal(signal.SIGCONT)
    for client in early:
        assert client.answer().status == 200
    close_all(early + flood)


def test_who_is_being_served_is_never_closed(make_server):
    """A handler at work, a stream, and a connection that was handed over."""
    server = make_server(max_connections=3, write_ms=600000)
    working, stream = server.connect(), server.connect()
    working.send(request("GET", "/wait"))
    stream.send(request("GET", "/stream?chunks=1000000&size=1&ms=100000"))
    assert stream.head()[0] == 200
    with server.connect() as upgraded:
        upgraded.send(request("GET", "/upgrade", ["Connection: Upgrade", "Upgrade: echo"]))
        assert upgraded.head()[0] == 101
        last = idle(server, 20)[-1]
        assert ask(last, "/stats").json()["evicted"] == 19
        upgraded.send(b"still there")
        assert upgraded.take(11) == b"still there"
        last.send(request("GET", "/wait"))
        wait_for(lambda: not has_room(server))
        with server.connect() as client:
            assert is_refusal(ask(client))
    close_all([working, stream, last])


def was_cut_off(client, size=8000000):
    """In the middle of an answer that it has not read so far."""
    try:
        assert len(client.take(size)) == size
    except ConnectionResetError:
        return True
    return False


def test_who_does_not_read_its_answer_makes_room_when_nobody_is_idle(make_server):
    """But never a stream, whether it has nothing to send or its client does not read."""
    server = make_server(max_connections=8, write_ms=600000, read_ms=600000)
    quiet, stuck = server.connect(), server.connect(receive_buffer=1)
    quiet.send(request("GET", "/stream?chunks=1000000&size=1&ms=100000"))
    stuck.send(request("GET", "/stream?chunks=2000&size=60000&ms=0"))
    assert quiet.head()[0] == stuck.head()[0] == 200
    readers = [server.connect() for _ in range(6)]
    for client in readers:
        client.send(request("GET", "/large?bytes=8000000"))
        assert client.head()[0] == 200
    newcomers = []

    def have_come():
        client = server.connect()
        client.send(request("GET", "/tiny") + request("GET", "/wait"))
        if client.answer().status == 200:
            newcomers.append(client)
        else:
            client.sock.close()
        return len(newcomers) == 5

    wait_for(have_come)
    assert sum(was_cut_off(client) for client in readers) == 5
    assert len(stuck.take(1_000_000)) == 1_000_000
    quiet.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        quiet.sock.recv(1)
    close_all([quiet, stuck, *readers, *newcomers])
    assert '"reason":"does not read its answer"' in server.stop()


def test_who_reads_its_answer_bit_by_bit_is_not_cut_off(make_server):
    server = make_server(max_connections=2, write_ms=600000)
    reader, silent = server.connect(receive_buffer=65536), server.connect(receive_buffer=1)
    for client in (reader, silent):
        client.send(request("GET", "/large?bytes=8000000"))
        assert client.head()[0] == 200
    count = 0
    while not has_room(server):
        count += len(reader.take(min(16384, 8000000 - count)))
        time.sleep(0.02)
    assert was_cut_off(silent)
    assert count + len(reader.take(8000000 - count)) == 8000000
    close_all([reader, silent])


@pytest.mark.parametrize("start", [b"GET /tiny HTTP/1.1\r\nHost: t", request("POST", "/echo", ["Content-Length: 9"]) + b"x"])
def test_who_is_slow_to_send_its_request_makes_room_when_nobody_is_idle(make_server, start):
    server = make_server(max_connections=2, read_ms=600000)
    slow = [server.connect() for _ in range(2)]
    for client in slow:
        client.send(start)
    wait_for(lambda: has_room(server))
    assert is_refusal(slow[0].answer())
    assert slow[0].is_closed()
    slow[1].send(start)
    close_all(slow)
    assert '"reason":"slow to send its request"' in server.stop()


PIECES = {
    "header": (b"GET /tiny HTTP/1.1\r\nHost: t\r\n", b"\r\n"),
    "header-and-body": (b"P", b"OST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES.keys())
def test_who_sends_request_after_request_slowly_makes_room(make_server, pieces):
    """Each piece comes in time, and all at once: nobody has been waiting for long when the new ones come."""
    server = make_server(max_connections=12)
    slow = [server.connect() for _ in range(12)]
    first, *rest = pieces
    for client in slow:
        client.send(first)
    for piece in rest:
        time.sleep(HASTE_S * 2)
        for client in slow:
            client.send(piece + first if piece is rest[-1] else piece)
    for client in slow:
        assert client.answer().status == 200
    busy = [fill(server, 1)[0] for _ in range(11)]
    for client in slow[:11]:
        assert is_refusal(client.answer())
    slow[11].send(b"".join(rest))
    assert slow[11].answer().status == 200
    stats = ask(slow[11], "/stats").json()
    assert (stats["connections"], stats["evicted"], stats["refused"]) == (12, 11, 0)
    close_all(slow + busy)


def test_who_takes_more_than_a_moment_to_send_makes_room(make_server):
    server = make_server(max_connections=4)
    slow = [server.connect() for _ in range(4)]
    for client in slow:
        client.send(b"GET /tiny HTTP/1.1\r\n")
    time.sleep(HASTE_S * 2)
    assert has_room(server)
    assert is_refusal(slow[0].answer())
    close_all(slow)


def test_half_a_request_goes_on_while_there_are_slow_clients(make_server):
    server = make_server(max_connections=4)
    slow = [server.connect() for _ in range(3)]
    for client in slow:
        client.send(b"GET /tiny HTTP/1.1\r\n")
    time.sleep(HASTE_S * 2)
    for client in slow:
        client.send(b"Host: t\r\n\r\nGET /tiny HTTP/1.1\r\n")
        assert client.answer().status == 200
    with server.connect() as client:
        client.send(b"GET /tiny HTTP/1.1\r\n")
        busy = [fill(server, 1)[0] for _ in range(3)]
        client.send(b"Host: t\r\n\r\n")
        assert client.answer().status == 200
    for one in slow:
        assert is_refusal(one.answer())
    close_all(slow + busy)


def test_who_was_refused_and_stays_makes_room(make_server):
    server = make_server(max_connections=2)
    busy = fill(server, 1)
    with server.connect() as refused:
        refused.send(b"no request\r\n\r\n")
        assert refused.answer().status == 400
        with server.connect() as client:
            stats = ask(client, "/stats").json()
            assert (stats["connections"], stats["evicted"]) == (2, 1)
    close_all(busy)


def test_who_waits_on_purpose_takes_a_quarter(make_server):
    server = make_server(max_connections=8)
    path = "/stream?chunks=1000000&size=1&ms=100000"
    streams = [server.connect() for _ in range(3)]
    for client in streams:
        client.send(request("GET", path))
    assert [client.head()[0] for client in streams[:2]] == [200, 200]
    answer = streams[2].answer()
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"] == "too many requests are waiting already"
    assert ask(streams[2]).status == 200  # its connection is as good as any other
    streams.pop(0).sock.close()

    def is_let_in():
        with server.connect() as client:
            client.send(request("GET", path))
            return client.head()[0] == 200

    wait_for(is_let_in)
    assert ask(streams.pop(), "/stats").json()["refused"] == 0
    close_all(streams)


def test_one_may_always_wait(make_server):
    server = make_server(max_connections=2)
    with server.connect() as client:
        client.send(request("GET", "/stream"))
        assert client.answer().status == 200
        client.send(request("GET", "/stream"))  # the first one has ended
        assert client.answer().status == 200
