"""The agent: a pod that registers, sends heartbeats with its calls, and leaves without dropping one.

docs/AGENTS.md has the requests behind it. An agent belongs to the event loop of its client.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import uuid
from typing import Any, Awaitable, Callable, Dict, Optional, Sequence, Set, Union

from .client import Client
from .results import HeartbeatResult, RouterError
from .settings import SettingsError

RETRY_S = 1.0
DRAIN_TTL_S = 300
DRAINED_WAIT_S = 20
EXTRA_BEAT_S = 1.0  # after a break: the router has noticed it by then, and its grace (5 s) is not over
FAILED_RELEASE_S = 5.0  # after a failure: by then the router has seen the end of the stream, and moved the call

OnEnded = Callable[[], Union[None, Awaitable[object]]]


def close_ends_call(close_code: int) -> bool:
    """Whether somebody meant to end the call. With all other codes, such as 1006 and 1012, it may come back."""
    return close_code in (1000, 1005) or 3000 <= close_code <= 4999


def _close_code_of(error: Optional[BaseException]) -> Optional[int]:
    """That of an exception which says that the stream has closed: of websockets, of Starlette, of a socket."""
    if hasattr(error, "rcvd"):
        code = getattr(getattr(error, "rcvd"), "code", 1006)  # its own `code` is deprecated
    else:
        code = getattr(error, "code", 1006 if isinstance(error, (OSError, EOFError)) else None)
    return code if isinstance(code, int) and 1000 <= code <= 4999 else None


class AgentCall:
    """A call of this agent, from its stream's opening: `async with agent.call(…) as call`."""

    def __init__(
        self,
        call_sid: str,
        on_ended: Optional[OnEnded] = None,
        on_gone: Optional[OnEnded] = None,
        resumed: int = 0,
    ) -> None:
        self.call_sid = call_sid
        self.on_ended = on_ended
        self.on_gone = on_gone
        self.resumed = resumed  #: how often the router has resumed or rescued the call; 0: this is its first stream
        self.has_ended = False  #: the router has ended it, or another pod has it
        #: Set it to the stream's close code. A code that means a break keeps the call for a while: it may come back.
        self.close_code: Optional[int] = None
        self.has_stopped = False  #: set it at the provider's stop message: the call is over, whatever the close code
        #: Whatever you want to find again if the stream breaks and comes back. None: this agent does not know the call.
        self.session: Any = None


class Agent:
    """One pod."""

    def __init__(
        self,
        client: Client,
        *,
        port: int = 8000,
        pod_name: Optional[str] = None,
        address: Optional[str] = None,
        tier: Optional[str] = None,
        registers: bool = True,
        keep_seconds: float = 60.0,
    ) -> None:
        """`registers=False` on Kubernetes: the router finds the pods itself."""
        settings = client.settings
        self.client = client
        self.pod_name = pod_name or settings.pod_name
        self.address = address or (_join(settings.pod_ip, port) if settings.pod_ip else "")
        self.tier = tier
        self.incarnation = str(uuid.uuid4())  # of this process: registering again with it keeps the calls
        self._registers = registers
        self._keep_seconds = keep_seconds
        self._interval = settings.heartbeat_interval
        self._calls: Dict[str, AgentCall] = {}
        self._broken: Set[AgentCall] = set()  # those of them whose stream broke, and that may come back
        self._beating: Optional[asyncio.Task[None]] = None
        self._is_known: Optional[asyncio.Event] = None
        self._stop: Optional[asyncio.Event] = None
        if not self.pod_name:
            raise SettingsError("POD_NAME is not set, and an agent needs a name")
        if registers and not self.address:
            raise SettingsError("POD_IP is not set, and the router needs an address of this agent")
        client.live_checks.append(self._calls.__contains__)

    @property
    def calls(self) -> Sequence[str]:
        """What the next heartbeat lists."""
        return list(self._calls)

    # Life.

    async def start(self) -> None:
        """Begins to register and to send heartbeats. Returns at once: a router that is away keeps no agent from working.

        Listen first: a registered pod can get a call at once.
        """
        self._beating = asyncio.get_running_loop().create_task(self._stay_known())

    async def wait_known(self) -> None:
        """Returns when the router has taken a heartbeat."""
        await self._known().wait()

    def _known(self) -> asyncio.Event:
        # Made here, because an Event belongs to the running loop in Python 3.9.
        self._is_known = self._is_known or asyncio.Event()
        return self._is_known

    async def run(self) -> bool:
        """From `start` to the end of `shutdown`, which SIGTERM or SIGINT begins. True: all calls ended by themselves."""
        self.stop_on_signals()
        await self.start()
        await self.wait_stop()
        return await self.shutdown()

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT end `wait_stop`. Call it after servers that have handlers of their own."""
        loop = asyncio.get_running_loop()
        self._stop = self._stop or asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)

    async def wait_stop(self) -> None:
        self._stop = self._stop or asyncio.Event()
        await self._stop.wait()

    async def shutdown(self) -> bool:
        """No new calls; waits for those that are there, at most VOICE_AGENT_SHUTDOWN_TIMEOUT; leaves.

        Returns whether all calls ended by themselves.
        """
        try:
            await asyncio.wait_for(self._drain(), self.client.settings.shutdown_timeout)
            is_drained = True
        except asyncio.TimeoutError:
            is_drained = not self._calls
        if self._beating:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        if not is_drained:
            # Removing the pod would end these calls; a stream that breaks may still find another pod.
            self._log(logging.WARNING, "calls are left at the end of VOICE_AGENT_SHUTDOWN_TIMEOUT", calls=len(self._calls))
        elif self._registers:
            try:
                await self.client.remove(self.pod_name)
            except RouterError as error:
                self._log(logging.WARNING, "not removed; the router does it without heartbeats", error=str(error))
        return is_drained

    # Calls.

    def call(
        self,
        call_sid: str,
        on_ended: Optional[OnEnded] = None,
        *,
        resumed: Optional[str] = None,
        on_gone: Optional[OnEnded] = None,
    ) -> _AgentCallContext:
        """`async with agent.call(sid, stream.close) as call:` lists the call in heartbeats, and releases it at the end.

        `on_ended` is called, or awaited, when the router says that the call is over here. `resumed` is the stream's
        header X-Call-Resumed. `on_gone` is called, or awaited, when a call whose stream broke is over: its session is
        not needed any more.

        At the end of the block `call.close_code` decides: see `close_ends_call`. Without one the call has ended. An
        exception that says that the stream has closed has the code itself. After any other exception this agent has
        failed, and the server closes the stream (1011): then the call is not released at once, so that the router can
        give it to another pod.
        """
        if not call_sid:
            raise ValueError("call_sid is empty")
        count = int(resumed) if resumed and resumed.isdecimal() and len(resumed) < 10 else 0
        return _AgentCallContext(self, AgentCall(call_sid, on_ended, on_gone, count))

    async def completed(self, call_sid: str) -> bool:
        """The agent is done with a call before its stream closes."""
        return await self._release(call_sid, "completed")

    async def unanswered(self, call_sid: str) -> bool:
        """An outbound call was not answered: its stream will never open."""
        return await self._release(call_sid, "unanswered")

    async def status(self, call_sid: str, status: str) -> bool:
        """A provider's status callback: releases the call if the status is its end. True: it is."""
        return await self.client.handle_status(call_sid, status)

    async def beat(self) -> HeartbeatResult:
        """One heartbeat, now."""
        listed = dict(self._calls)
        result = await self.client.heartbeat(self.pod_name, list(listed))
        for call_sid in result.ended + result.conflicts:
            call = self._calls.get(call_sid)
            if call and call is listed.get(call_sid):  # not for a stream that came after this heartbeat
                del self._calls[call_sid]
                call.has_ended = True
                self.client.spawn_callback(call.on_ended, call_sid)
                self._tell_gone(call)
        for call_sid in result.adopted:
            if call_sid not in self._calls:  # its release overtook this heartbeat, which brought the call back
                self.client.spawn(self._tell_release(call_sid, "stream_closed"))
        return result

    async def _begin(self, call: AgentCall) -> None:
        before = self._calls.get(call.call_sid)
        if before:
            call.session = before.session
            self._broken.discard(before)
        self._calls[call.call_sid] = call  # one that came back takes the place of the one that broke
        try:
            await self.client.background.cancel(call.call_sid)  # the release of the one that broke would end it
        except asyncio.CancelledError:
            self.client.spawn(self._finish(call))
            raise

    async def _finish(self, call: AgentCall, error: Optional[BaseException] = None) -> None:
        code = call.close_code if call.close_code is not None else _close_code_of(error)
        if call.has_stopped:
            code = 1000
        if code is None and error is not None:
            self._give_up(call)
        elif code is None or close_ends_call(code) or call.has_ended:
            await self._end(call)
        else:
            self._broken.add(call)
            self.client.spawn(self._keep_broken(call))

    def _give_up(self, call: AgentCall) -> None:
        """Not listed any more: the call may be elsewhere soon. If it is still here after a while, it is released."""
        if self._calls.get(call.call_sid) is call:
            del self._calls[call.call_sid]
            self.client._release_later(call.call_sid, self.pod_name, "agent_failed", FAILED_RELEASE_S)

    def _tell_gone(self, call: AgentCall) -> None:
        if call in self._broken:
            self._broken.discard(call)
            self.client.spawn_callback(call.on_gone, call.call_sid, "on_gone")

    async def _keep_broken(self, call: AgentCall) -> None:
        await asyncio.sleep(min(EXTRA_BEAT_S, self._keep_seconds))
        if self._calls.get(call.call_sid) is not call:
            return  # it has come back, or the router has ended it
        try:
            await self.beat()
        except RouterError as error:
            self._log(logging.INFO, "no heartbeat for a broken call", call_sid=call.call_sid, error=str(error))
        await asyncio.sleep(max(0.0, self._keep_seconds - EXTRA_BEAT_S))
        await self._end(call)

    async def _end(self, call: AgentCall) -> None:
        if self._calls.get(call.call_sid) is call:
            await self._release(call.call_sid, "stream_closed")

    async def _release(self, call_sid: str, reason: str) -> bool:
        call = self._calls.pop(call_sid, None)
        if call:
            self._tell_gone(call)
        return await self._tell_release(call_sid, reason)

    async def _tell_release(self, call_sid: str, reason: str) -> bool:
        is_done = await self.client.release(call_sid, self.pod_name, reason)
        if call_sid in self._calls:  # its stream came back meanwhile
            await self.client.background.cancel(call_sid)
        return is_done

    # Heartbeats.

    async def _stay_known(self) -> None:
        is_registered = not self._registers
        while True:
            try:
                if not is_registered:
                    await self._register()
                    is_registered = True
                await self.beat()
                self._known().set()
                wait = self._interval
            except RouterError as error:
                wait = RETRY_S
                if is_registered and self._registers and error.status == 404:
                    is_registered, wait = False, 0.0  # the router has forgotten this pod, not this pod its calls
                message = "no heartbeat, calls go on" if is_registered else "not registered"
                self._log(logging.WARNING, f"{message}; again soon", pod_name=self.pod_name, error=str(error))
            await asyncio.sleep(wait)

    async def _register(self) -> None:
        registration = await self.client.register(self.pod_name, self.address, self.incarnation, self.tier)
        self._interval = min(registration.heartbeat_interval_seconds, self.client.settings.heartbeat_interval)
        self._log(logging.INFO, "registered", pod_name=self.pod_name, tier=registration.tier)

    # Shutdown.

    async def _drain(self) -> None:
        """Returns when the last call has ended. A router that stays away is waited for as long as a broken call."""
        away = 0.0
        while away < self._keep_seconds:
            try:
                await self.client.drain(self.pod_name, DRAIN_TTL_S)
                drained = await self.client.drained(self.pod_name, DRAINED_WAIT_S)
                away = 0.0
                if drained.is_drained and self._calls:
                    await self.beat()  # the router has ended them: now we know it, too
                if drained.is_drained and not self._calls:
                    return
            except RouterError as error:
                if error.status == 404 and not self._calls:
                    return  # the router does not know this pod (any more)
                away = 0.0 if self._calls else away + RETRY_S
                self._log(logging.WARNING, "not drained; again soon", pod_name=self.pod_name, error=str(error))
            await asyncio.sleep(RETRY_S)

    def _log(self, level: int, message: str, **fields: object) -> None:
        self.client._log(level, message, **fields)


class _AgentCallContext:
    def __init__(self, agent: Agent, call: AgentCall) -> None:
        self._agent = agent
        self._call = call

    async def __aenter__(self) -> AgentCall:
        await self._agent._begin(self._call)
        return self._call

    async def __aexit__(self, _type: object, error: Optional[BaseException], _traceback: object) -> None:
        await asyncio.shield(self._agent.client.spawn(self._agent._finish(self._call, error)))


def _join(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
