"""A voice agent for test_client_rescue.py: says who it is to everything that it hears.

rescue_agent.py MODE URL NAME ADDRESS PORT; MODE says how it ends its calls:

finally  releases in `finally`, at every end of a stream, with its own name, and prints the status of the answer
client   as the Python client does it: agent.call(…)
"fail" in a message makes it raise. It prints a line for each event.
"""

import asyncio
import json
import sys

import httpx
import smartrouter
import websockets

MODE, URL, NAME, ADDRESS, PORT = sys.argv[1:]


def say(*words):
    print(*words, flush=True)


class Watch(smartrouter.Hooks):
    def release(self, event):
        say("release", event.reason, event.outcome)


async def talk(stream):
    async for message in stream:
        if "fail" in message:
            raise LookupError
        event = json.loads(message)
        if event["event"] == "media":
            await stream.send(json.dumps({"event": "mark", "streamSid": "MZ1", "mark": {"name": NAME}}))
        else:
            say(event["event"], event.get("sequenceNumber", 0))


async def serve_finally(stream, call_sid, _resumed):
    try:
        await talk(stream)
    finally:
        async with httpx.AsyncClient() as http:
            answer = await http.post(f"{URL}/api/v1/release", json={"call_sid": call_sid, "pod_name": NAME})
        say("released", answer.status_code)


async def serve_client(stream, call_sid, resumed, agent):
    async with agent.call(call_sid, lambda: say("over", call_sid), resumed=resumed, on_gone=lambda: say("gone")) as call:
        say("session", call.session)
        call.session = (call.session or 0) + 1
        try:
            await talk(stream)
        finally:
            call.close_code = stream.close_code


async def main():
    settings = smartrouter.Settings(base_url=URL, pod_name=NAME, timeout_ms=10000)
    async with smartrouter.Client(settings, hooks=Watch()) as client:
        agent = smartrouter.Agent(client, address=ADDRESS)

        async def serve(stream):
            headers = stream.request_headers if hasattr(stream, "request_headers") else stream.request.headers
            call_sid, resumed = headers["X-Call-Sid"], headers.get("X-Call-Resumed")
            say("opened", call_sid, resumed or "-")
            if MODE == "finally":
                await serve_finally(stream, call_sid, resumed)
            else:
                await serve_client(stream, call_sid, resumed, agent)

        async with websockets.serve(serve, "127.0.0.1", int(PORT)):
            await agent.start()
            await agent.wait_known()
            say("ready")
            while True:
                await asyncio.sleep(1)
                if MODE == "client":
                    say("calls", *agent.calls)


asyncio.run(main())
