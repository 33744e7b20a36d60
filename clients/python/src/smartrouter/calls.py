"""A call from its allocation to its release: `async with client.call(…) as call`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Awaitable, Callable, Optional, Union

from .results import Allocation

if TYPE_CHECKING:
    from .client import Client


class Call:
    """A call that the client keeps: `async with client.call(…) as call`."""

    def __init__(self, call_sid: str, allocation: Allocation) -> None:
        self.call_sid = call_sid
        self.allocation = allocation
        self.has_ended = False  #: the router has ended it, or given it to another pod
        self.on_ended: Optional[Callable[[], Union[None, Awaitable[object]]]] = None

    @property
    def has_pod(self) -> bool:
        return self.allocation.has_pod

    @property
    def outcome(self) -> str:
        return self.allocation.outcome

    @property
    def pod_name(self) -> str:
        return self.allocation.pod_name

    @property
    def ws_url(self) -> str:
        return self.allocation.ws_url


class CallContext:
    """Allocates, keeps and releases. Cancelling the block cancels neither."""

    def __init__(self, client: Client, call_sid: str, allocate: Callable[[], Awaitable[Allocation]]) -> None:
        self._client = client
        self._call_sid = call_sid
        self._allocate = allocate
        self._call: Optional[Call] = None

    async def __aenter__(self) -> Call:
        self._call = Call(self._call_sid, await self._allocate())
        if self._call.has_pod:
            self._client._keep(self._call)
        return self._call

    async def __aexit__(self, *_: object) -> None:
        if self._call:
            # A second cancellation must not leave the pod with a dead call: the release goes on by itself.
            await asyncio.shield(self._client.spawn(self._client._finish(self._call)))
