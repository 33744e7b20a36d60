#!/usr/bin/python3
"""fastapi_agent.py - the same voice agent as agent.py, with FastAPI and uvicorn.

The settings are those of agent.py: ROUTER_URL, POD_NAME, PORT, ADDRESS, API_KEY. docs/AGENTS.md explains every request.
"""
import asyncio, http.client, json, os, signal, urllib.error, urllib.request, uuid

import fastapi, uvicorn

ROUTER = os.environ.get("ROUTER_URL", "http://127.0.0.1:8080")
NAME, PORT = os.environ.get("POD_NAME", "agent-1"), int(os.environ.get("PORT", "8000"))
ADDRESS = os.environ.get("ADDRESS", f"127.0.0.1:{PORT}")
HEADERS = {"Authorization": f"Bearer {os.environ['API_KEY']}"} if os.environ.get("API_KEY") else {}
INCARNATION = str(uuid.uuid4())  # of this process: registering again with the same one keeps the calls
KEEP_S = float(os.environ.get("KEEP_SECONDS", "60"))  # how long a call whose stream broke may come back
calls = {}  # call_sid -> its stream, also one that broke: heartbeats list these
sessions = {}  # call_sid -> what the agent knows of the call
app = fastapi.FastAPI()


async def ask(method, path, body=None, timeout=5):
    """Status and answer; status 0: the router is away, or could not answer now."""
    def send():
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(ROUTER + path, data, HEADERS, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return (0 if error.code >= 500 else error.code), error.reason
        except (OSError, ValueError, http.client.HTTPException) as error:  # also an answer that was cut off
            return 0, str(error)
    return await asyncio.get_running_loop().run_in_executor(None, send)


async def register():
    """Until the router has answered. Returns how often it wants a heartbeat."""
    while True:
        me = {"pod_name": NAME, "address": ADDRESS, "incarnation": INCARNATION}
        status, answer = await ask("POST", "/api/v1/pods", me)
        if status == 200:
            return answer["heartbeat_interval_seconds"]
        print("not registered:", answer, flush=True)
        await asyncio.sleep(1)


async def heartbeat():
    """Tells the router our calls. Returns the status."""
    status, answer = await ask("POST", f"/api/v1/pod/{NAME}/heartbeat", {"call_sids": list(calls)})
    if status == 200:
        for call_sid in answer["ended"] + answer["conflicts"]:  # these are over, or another pod has them
            sessions.pop(call_sid, None)
            if stream := calls.pop(call_sid, None):
                asyncio.create_task(stream.close())
    return status


async def stay_known():
    interval = await register()
    print("ready", flush=True)
    while True:
        status = await heartbeat()
        if status == 404:  # the router does not know this pod (any more)
            interval = await register()
        else:
            await asyncio.sleep(interval if status == 200 else 1)


@app.websocket("/{path:path}")
async def serve(stream: fastapi.WebSocket, path: str):
    call_sid, code = stream.headers["x-call-sid"], 1006
    await stream.accept()
    calls[call_sid] = stream
    session = session_of(call_sid, stream.headers.get("x-call-resumed"))
    try:
        while (message := await stream.receive())["type"] == "websocket.receive":
            session["messages"] += 1
            if message.get("text") is not None:
                await stream.send_text(message["text"])  # here your agent listens and speaks
            else:
                await stream.send_bytes(message["bytes"])
        code = message.get("code", 1005)
    finally:
        asyncio.create_task(end(call_sid, stream, code))


def session_of(call_sid, resumed):
    """That of a stream that broke, if this agent had it; otherwise a new one."""
    if resumed and call_sid not in sessions:
        print(call_sid, "was rescued: the caller has talked to another agent before", flush=True)
    return sessions.setdefault(call_sid, {"messages": 0})


async def end(call_sid, stream, code):
    if not (code in (1000, 1005) or 3000 <= code <= 4999):  # nobody hung up: it broke, and may come back
        await asyncio.sleep(1)
        await heartbeat()  # the router ends the call 5 s after the break, unless a heartbeat lists it meanwhile
        await asyncio.sleep(KEEP_S)
    if calls.get(call_sid) is not stream:  # it has come back, the router has ended it, or another agent has it
        return
    del calls[call_sid]
    sessions.pop(call_sid, None)
    while call_sid not in calls:  # it may also come back while the router cannot be asked
        # With our name: it ends nothing if another agent has the call by now (404).
        if (await ask("POST", "/api/v1/release", {"call_sid": call_sid, "pod_name": NAME}))[0]:
            return
        await asyncio.sleep(1)


async def drain():
    """No new calls; returns when the last one has ended. A router that stays away is not waited for."""
    away = 0
    while away < KEEP_S:
        await ask("POST", "/api/v1/drain", {"pod_name": NAME, "ttl_seconds": 300})
        status, _ = await ask("GET", f"/api/v1/pod/{NAME}/drained?timeout_seconds=30", timeout=40)
        if status == 200 and calls:
            await heartbeat()  # the router has ended them: now we know it, too
        if status in (200, 404) and not calls:
            return
        away = 0 if status in (200, 202, 404) or calls else away + 1
        await asyncio.sleep(0 if status == 202 else 1)


async def main():
    stop = asyncio.Event()
    server = uvicorn.Server(uvicorn.Config(app, host="0.0.0.0", port=PORT, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # listen first: a registered pod gets calls at once
        await asyncio.sleep(0.05)
    for signum in (signal.SIGTERM, signal.SIGINT):  # uvicorn's own handlers would close every stream at once
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    beat = asyncio.create_task(stay_known())
    await stop.wait()
    await drain()
    beat.cancel()
    await ask("DELETE", f"/api/v1/pod/{NAME}")
    server.should_exit = True
    await serving


asyncio.run(main())
