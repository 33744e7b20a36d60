"""What a program can watch: requests, the breaker, allocations, releases, log lines, traces.

Override the methods that you need and give the object to the client. They run on the client's event loop, must not
block, and must not raise: an exception of a hook is logged and goes no further.
"""

from __future__ import annotations

import logging
import re
import secrets
from dataclasses import dataclass
from typing import Mapping, Optional

from .results import Allocation

LOGGER = logging.getLogger("smartrouter")
TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True)
class RequestEvent:
    """One request that has left, and what became of it."""

    operation: str  #: allocate, release, renew, heartbeat, …
    method: str
    path: str
    number: int  #: of the try, from 1
    status: int  #: 0: no answer
    error: str  #: why it failed, or empty
    seconds: float
    traceparent: str


@dataclass(frozen=True)
class ReleaseEvent:
    """A release that is done, left to the background, or given up."""

    call_sid: str
    reason: str
    outcome: str  #: done, pending, given_up
    tries: int


class Hooks:
    """Does nothing but log, to the logger `smartrouter`."""

    def request(self, event: RequestEvent) -> None:
        """After each request."""

    def breaker(self, old: str, new: str) -> None:
        """After each change of the breaker's state."""

    def allocation(self, call_sid: str, allocation: Allocation, seconds: float) -> None:
        """After each allocation, whatever its outcome."""

    def release(self, event: ReleaseEvent) -> None:
        """After each release."""

    def traceparent(self) -> Optional[str]:
        """The trace of the current task (W3C Trace Context), if there is one. Otherwise the client begins a new one."""
        return None

    def log(self, level: int, message: str, fields: Mapping[str, object]) -> None:
        """Each log line of the client. Fields have no secret."""
        LOGGER.log(level, "%s%s", message, "".join(f" {name}={value}" for name, value in fields.items()))


def new_traceparent() -> str:
    """A trace that begins here."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
