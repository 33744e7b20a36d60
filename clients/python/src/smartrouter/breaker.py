"""The circuit breaker: keeps requests from a router that does not answer.

closed:    requests leave; `failure_threshold` failures in a row open it.
open:      no request leaves; after `recovery_timeout` seconds it is half open.
half open: `half_open_max_calls` requests may leave; that many successes close it, one failure opens it again.

One breaker serves all users of one router in a process (`Breaker.shared`), on any thread. It does no I/O.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, ClassVar, Dict, List, Optional

from .settings import Settings

CLOSED = "closed"
OPEN = "open"
HALF_OPEN = "half_open"


class Breaker:
    """Ask `enter` before a request, and tell `leave` its result."""

    _shared: ClassVar[Dict[str, Breaker]] = {}
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        failure_threshold: int = 5,
        recovery_timeout: float = 30.0,
        half_open_max_calls: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failure_threshold = failure_threshold
        self._recovery_timeout = recovery_timeout
        self._half_open_max_calls = half_open_max_calls
        self._clock = clock
        self._lock = threading.Lock()
        self._state = CLOSED
        self._turn = 0  # counts the changes of state: a result of an earlier one says nothing about this one
        self._failures = 0
        self._open_until = 0.0
        self._half_open_left = 0
        self._successes = 0
        self.listeners: List[Callable[[str, str], None]] = []

    @classmethod
    def shared(cls, settings: Settings) -> Breaker:
        """The breaker of this process for this router. The numbers are those of the first user."""
        with cls._shared_lock:
            breaker = cls._shared.get(settings.base_url)
            if breaker is None:
                breaker = cls._shared[settings.base_url] = cls.of(settings)
            return breaker

    @classmethod
    def of(cls, settings: Settings, clock: Callable[[], float] = time.monotonic) -> Breaker:
        """A new breaker with these numbers."""
        return cls(settings.failure_threshold, settings.recovery_timeout, settings.half_open_max_calls, clock)

    @property
    def state(self) -> str:
        with self._lock:
            return HALF_OPEN if self._is_over() else self._state

    @property
    def open_for(self) -> float:
        """Seconds until a request may leave again; 0: at once."""
        with self._lock:
            return max(0.0, self._open_until - self._clock()) if self._state == OPEN else 0.0

    def enter(self) -> Optional[int]:
        """A permit for one request, to be given back to `leave`; None: no request may leave."""
        old = new = self._state
        try:
            with self._lock:
                old = self._state
                if self._is_over():
                    self._change(HALF_OPEN)
                new = self._state
                if new == OPEN:
                    return None
                if new == HALF_OPEN:
                    if self._half_open_left == 0:
                        return None
                    self._half_open_left -= 1
                return self._turn
        finally:
            self._tell(old, new)

    def leave(self, permit: int, is_success: Optional[bool]) -> None:
        """The request of this permit has ended. None: without a result, because it was cancelled."""
        with self._lock:
            old = self._state
            if permit == self._turn:
                self._count(is_success)
            new = self._state
        self._tell(old, new)

    def _count(self, is_success: Optional[bool]) -> None:
        if is_success is None:
            if self._state == HALF_OPEN:
                self._half_open_left += 1
        elif self._state == HALF_OPEN:
            self._successes += is_success
            if not is_success:
                self._change(OPEN)
            elif self._successes >= self._half_open_max_calls:
                self._change(CLOSED)
        else:
            self._failures = 0 if is_success else self._failures + 1
            if self._failures >= self._failure_threshold:
                self._change(OPEN)

    def _is_over(self) -> bool:
        return self._state == OPEN and self._clock() >= self._open_until

    def _change(self, state: str) -> None:
        self._state = state
        self._turn += 1
        self._failures = self._successes = 0
        self._half_open_left = self._half_open_max_calls
        if state == OPEN:
            self._open_until = self._clock() + self._recovery_timeout

    def _tell(self, old: str, new: str) -> None:
        if old != new:
            for listener in list(self.listeners):
                listener(old, new)
