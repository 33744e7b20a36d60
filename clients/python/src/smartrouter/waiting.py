"""A call in line: asks until it has a pod, its time is over, or somebody stops it.

The rules are those of clients/behaviours/README.md. A line does no I/O of its own: the client asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Awaitable, Callable, Coroutine, Dict, Iterator, List, Optional, Set, Tuple, TypeVar, Union

from .background import Clock
from .breaker import CLOSED, Breaker
from .exchange import FAILED, WAITING, Answer
from .results import Allocation, Waiting
from .settings import CONNECTIONS_MAX

T = TypeVar("T")
# Together with the usual timeout this is less than the silence after which the router gives a place away (15 s): a call
# whose router has vanished asks another one in time.
ASK_MS = 10_000
PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 5.0
FAILED_PAUSE_S = 0.1  # it doubles
FAILED_PAUSE_MAX_S = 1.0
OPEN_ASKS_MAX = CONNECTIONS_MAX // 2  # requests that stay open; heartbeats and releases need connections, too

OnWaiting = Callable[[Waiting], Union[None, Awaitable[object]]]
Asked = Tuple[Optional[Answer[Allocation]], bool]


class Stopped(Exception):
    """Somebody has stopped the wait."""


class Line:
    """One allocation that may wait. `ask(wait_ms, is_first)` asks the router; `tell` hears how the call stands."""

    def __init__(
        self,
        lines: Lines,
        wait: float,
        ask: Callable[[int, bool], Coroutine[Any, Any, Asked]],
        tell: Callable[[Waiting], object],
    ) -> None:
        self._lines = lines
        self._clock = lines.clock
        self._ask = ask
        self._tell = tell
        self._began = self._clock.now()
        self._until = self._began + max(wait, 0.0)
        self._stop: Optional[asyncio.Future[None]] = asyncio.get_running_loop().create_future() if wait > 0 else None
        self.has_stood = False  #: the router has said that the call waits
        self.position = 0  #: the last one that the router has named

    @property
    def waited(self) -> float:
        """Seconds since the allocation was asked for; 0: it did not want to wait."""
        return self._clock.now() - self._began if self._stop else 0.0

    def stop(self) -> bool:
        """Ends `stand` with Stopped, soon. False: it does not wait."""
        if self._stop and not self._stop.done():
            self._stop.set_result(None)
        return self._stop is not None

    async def stand(self) -> Asked:
        """The last answer, as `ask` gives it. It is WAITING if the time was over first."""
        failures = 0
        wait_ms = 0
        asked_at = self._clock.now()
        answer, is_uncertain = await self._unless_stopped(self._ask(0, True))
        while True:
            if answer and answer.kind == WAITING:
                failures = 0
                self._note(answer.waiting)
                pause = self._pause(answer.waiting, wait_ms, self._clock.now() - asked_at)
            elif self.has_stood and _is_passing(answer):
                failures += 1
                pause = self._lines.pause_after(failures, answer)
                if pause >= self._left():
                    break  # nothing can be asked any more in this time
            else:
                break
            if pause > 0:
                await self._unless_stopped(self._clock.sleep(min(pause, self._left())))
            if self._left_ms() <= 0:
                break
            # Short after a failure: the answer comes at once, and the breaker learns of it.
            wait_ms = min(self._left_ms(), ASK_MS) if failures == 0 and self._lines.may_stay else 0
            asked_at = self._clock.now()
            with self._lines.open_ask(wait_ms > 0):
                answer, is_uncertain = await self._unless_stopped(self._ask(wait_ms, False))
        return answer, is_uncertain

    def _note(self, waiting: Optional[Waiting]) -> None:
        self.has_stood = True
        if waiting and self._stop:
            self.position = waiting.position
            self._tell(waiting)

    def _pause(self, waiting: Optional[Waiting], wait_ms: int, seconds: float) -> float:
        """Before the next request. None if this one stayed open, or was the first and the next one stays open."""
        is_early = seconds * 1000 < wait_ms / 2 if wait_ms else not self._lines.may_stay
        if not is_early or waiting is None:
            return 0.0
        return min(max(waiting.retry_after_ms / 1000, PAUSE_MIN_S), PAUSE_MAX_S)

    def _left(self) -> float:
        return self._until - self._clock.now()

    def _left_ms(self) -> int:
        return round(self._left() * 1000)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        if self._stop is None:
            return await work
        if self._stop.done():
            work.close()
            raise Stopped
        task: asyncio.Future[T] = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to look at it
        try:
            both: Set[asyncio.Future[Any]] = {task, self._stop}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()  # nothing happens to one that has ended
        if self._stop.done():
            await asyncio.wait([task])
            raise Stopped
        return task.result()


class Lines:
    """The calls of a client that wait now."""

    def __init__(self, clock: Clock, breaker: Breaker, jitter: Callable[[], float]) -> None:
        self.clock = clock
        self._breaker = breaker
        self._jitter = jitter
        self._lines: Dict[str, List[Line]] = {}  # by call; mostly one each
        self._open_asks = 0

    def __contains__(self, call_sid: str) -> bool:
        return call_sid in self._lines

    @contextlib.contextmanager
    def has(self, call_sid: str, line: Line) -> Iterator[None]:
        """`stop` finds the line during this block."""
        self._lines.setdefault(call_sid, []).append(line)
        try:
            yield
        finally:
            self._lines[call_sid].remove(line)
            if not self._lines[call_sid]:
                del self._lines[call_sid]

    def stop(self, call_sid: str) -> bool:
        return any([line.stop() for line in self._lines.get(call_sid, [])])

    def stop_all(self) -> None:
        for call_sid in self._lines:
            self.stop(call_sid)

    @property
    def may_stay(self) -> bool:
        """Whether a request may stay open. A breaker that is half open would be held up by it."""
        return self._open_asks < OPEN_ASKS_MAX and self._breaker.state == CLOSED

    @contextlib.contextmanager
    def open_ask(self, stays: bool) -> Iterator[None]:
        self._open_asks += stays
        try:
            yield
        finally:
            self._open_asks -= stays

    def pause_after(self, failures: int, answer: Optional[Answer[Allocation]]) -> float:
        """Seconds before the next request, after so many failures in a row."""
        after = answer.retry_after if answer and answer.status in (429, 503) else None
        pause = min(FAILED_PAUSE_S * 2.0 ** min(failures - 1, 16), FAILED_PAUSE_MAX_S)
        return max(max(pause, after or 0.0) * (1 + self._jitter() / 2), self._breaker.open_for)


def _is_passing(answer: Optional[Answer[Allocation]]) -> bool:
    """Whether the same request may be answered soon. No answer: the breaker let nothing through."""
    return answer is None or answer.kind == FAILED or answer.status == 429
