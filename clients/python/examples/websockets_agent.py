#!/usr/bin/python3
"""websockets_agent.py - a voice agent that repeats what it hears: smartrouter and websockets.

POD_NAME, POD_IP, SMART_ROUTER_BASE_URL and the other variables are those of docs/CLIENTS.md. PORT is where it listens.
"""
import asyncio
import dataclasses
import logging
import os
import sys

import smartrouter
import websockets


@dataclasses.dataclass
class Session:
    """What the agent knows of a call. It outlives a stream that breaks."""

    is_rescued: bool  # the caller has talked to another agent before, or waited
    messages: int = 0


async def main() -> None:
    port = int(os.environ.get("PORT", "8000"))
    async with smartrouter.Client() as client:
        agent = smartrouter.Agent(client, port=port, keep_seconds=float(os.environ.get("KEEP_SECONDS", "60")))

        async def serve(stream):
            headers = stream.request_headers if hasattr(stream, "request_headers") else stream.request.headers
            resumed = headers.get("X-Call-Resumed")
            async with agent.call(headers["X-Call-Sid"], on_ended=stream.close, resumed=resumed) as call:
                if call.session is None:  # otherwise the stream broke, and this one goes on with its session
                    call.session = Session(is_rescued=call.resumed > 0)
                try:
                    async for message in stream:
                        call.session.messages += 1
                        await stream.send(message)  # here your agent listens and speaks
                except websockets.ConnectionClosed:
                    pass
                finally:
                    call.close_code = stream.close_code  # None: it is open, and this agent has failed

        async with websockets.serve(serve, "", port):  # listen first: a registered pod gets calls at once
            agent.stop_on_signals()
            await agent.start()
            ready = asyncio.create_task(say_ready(agent))
            await agent.wait_stop()
            await agent.shutdown()
            ready.cancel()


async def say_ready(agent: smartrouter.Agent) -> None:
    await agent.wait_known()
    print("ready", flush=True)


logging.basicConfig(stream=sys.stdout, level=logging.INFO)
asyncio.run(main())
