"""What the operations return, and what they raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

#: Outcomes of an allocation.
POD = "pod"  # the call has a pod of the router
FALLBACK = "fallback"  # it has none: the default URL
BUSY = "busy"  # it has none, and there is no fallback: tell the caller that all agents are busy
BYPASS = "bypass"  # the gate keeps it away from the router: the default URL, as before the rollout

#: Reasons beside those of the gate.
NO_PODS = "no_pods"
UNAVAILABLE = "unavailable"
BREAKER_OPEN = "breaker_open"
REFUSED = "refused"
STOPPED = "stopped"


class RouterError(Exception):
    """The router refused a request, or did not answer."""

    def __init__(self, outcome: str, status: int, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome  #: not_found, refused, unavailable, breaker_open
        self.status = status  #: 0: no answer


class RouterRefused(RouterError):
    """An answer 4xx: the same request would be refused again."""


class RouterUnavailable(RouterError):
    """No answer, an answer 5xx, or the breaker is open: try again later."""


@dataclass(frozen=True)
class Allocation:
    """Where a call goes."""

    outcome: str  #: pod, fallback, busy, bypass
    reason: str = ""  #: why not a pod
    pod_name: str = ""
    ws_url: str = ""  #: empty if there is none: the caller is told that all agents are busy
    source_pool: str = ""
    allocated_at: str = ""
    was_existing: bool = False
    waited_seconds: float = 0.0  #: from the request to this answer; 0: it was not to wait
    position: int = 0  #: its last known place in line; 0: it did not stand in line

    @property
    def has_pod(self) -> bool:
        return self.outcome == POD


@dataclass(frozen=True)
class Waiting:
    """What the router says of a call that waits for a pod."""

    position: int  #: 1: it is the next one; 0: the router does not say
    waited_seconds: float
    estimated_wait_seconds: Optional[float] = None  #: None: nothing is known
    retry_after_ms: float = 1000.0


@dataclass(frozen=True)
class Renewal:
    renewed: Tuple[str, ...]
    unknown: Tuple[str, ...]
    ended: Tuple[str, ...]
    conflicts: Tuple[str, ...]


@dataclass(frozen=True)
class HeartbeatResult:
    renewed: Tuple[str, ...]
    adopted: Tuple[str, ...]
    ended: Tuple[str, ...]
    conflicts: Tuple[str, ...]


@dataclass(frozen=True)
class DrainResult:
    pod_name: str
    has_active_call: bool
    message: str


@dataclass(frozen=True)
class DrainedResult:
    is_drained: bool
    is_draining: bool
    calls: Tuple[str, ...]


@dataclass(frozen=True)
class Registration:
    pod_name: str
    tier: str
    is_new: bool
    heartbeat_interval_seconds: float


# From an answer's JSON object. A member that is missing or of another type raises KeyError, TypeError or ValueError.


def read_allocation(body: Mapping[str, Any]) -> Allocation:
    inner = body.get("allocation", body)  # the first router's answer is nested
    return Allocation(
        POD,
        pod_name=_text(inner["pod_name"]),
        ws_url=_text(inner["ws_url"]),
        source_pool=str(inner.get("source_pool", "")),
        allocated_at=str(inner.get("allocated_at", "")),
        was_existing=inner.get("was_existing") is True,
    )


def read_waiting(body: Mapping[str, Any]) -> Waiting:
    """Lenient: a router that says 202 has the call in its line, whatever else it says."""
    estimate = body.get("estimated_wait_seconds")
    return Waiting(
        int(_number(body, "position", 0)),
        _number(body, "waited_seconds", 0),
        _number(body, "estimated_wait_seconds", 0) if estimate is not None else None,
        _number(body, "retry_after_ms", 1000),
    )


def read_renewal(body: Mapping[str, Any]) -> Renewal:
    return Renewal(_names(body, "renewed"), _names(body, "unknown"), _names(body, "ended"), _names(body, "conflicts"))


def read_heartbeat(body: Mapping[str, Any]) -> HeartbeatResult:
    return HeartbeatResult(
        _names(body, "renewed"), _names(body, "adopted"), _names(body, "ended"), _names(body, "conflicts")
    )


def read_drain(body: Mapping[str, Any]) -> DrainResult:
    return DrainResult(str(body.get("pod_name", "")), body.get("has_active_call") is True, str(body.get("message", "")))


def read_drained(body: Mapping[str, Any]) -> DrainedResult:
    return DrainedResult(body["is_drained"] is True, body.get("is_draining") is True, _names(body, "calls"))


def read_registration(body: Mapping[str, Any]) -> Registration:
    interval = float(body["heartbeat_interval_seconds"])
    if not 0 < interval < float("inf"):
        raise ValueError("heartbeat_interval_seconds")
    return Registration(str(body.get("pod_name", "")), str(body.get("tier", "")), body.get("is_new") is True, interval)


def read_object(body: Mapping[str, Any]) -> Dict[str, Any]:
    return dict(body)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("not a text")
    return value


def _number(body: Mapping[str, Any], member: str, default: float) -> float:
    value = body.get(member)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e9 else default


def _names(body: Mapping[str, Any], member: str) -> Tuple[str, ...]:
    values = body.get(member, [])
    if not isinstance(values, list):
        raise TypeError(member)
    return tuple(_text(value) for value in values)
