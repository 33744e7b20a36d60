#!/usr/bin/python3
"""pipeline_agent.py - a voice agent around a pipeline of processors, as Pipecat has them.

A pipeline is a list of processors; a frame goes from one to the next; the transport is at both ends. Only this interface
is here, with one processor that repeats what it hears: speech recognition, a model and a voice take its place.

POD_NAME, POD_IP, SMART_ROUTER_BASE_URL and the other variables are those of docs/CLIENTS.md. PORT is where it listens.
"""
import asyncio
import dataclasses
import logging
import os
import sys
from typing import List, Optional, Protocol, Union

import smartrouter
import websockets


@dataclasses.dataclass
class Frame:
    """A message of the stream. No data: the end."""

    data: Optional[Union[str, bytes]] = None


class FrameProcessor(Protocol):
    async def process_frame(self, frame: Frame) -> Optional[Frame]:
        """The frame for the next processor; None: this one keeps it."""


class Echo:
    async def process_frame(self, frame: Frame) -> Optional[Frame]:
        return frame


class StreamTransport:
    """Both ends of a pipeline: frames from the stream, frames to it."""

    def __init__(self, stream) -> None:
        self.stream = stream

    async def frames(self):
        try:
            async for message in self.stream:
                yield Frame(message)
        except websockets.ConnectionClosed:
            pass

    async def process_frame(self, frame: Frame) -> Optional[Frame]:
        await self.stream.send(frame.data)
        return None


class PipelineRunner:
    """Runs until the stream has ended, or a processor raises."""

    def __init__(self, transport: StreamTransport, processors: List[FrameProcessor]) -> None:
        self.transport = transport
        self.processors = [*processors, transport]

    async def run(self) -> None:
        async for frame in self.transport.frames():
            passed: Optional[Frame] = frame
            for processor in self.processors:
                if passed is None:
                    break
                passed = await processor.process_frame(passed)


async def main() -> None:
    port = int(os.environ.get("PORT", "8000"))
    async with smartrouter.Client() as client:
        agent = smartrouter.Agent(client, port=port, keep_seconds=float(os.environ.get("KEEP_SECONDS", "60")))

        async def serve(stream):
            headers = stream.request_headers if hasattr(stream, "request_headers") else stream.request.headers
            resumed = headers.get("X-Call-Resumed")
            async with agent.call(headers["X-Call-Sid"], on_ended=stream.close, resumed=resumed) as call:
                # A stream that broke and came back goes on with its processors, and what they remember.
                call.session = call.session or [Echo()]
                try:
                    await PipelineRunner(StreamTransport(stream), call.session).run()
                finally:
                    call.close_code = stream.close_code  # None: it is open. A processor has raised; the router moves the call

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
