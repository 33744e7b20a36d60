"""A voice agent on a server as people use it, for test_real_agents.py: the server's own ways, and nothing around them.

real_agent.py SERVER NAME PORT [URL RELEASE]
real_agent.py more: prints the servers of NEWER that are here

It answers every message with a mark that has its name, until a message tells it how to end the call: "do return",
"do raise", "do close", "do close 4000". With RELEASE it releases its call in `finally`, at every end of its socket: "named"
with its own name, "plain" without. Its first line says what serves, with its version. It ends with 3 if that is not here.
"""

import asyncio
import importlib.util
import json
import signal
import sys
import threading
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, version

GO_ON, CLOSE, RETURN = range(3)

# What serves, and what speaks WebSocket there.
PACKAGES = {
    "websockets": ["websockets"],
    "websockets-legacy": ["websockets", "legacy"],
    "websockets-threads": ["websockets", "threads"],
    "uvicorn-websockets": ["uvicorn", "websockets"],
    "uvicorn-sansio": ["uvicorn", "websockets", "sansio"],
    "uvicorn-wsproto": ["uvicorn", "wsproto"],
    "fastapi": ["uvicorn", "fastapi"],
    "hypercorn": ["hypercorn"],
    "aiohttp": ["aiohttp"],
}
# Where they are a way of their own.
NEWER = {
    "websockets-legacy": "websockets.asyncio.server",  # before this one, it is the only one
    "websockets-threads": "websockets.sync.server",
    "uvicorn-sansio": "uvicorn.protocols.websockets.websockets_sansio_impl",
}


def has(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def versions(server):
    """As docs/AGENTS.md names them."""

    def text(package):
        try:
            return f"{package} {'.'.join(version(package).split('.')[:2])}"
        except PackageNotFoundError:
            if package in ("legacy", "threads", "sansio"):
                return package
            say("it needs", f"python3-{package}")
            sys.exit(3)

    return ", ".join(map(text, PACKAGES[server]))


def say(*words):
    print(*words, flush=True)


def told(text):
    """What to do after a message, and the code to close with."""
    if not text.startswith("do "):
        return GO_ON, None
    what, _, code = text[3:].partition(" ")
    if what == "raise":
        raise LookupError("an error in the agent")
    return (RETURN if what == "return" else CLOSE), (int(code) if code else None)


def answer():
    return json.dumps({"event": "mark", "streamSid": "MZCA1", "mark": {"name": NAME}})


def end(call_sid):
    if RELEASE:
        release(call_sid)
    say("over")


async def end_soon(call_sid):
    """What handlers do in `finally`. In a thread, which goes on if the server cancels its handlers."""
    await asyncio.get_running_loop().run_in_executor(None, end, call_sid)


def release(call_sid):
    body = {"call_sid": call_sid, **({"pod_name": NAME} if RELEASE == "named" else {})}
    request = urllib.request.Request(f"{URL}/api/v1/release", json.dumps(body).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as found:
            say("released", found.status, "kept" if json.load(found).get("is_kept") else "ended")
    except urllib.error.HTTPError as error:
        say("released", error.code)




# ASGI, without a framework.


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    call_sid = dict(scope["headers"])[b"x-call-sid"].decode()
    await receive()
    await send({"type": "websocket.accept"})
    try:
        while (message := await receive())["type"] == "websocket.receive":
            what, code = told(message["text"])
            if what == RETURN:
                return
            if what == CLOSE:
                await send({"type": "websocket.close", **({"code": code} if code else {})})
                return
            await send({"type": "websocket.send", "text": answer()})
    finally:
        await end_soon(call_sid)


def serve_uvicorn(app, ws):
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=PORT, ws=ws, log_level="warning")


def serve_fastapi():
    import fastapi

    app = fastapi.FastAPI()

    @app.websocket("/{path:path}")
    async def talk(stream: fastapi.WebSocket):
        await stream.accept()
        try:
            while True:
                what, code = told(await stream.receive_text())
                if what == RETURN:
                    return
                if what == CLOSE:
                    await stream.close(**({"code": code} if code else {}))
                    return
                await stream.send_text(answer())
        finally:
            await end_soon(stream.headers["x-call-sid"])

    serve_uvicorn(app, "auto")


def serve_hypercorn():
    """As its program does it."""
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    async def main():
        stop = asyncio.Event()
        for signum in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signum, stop.set)
        config = Config()
        config.bind = [f"127.0.0.1:{PORT}"]
        config.graceful_timeout = 0.5  # for open streams; 3 s by default
        await serve(asgi, config, shutdown_trigger=stop.wait)

    asyncio.run(main())


# Servers with ways of their own.


async def talk_websockets(stream, *_):
    headers = stream.request_headers if hasattr(stream, "request_headers") else stream.request.headers
    try:
        async for text in stream:
            what, code = told(text)
            if what == RETURN:
                return
            if what == CLOSE:
                await (stream.close(code) if code else stream.close())
                return
            await stream.send(answer())
    finally:
        await end_soon(headers["x-call-sid"])


def serve_websockets(serve):
    """As its documents do it, with SIGTERM and Ctrl-C alike."""

    async def main():
        stop = asyncio.Event()
        for signum in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signum, stop.set)
        async with serve(talk_websockets, "127.0.0.1", PORT):
            await stop.wait()

    asyncio.run(main())


def serve_websockets_asyncio():
    import websockets

    serve_websockets(websockets.serve)


def serve_websockets_legacy():
    from websockets.legacy.server import serve

    serve_websockets(serve)


def talk_websockets_threads(stream):
    try:
        for text in stream:
            what, code = told(text)
            if what == RETURN:
                return
            if what == CLOSE:
                stream.close(code) if code else stream.close()
                return
            stream.send(answer())
    finally:
        end(stream.request.headers["x-call-sid"])


def serve_websockets_threads():
    from websockets.sync.server import serve

    with serve(talk_websockets_threads, "127.0.0.1", PORT) as server:
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda *_: threading.Thread(target=server.shutdown).start())
        server.serve_forever()


def serve_aiohttp():
    from aiohttp import WSMsgType, web

    async def talk(request):
        stream = web.WebSocketResponse()
        await stream.prepare(request)
        try:
            async for message in stream:
                if message.type != WSMsgType.TEXT:
                    continue
                what, code = told(message.data)
                if what == RETURN:
                    return stream
                if what == CLOSE:
                    await stream.close(**({"code": code} if code else {}))
                    return stream
                await stream.send_str(answer())
        finally:
            await end_soon(request.headers["x-call-sid"])
        return stream

    app = web.Application()
    app.router.add_get("/{path:.*}", talk)
    # It waits for this long, a minute by default, before it ends what is open.
    web.run_app(app, host="127.0.0.1", port=PORT, shutdown_timeout=0.5, print=None)


SERVERS = {
    "websockets": serve_websockets_asyncio,
    "websockets-legacy": serve_websockets_legacy,
    "websockets-threads": serve_websockets_threads,
    "uvicorn-websockets": lambda: serve_uvicorn(asgi, "websockets"),
    "uvicorn-sansio": lambda: serve_uvicorn(asgi, "websockets-sansio"),
    "uvicorn-wsproto": lambda: serve_uvicorn(asgi, "wsproto"),
    "fastapi": serve_fastapi,
    "hypercorn": serve_hypercorn,
    "aiohttp": serve_aiohttp,
}

if __name__ == "__main__":
    if sys.argv[1] == "more":
        print(*(server for server, module in NEWER.items() if has(module)))
        sys.exit()
    SERVER, NAME, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
    URL, RELEASE = (sys.argv[4:] + ["", ""])[:2]
    say("serves", versions(SERVER))
    SERVERS[SERVER]()
