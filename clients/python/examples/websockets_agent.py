#!/usr/bin/python3
"""websockets_agent.py - a voice agent that repeats what it hears: smartrouter and websockets.

POD_NAME, POD_IP, SMART_ROUTER_BASE_URL and the other variables are those of docs/CLIENTS.md. PORT is where it listens.
"""
import asyncio
import logging
import os
import sys

import smartrouter
import websockets


async def main() -> None:
    port = int(os.environ.get("PORT", "8000"))
    async with smartrouter.Client() as client:
        agent = smartrouter.Agent(client, port=port, keep_seconds=float(os.environ.get("KEEP_SECONDS", "60")))

        async def serve(stream):
            headers = stream.request_headers if hasattr(stream, "request_headers") else stream.request.headers
            async with agent.call(headers["X-Call-Sid"], on_ended=stream.close) as call:
                try:
                    async for message in stream:
                        await stream.send(message)  # here your agent listens and speaks
                except websockets.ConnectionClosed:
                    pass
                finally:
                    call.close_code = stream.close_code or 1006

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
