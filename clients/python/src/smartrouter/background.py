"""What a client does beside the calls of its user: repeats releases, and renews the calls that it keeps.

Everything that is due runs one after the other: a router that comes back is not met by a crowd. The table of behaviours
runs it by hand, with a clock of its own (`run_until`); a program has a task that does the same (`start`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from dataclasses import dataclass, field
from typing import Awaitable, Callable, Dict, List, Optional, Protocol, Tuple

from .settings import PENDING_RELEASES_MAX

RELEASE_WAIT_S = 1.0
RELEASE_WAIT_MAX_S = 30.0
BUSY_BREAKER_WAIT_S = 1.0  # half open, and all its requests are under way


class Clock(Protocol):
    """Time. Tests have one of their own."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class MonotonicClock:
    """The clock of the machine, which no administrator sets back."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class PendingRelease:
    """A release that has not been answered yet."""

    call_sid: str
    pod_name: Optional[str]
    reason: Optional[str]
    due_at: float
    until: float  #: then the lease is over, and with it the call
    tries: int = 0
    is_sent: Optional[asyncio.Future[None]] = field(default=None, repr=False)  #: a request of it is under way


class Background:
    """Holds what is due when. `release` and `renew` do it; neither raises.

    `release` returns whether it is done; None: the breaker let nothing through.
    """

    def __init__(
        self,
        clock: Clock,
        release: Callable[[PendingRelease], Awaitable[Optional[bool]]],
        renew: Callable[[], Awaitable[None]],
        give_up: Callable[[PendingRelease, str], None],
        open_for: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._release = release
        self._renew = renew
        self._give_up = give_up
        self._open_for = open_for
        self._jitter = jitter
        self._pending: Dict[str, PendingRelease] = {}  # by call, the oldest first
        self._heap: List[Tuple[float, int, PendingRelease]] = []  # also entries that do not count any more
        self._numbers = itertools.count()
        self._renew_at: Optional[float] = None
        self._wake: Optional[asyncio.Event] = None
        self._task: Optional[asyncio.Task[None]] = None
        self._is_manual = False
        self._is_closed = False  # no task any more; `close` tries what is pending
        self._is_over = False  # nor that

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, call_sid: str) -> bool:
        return call_sid in self._pending

    def add(
        self,
        call_sid: str,
        pod_name: Optional[str],
        reason: Optional[str],
        until: float,
        wait: Optional[float] = None,
    ) -> bool:
        """Leaves a release to the background. One for a call that is pending changes nothing.

        `wait`: seconds before its first try, if not the usual ones.

        Returns whether one is pending: after `close` it is given up.
        """
        if call_sid in self._pending:
            return True
        if self._is_over:
            self._give_up(PendingRelease(call_sid, pod_name, reason, 0.0, until), "the client is closed")
            return False
        if len(self._pending) >= PENDING_RELEASES_MAX:
            oldest = self._pending.pop(next(iter(self._pending)))
            self._give_up(oldest, f"{PENDING_RELEASES_MAX} releases are pending")
        pending = self._pending[call_sid] = PendingRelease(call_sid, pod_name, reason, 0.0, until)
        self._put_off(pending, self._wait(0) if wait is None else wait)
        self._start()
        return True

    async def cancel(self, call_sid: str) -> bool:
        """Forgets a release. Afterwards no request of it is under way. Returns whether there was one."""
        pending = self._pending.pop(call_sid, None)
        if pending and pending.is_sent:
            await asyncio.wait([pending.is_sent])
        return pending is not None

    def forget(self, call_sid: str) -> None:
        """Forgets a release that somebody else has carried out."""
        self._pending.pop(call_sid, None)

    def renew_at(self, at: Optional[float]) -> None:
        """When to renew next; None: there is nothing to renew."""
        self._renew_at = at
        if at is not None:
            self._start()

    @property
    def is_renewing(self) -> bool:
        return self._renew_at is not None

    def next_due(self) -> Optional[float]:
        """When the next work is due; None: nothing is left."""
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        times = [self._heap[0][0]] if self._heap else []
        return min(times + [self._renew_at] if self._renew_at is not None else times, default=None)

    async def run_until(self, at: float) -> Optional[float]:
        """Does all that is due until then, in order of its time. Returns when the next is due; None: nothing is left."""
        while True:
            due = self.next_due()
            if due is None or due > at:
                return due
            if due == self._renew_at:
                self._renew_at = None
                await self._renew()
            else:
                await self._run_release(heapq.heappop(self._heap)[2])

    def _is_current(self, due_at: float, _number: int, pending: PendingRelease) -> bool:
        return self._pending.get(pending.call_sid) is pending and pending.due_at == due_at

    async def _run_release(self, pending: PendingRelease) -> None:
        if pending.due_at > pending.until:
            del self._pending[pending.call_sid]
            self._give_up(pending, "the lease of the call is over")
            return
        closed_for = self._open_for()
        if closed_for > 0:
            self._put_off(pending, closed_for)
            return
        pending.is_sent = asyncio.get_running_loop().create_future()
        try:
            is_done = await self._release(pending)
        finally:
            pending.is_sent.set_result(None)
            pending.is_sent = None
        if self._pending.get(pending.call_sid) is not pending:
            return  # cancelled meanwhile
        if is_done:
            del self._pending[pending.call_sid]
        elif is_done is None:
            self._put_off(pending, BUSY_BREAKER_WAIT_S)
        else:
            pending.tries += 1
            self._put_off(pending, self._wait(pending.tries))

    def _wait(self, tries: int) -> float:
        return min(RELEASE_WAIT_S * 2.0 ** min(tries, 16), RELEASE_WAIT_MAX_S) * (1 + self._jitter() / 2)

    def _put_off(self, pending: PendingRelease, seconds: float) -> None:
        pending.due_at = self._clock.now() + seconds
        if len(self._heap) > 2 * len(self._pending) + 64:  # mostly releases that others have carried out
            self._heap = [entry for entry in self._heap if self._is_current(*entry)]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (pending.due_at, next(self._numbers), pending))

    def wake(self) -> None:
        """Looks at the clock again: somebody has moved it, or there is new work."""
        if self._wake:
            self._wake.set()

    def _start(self) -> None:
        self.wake()
        if self._is_manual or self._is_closed or (self._task and not self._task.done()):
            return
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._work())

    def run_by_hand(self) -> None:
        """No task: whoever tests calls run_until."""
        self._is_manual = True

    async def _work(self) -> None:
        assert self._wake
        while not self._is_closed:
            due = await self.run_until(self._clock.now())
            if due is None:
                return  # `_start` begins a new task
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), max(0.0, due - self._clock.now()))
            except asyncio.TimeoutError:
                pass

    async def stop(self) -> None:
        """Ends the task. What is pending stays so."""
        self._is_closed = True
        self._renew_at = None
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def close(self, seconds: float) -> None:
        """After `stop`: tries once more, at once, what is pending: until a try fails, or the time is over."""
        until = self._clock.now() + seconds
        while self._pending and self._clock.now() < until:
            pending = next(iter(self._pending.values()))
            if not await self._release(pending):
                break
            self.forget(pending.call_sid)
        self._is_over = True
