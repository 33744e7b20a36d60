"""One request to the router and what its answer means. Knows HTTP, and no policy beyond one answer."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any, Callable, Coroutine, Dict, Generic, Mapping, Optional, Tuple, TypeVar

import httpx

from .results import Waiting, read_waiting
from .settings import CONNECTIONS_MAX, Settings

T = TypeVar("T")
ANSWER_MAX = 1 << 20  # more is not an answer of the router

# How an answer ends a try.
DONE = "done"
REFUSED = "refused"  # 4xx
NO_PODS = "no_pods"  # 503 of a router that is well
WAITING = "waiting"  # 202: the call has no pod yet, and waits for one
FAILED = "failed"


@dataclass(frozen=True)
class Operation(Generic[T]):
    """A request, and how to read its answer."""

    name: str
    method: str
    path: str
    read: Callable[[Mapping[str, Any]], T]
    body: Optional[Dict[str, Any]] = None
    tries: int = 1
    timeout: float = 3.0
    done: Tuple[int, ...] = (200,)
    uses_breaker: bool = True
    may_wait: bool = False  #: 202 says that the call waits


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What became of one try."""

    kind: str
    status: int = 0
    error: str = ""
    value: Optional[T] = None
    waiting: Optional[Waiting] = None
    retry_after: Optional[float] = None
    may_be_done: bool = False  #: it failed, and the router may have carried it out nevertheless

    @property
    def has_answered(self) -> bool:
        return self.kind != FAILED

    @property
    def ends_release(self) -> bool:
        """As the answer to a release: it need not be repeated."""
        return self.kind == DONE or (self.kind == REFUSED and self.status != 429)


class Exchange:
    """Sends requests over a pool of connections."""

    def __init__(self, settings: Settings, transport: Optional[httpx.AsyncBaseTransport]) -> None:
        headers = {"Content-Type": "application/json"}
        if settings.api_key:
            headers["Authorization"] = f"Bearer {settings.api_key}"
        # A proxy for the internet, named by HTTP_PROXY, does not lead to a router inside the cluster.
        self._http = httpx.AsyncClient(
            base_url=settings.base_url,
            headers=headers,
            trust_env=False,
            transport=transport,
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
        )

    async def send(self, operation: Operation[T], traceparent: str) -> Answer[T]:
        """Never raises for what the router or the network does."""
        content = None if operation.body is None else json.dumps(operation.body).encode()
        try:
            # httpx limits each step of a request by itself; a router that sends one byte a second passes them all.
            status, headers, text = await _within(operation.timeout, self._fetch(operation, content, traceparent))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Answer(FAILED, error=_say(error))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return Answer(FAILED, error=_say(error), may_be_done=True)
        except asyncio.TimeoutError:
            return Answer(FAILED, error=f"no answer within {operation.timeout:g} s", may_be_done=True)
        except RuntimeError as error:
            if not self.is_closed:
                raise
            return Answer(FAILED, error=_say(error), may_be_done=True)  # closed while it was under way
        return understand(operation, status, headers.get("Retry-After", ""), text)

    @property
    def is_closed(self) -> bool:
        return self._http.is_closed

    async def _fetch(
        self, operation: Operation[T], content: Optional[bytes], traceparent: str
    ) -> Tuple[int, httpx.Headers, bytes]:
        text = b""
        async with self._http.stream(
            operation.method,
            operation.path,
            content=content,
            headers={"traceparent": traceparent},
            timeout=operation.timeout,
        ) as response:
            async for part in response.aiter_bytes():
                text += part
                if len(text) > ANSWER_MAX:
                    raise ValueError(f"an answer of more than {ANSWER_MAX} bytes")
            return response.status_code, response.headers, text

    async def close(self) -> None:
        await self._http.aclose()


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """As asyncio.wait_for, which before Python 3.12 forgets a cancellation that comes together with the result."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to look at it
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        is_late = task.cancel()  # nothing happens to one that has ended
    if is_late:
        await asyncio.wait([task])
        raise asyncio.TimeoutError
    return task.result()


def understand(operation: Operation[T], status: int, retry_after: str, text: bytes) -> Answer[T]:
    """What this answer means."""
    body = _object(text)
    error = str((body or {}).get("error", "")) or f"status {status}"
    after = float(retry_after) if re.fullmatch(r"[0-9]{1,6}", retry_after.strip()) else None
    is_waiting = status == 202 and operation.may_wait
    if is_waiting or status in operation.done:
        try:
            if is_waiting:
                return Answer(WAITING, status, waiting=read_waiting(_need(body)))
            return Answer(DONE, status, value=operation.read(_need(body)))
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            return Answer(FAILED, status, f"an answer without what {operation.name} needs: {_say(wrong)}", may_be_done=True)
    if 400 <= status < 500:
        return Answer(REFUSED, status, error, retry_after=after)
    if status == 503 and body is not None and body.get("code") != "unavailable":
        return Answer(NO_PODS, status, error, retry_after=after)
    return Answer(FAILED, status, error, retry_after=after, may_be_done=True)


def _object(text: bytes) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _need(body: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    if body is None:
        raise ValueError("no JSON object")
    return body


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
