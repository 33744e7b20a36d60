#!/usr/bin/python3
"""fastapi_agent.py - a voice agent with FastAPI: the webhooks of a provider, the streams, and all four ways to release.

POD_NAME, POD_IP, SMART_ROUTER_BASE_URL and the other variables are those of docs/CLIENTS.md. PORT is where it listens.
"""
import asyncio
import logging
import os
import sys
from typing import Dict
from xml.sax.saxutils import quoteattr

import fastapi
import smartrouter
import uvicorn

BUSY = "<Response><Say>All agents are currently busy. Please try again later.</Say><Hangup/></Response>"
app = fastapi.FastAPI()


@app.post("/twilio/voice")
async def voice(request: fastapi.Request, merchant_id: str = "") -> fastapi.Response:
    """Twilio asks where a call goes. Whatever the router does, it gets an answer."""
    call_sid = request.query_params["CallSid"]  # real code reads the form and checks the signature
    # If all agents are busy the call waits, where the router lets it; Twilio waits for this answer for 15 s at most.
    to = await app.state.client.allocate(call_sid, merchant_id, "twilio", wait=10)
    stream = f"<Response><Connect><Stream url={quoteattr(to.ws_url)}/></Connect></Response>"
    return fastapi.Response(stream if to.ws_url else BUSY, media_type="application/xml")


@app.websocket("/{path:path}")
async def serve(stream: fastapi.WebSocket, path: str) -> None:
    # 1. The stream closes: `agent.call` releases, or keeps the call and its session for a stream that comes back.
    resumed = stream.headers.get("x-call-resumed")
    async with app.state.agent.call(stream.headers["x-call-sid"], on_ended=stream.close, resumed=resumed) as call:
        call.session = call.session or {"is_rescued": call.resumed > 0}
        await stream.accept()
        while (message := await stream.receive())["type"] == "websocket.receive":
            if message.get("text") is not None:
                await stream.send_text(message["text"])  # here your agent listens and speaks
            else:
                await stream.send_bytes(message["bytes"])
        call.close_code = message.get("code", 1005)


@app.post("/calls/{call_sid}/completed")
async def completed(call_sid: str) -> Dict[str, bool]:
    # 2. The agent is done with the call.
    return {"released": await app.state.agent.completed(call_sid)}


@app.post("/calls/{call_sid}/unanswered")
async def unanswered(call_sid: str) -> Dict[str, bool]:
    # 3. An outbound call that nobody answered: its stream will never open.
    return {"released": await app.state.agent.unanswered(call_sid)}


@app.post("/status")
async def status(CallSid: str, CallStatus: str) -> Dict[str, bool]:
    # 4. The provider's status callback.
    return {"ended": await app.state.agent.status(CallSid, CallStatus)}


async def main() -> None:
    port = int(os.environ.get("PORT", "8000"))
    server = uvicorn.Server(uvicorn.Config(app, host="0.0.0.0", port=port, log_level="warning"))
    async with smartrouter.Client() as client:
        app.state.client = client
        app.state.agent = agent = smartrouter.Agent(
            client, port=port, keep_seconds=float(os.environ.get("KEEP_SECONDS", "60"))
        )
        serving = asyncio.create_task(server.serve())
        while not server.started:  # listen first: a registered pod gets calls at once
            await asyncio.sleep(0.05)
        agent.stop_on_signals()  # after uvicorn's own handlers, which would close every stream at once
        await agent.start()
        ready = asyncio.create_task(say_ready(agent))
        await agent.wait_stop()
        await agent.shutdown()
        ready.cancel()
        server.should_exit = True
        await serving


async def say_ready(agent: smartrouter.Agent) -> None:
    await agent.wait_known()
    print("ready", flush=True)


logging.basicConfig(stream=sys.stdout, level=logging.INFO)
asyncio.run(main())
