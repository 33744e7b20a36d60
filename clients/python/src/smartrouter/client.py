"""The client: allocates pods for calls, keeps them, releases them, and never leaves a caller without an answer.

A client belongs to one event loop. Clients of one process share the breaker of their router.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from dataclasses import replace
from typing import Any, Callable, Coroutine, Dict, Iterator, List, Optional, Sequence, Set, Tuple, TypeVar
from urllib.parse import quote

import httpx

from . import results
from .background import Background, Clock, MonotonicClock, PendingRelease
from .breaker import Breaker
from .calls import Call, CallContext
from .exchange import DONE, FAILED, NO_PODS, REFUSED, WAITING, Answer, Exchange, Operation
from .hooks import TRACEPARENT, Hooks, ReleaseEvent, RequestEvent, new_traceparent
from .providers import default_url, is_terminal
from .results import Allocation, Waiting
from .rollout import YES
from .settings import Settings
from .waiting import Asked, Line, Lines, OnWaiting, Stopped

T = TypeVar("T")
BACKOFF_S = 0.1
RENEW_MAX = 1000  # the router takes no more in one request
UNANSWERED = "allocate_unanswered"
WAIT_OVER = "wait_over"
WAIT_STOPPED = "wait_stopped"
REASONS = {NO_PODS: results.NO_PODS, WAITING: results.NO_PODS, REFUSED: results.REFUSED}  # no pod, by the answer's kind
ANSWERED_MAX = 10000  # calls that are remembered to have a pod; the oldest is forgotten


class Client:
    """Talks to one router."""

    def __init__(
        self,
        settings: Optional[Settings] = None,
        *,
        hooks: Optional[Hooks] = None,
        breaker: Optional[Breaker] = None,
        clock: Optional[Clock] = None,
        jitter: Callable[[], float] = random.random,
        transport: Optional[httpx.AsyncBaseTransport] = None,
    ) -> None:
        self.settings = settings or Settings.from_env()
        self.rollout = self.settings.rollout  #: may be replaced while the program runs
        self.hooks = hooks or Hooks()
        self.breaker = breaker or Breaker.shared(self.settings)
        self.breaker.listeners.append(self._tell_breaker)
        self._clock: Clock = clock or MonotonicClock()
        self._jitter = jitter
        self._exchange = Exchange(self.settings, transport)
        self.background = Background(
            self._clock, self._release_pending, self._renew_kept, self._give_up, lambda: self.breaker.open_for, jitter
        )
        self._kept: Dict[str, List[Call]] = {}  # mostly one; a program may begin a call twice
        self._answered: Dict[str, None] = {}  # calls that have got a pod and are not released, the oldest first
        self.live_checks: List[Callable[[str], bool]] = []  #: of agents: whether they have this call
        self._lines = Lines(self._clock, self.breaker, jitter)
        self._tasks: Set[asyncio.Task[Any]] = set()
        self._under_way: Set[asyncio.Future[None]] = set()
        self._is_closing = False

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Waits for what is under way. Releases that are pending are tried once more, while the router answers."""
        await self.settle()
        await self.background.close(self.settings.timeout)
        if self.pending_releases:
            self._log(
                logging.WARNING,
                "closed with releases that the router has not answered; these calls end with their leases",
                pending=self.pending_releases,
            )
        with contextlib.suppress(ValueError):
            self.breaker.listeners.remove(self._tell_breaker)
        await self._exchange.close()

    async def settle(self) -> None:
        """The first half of `aclose`: waits for what is under way, at most twice the timeout. Nothing is tried again."""
        self._is_closing = True
        self._lines.stop_all()
        await self.background.stop()
        until = time.monotonic() + 2 * self.settings.timeout
        while (self._tasks or self._under_way) and time.monotonic() < until:
            busy: Set[asyncio.Future[Any]] = {*self._tasks, *self._under_way}
            await asyncio.wait(busy, timeout=until - time.monotonic())
        late = list(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=self.settings.timeout)

    @contextlib.contextmanager
    def _is_under_way(self) -> Iterator[None]:
        """`settle` waits for this block."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(done)
        try:
            yield
        finally:
            self._under_way.discard(done)
            done.set_result(None)

    @property
    def pending_releases(self) -> int:
        """How many releases are left to the background."""
        return len(self.background)

    # Calls.

    async def allocate(
        self,
        call_sid: str,
        merchant_id: Optional[str] = None,
        provider: Optional[str] = None,
        flow: Optional[str] = None,
        template: Optional[str] = None,
        traceparent: Optional[str] = None,
        wait: float = 0.0,
        on_waiting: Optional[OnWaiting] = None,
    ) -> Allocation:
        """Where this call goes. Raises nothing, whatever the router does; the outcome says what it is.

        Asking again for the same call gives the same pod. Release a call that has a pod when it is over.

        `wait`: if no pod is free, the call waits for one, at most so many seconds, where the router lets calls wait.
        `on_waiting` is called, or awaited, each time the router says how the call stands. The wait ends early if the
        task is cancelled, or by `stop_waiting` or `release`: then the call leaves the line.
        """
        if not call_sid:
            raise ValueError("call_sid is empty")
        started = time.monotonic()
        url = default_url(self.settings.voice_agent_base_url, provider, flow, template)
        decision = self.rollout.decide(merchant_id or "")
        if decision == YES:
            asked = {"merchant_id": merchant_id, "provider": provider, "flow": flow, "template": template}
            body = {"call_sid": call_sid, **{name: value for name, value in asked.items() if value}}
            allocation = await self._allocate(call_sid, body, url, traceparent, wait, on_waiting)
        else:
            allocation = Allocation(results.BYPASS, decision, ws_url=url)
        self._hook(self.hooks.allocation, call_sid, allocation, time.monotonic() - started)
        return allocation

    async def _allocate(
        self,
        call_sid: str,
        body: Dict[str, Any],
        url: str,
        traceparent: Optional[str],
        wait: float,
        on_waiting: Optional[OnWaiting],
    ) -> Allocation:
        was_pending = call_sid in self.background
        line = self._line(call_sid, body, self._trace(traceparent), wait, on_waiting)
        try:
            with self._is_under_way(), self._lines.has(call_sid, line):
                await self.background.cancel(call_sid)
                answer, is_uncertain = await line.stand()
        except asyncio.CancelledError:
            # The request may have been carried out, and nobody will be there to release the call.
            self._release_unanswered(call_sid, was_pending)
            raise
        except Stopped:
            await self._leave_line(call_sid, WAIT_STOPPED, was_pending)
            return self._without_pod(call_sid, line, url, results.STOPPED, "somebody has stopped its wait")
        if answer and answer.kind == DONE and answer.value:
            self._remember_answered(call_sid)
            return replace(answer.value, waited_seconds=line.waited, position=line.position)
        if answer and answer.kind == REFUSED and answer.status == 409 and line.has_stood:
            return self._without_pod(call_sid, line, url, results.STOPPED, answer.error)
        if answer and answer.kind == NO_PODS:
            self._answered.pop(call_sid, None)
        elif answer and answer.kind == WAITING:
            await self._leave_line(call_sid, WAIT_OVER, was_pending)
        elif is_uncertain or was_pending or line.has_stood:
            self._release_unanswered(call_sid, was_pending)
        if answer is None:
            reason = results.UNAVAILABLE if line.has_stood else results.BREAKER_OPEN
            return self._without_pod(call_sid, line, url, reason, "the breaker is open")
        return self._without_pod(call_sid, line, url, REASONS.get(answer.kind, results.UNAVAILABLE), answer.error)

    def _without_pod(self, call_sid: str, line: Line, url: str, reason: str, error: str) -> Allocation:
        has_fallback = self.settings.enable_fallback and bool(url)
        outcome = results.FALLBACK if has_fallback else results.BUSY
        level = logging.INFO if reason in (results.NO_PODS, results.STOPPED) else logging.WARNING
        self._log(level, f"no pod for a call, it gets {outcome}", call_sid=call_sid, reason=reason, error=error)
        url = url if has_fallback else ""
        return Allocation(outcome, reason, ws_url=url, waited_seconds=line.waited, position=line.position)

    # Calls that wait.

    def stop_waiting(self, call_sid: str) -> bool:
        """The `allocate` that waits with this call ends, soon, with the reason `stopped`. False: none waits."""
        return self._lines.stop(call_sid)

    def _line(
        self, call_sid: str, body: Dict[str, Any], trace: str, wait: float, on_waiting: Optional[OnWaiting]
    ) -> Line:
        async def ask(wait_ms: int, is_first: bool) -> Asked:
            asked: Dict[str, Any] = {**body, "wait": True} if wait > 0 else {**body}
            if wait_ms:
                asked["wait_ms"] = wait_ms
            timeout = self.settings.timeout + wait_ms / 1000
            read = results.read_allocation
            operation = self._operation("allocate", "POST", "/api/v1/allocate", read, asked, is_first, timeout)
            answer, is_uncertain = await self._ask(replace(operation, may_wait=True), trace)
            if answer and answer.kind == WAITING:
                self._answered.pop(call_sid, None)  # if it had a pod once, it has none now
            return answer, is_uncertain

        def tell(waiting: Waiting) -> None:
            self.spawn_callback(on_waiting, call_sid, "on_waiting", waiting)

        return Line(self._lines, wait, ask, tell)

    async def _leave_line(self, call_sid: str, reason: str, was_pending: bool) -> None:
        """The next one in line must not wait for a call that does not want its pod any more."""
        if was_pending or not self._is_live(call_sid):
            await self._release(call_sid, None, reason, None)

    async def release(
        self,
        call_sid: str,
        pod_name: Optional[str] = None,
        reason: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> bool:
        """The call is over. True: the router knows. False: it did not answer; the background repeats it.

        Call it as often and from as many places as you like. An agent names its own pod.
        """
        if not call_sid:
            raise ValueError("call_sid is empty")
        self.stop_waiting(call_sid)
        return await self._release(call_sid, pod_name, reason, traceparent)

    async def _release(
        self, call_sid: str, pod_name: Optional[str], reason: Optional[str], traceparent: Optional[str]
    ) -> bool:
        self._answered.pop(call_sid, None)
        try:
            answer, _ = await self._ask(self._release_operation(call_sid, pod_name, reason), traceparent)
        except asyncio.CancelledError:
            self._release_later(call_sid, pod_name, reason)
            raise
        if answer and answer.ends_release:
            self.background.forget(call_sid)
            self._tell_release(call_sid, reason, answer, 1)
            return True
        self._release_later(call_sid, pod_name, reason)
        return False

    async def handle_status(self, call_sid: str, status: str, pod_name: Optional[str] = None) -> bool:
        """A provider's status callback: releases the call if the status is its end. True: it is."""
        if not is_terminal(status):
            return False
        await self.release(call_sid, pod_name, "status_callback")
        return True

    def call(
        self,
        call_sid: str,
        merchant_id: Optional[str] = None,
        provider: Optional[str] = None,
        flow: Optional[str] = None,
        template: Optional[str] = None,
        traceparent: Optional[str] = None,
        wait: float = 0.0,
        on_waiting: Optional[OnWaiting] = None,
    ) -> CallContext:
        """`async with client.call(…) as call:` allocates, renews while the block runs, and releases whatever happens."""
        asked = (call_sid, merchant_id, provider, flow, template, traceparent, wait, on_waiting)
        return CallContext(self, call_sid, lambda: self.allocate(*asked))

    async def renew(self, call_sids: Sequence[str]) -> results.Renewal:
        """These calls are alive. At most 1,000. RouterRefused: there was one call, and it is unknown or has ended."""
        body = {"call_sids": list(call_sids)}
        renewal = await self._need(self._operation("renew", "POST", "/api/v1/renew", results.read_renewal, body))
        self._forget_answered(renewal.ended)
        return renewal

    # Pods.

    async def register(
        self, pod_name: str, address: str, incarnation: str, tier: Optional[str] = None
    ) -> results.Registration:
        """This pod takes calls at this address, `host:port`."""
        body = {"pod_name": pod_name, "address": address, "incarnation": incarnation}
        if tier:
            body["tier"] = tier
        read = results.read_registration
        return await self._need(self._operation("register", "POST", "/api/v1/pods", read, body, True))

    async def remove(self, pod_name: str) -> None:
        """This pod takes no calls any more, and its calls end."""
        operation = self._operation("remove", "DELETE", _pod_path(pod_name), results.read_object, None, True)
        try:
            await self._need(operation)
        except results.RouterRefused as error:
            if error.status != 404:
                raise

    async def heartbeat(self, pod_name: str, call_sids: Sequence[str]) -> results.HeartbeatResult:
        """This pod is alive and has these calls: all of them, at most 1,000."""
        body = {"call_sids": list(call_sids)}
        path = _pod_path(pod_name) + "/heartbeat"
        result = await self._need(self._operation("heartbeat", "POST", path, results.read_heartbeat, body))
        self._forget_answered(result.ended)
        return result

    async def drain(self, pod_name: str, ttl_seconds: Optional[int] = None) -> results.DrainResult:
        """This pod gets no new calls."""
        body: Dict[str, Any] = {"pod_name": pod_name}
        if ttl_seconds is not None:
            body["ttl_seconds"] = ttl_seconds
        return await self._need(self._operation("drain", "POST", "/api/v1/drain", results.read_drain, body, True))

    async def drained(self, pod_name: str, timeout_seconds: int = 0) -> results.DrainedResult:
        """Waits until a draining pod has no call, at most this long (60 s)."""
        path = f"{_pod_path(pod_name)}/drained?timeout_seconds={timeout_seconds}"
        timeout = self.settings.timeout + timeout_seconds
        operation = self._operation("drained", "GET", path, results.read_drained, None, True, timeout, (200, 202))
        return await self._need(operation)

    # The router.

    async def status(self) -> Dict[str, Any]:
        """Pools, tiers, calls: as the router says it."""
        return await self._need(self._operation("status", "GET", "/api/v1/status", results.read_object, None, True))

    async def health(self) -> bool:
        """Whether the router answers now. Neither asks nor tells the breaker."""
        operation = Operation(
            "health", "GET", "/health", results.read_object, timeout=self.settings.timeout, uses_breaker=False
        )
        answer, _ = await self._ask(operation, None)
        return bool(answer and answer.kind == DONE)

    # Tries.

    def _operation(
        self,
        name: str,
        method: str,
        path: str,
        read: Callable[..., T],
        body: Optional[Dict[str, Any]] = None,
        is_repeated: bool = False,
        timeout: Optional[float] = None,
        done: Tuple[int, ...] = (200,),
    ) -> Operation[T]:
        tries = self.settings.retry_attempts if is_repeated else 1
        return Operation(name, method, path, read, body, tries, timeout or self.settings.timeout, done)

    def _release_operation(
        self, call_sid: str, pod_name: Optional[str], reason: Optional[str]
    ) -> Operation[Dict[str, Any]]:
        body = {"call_sid": call_sid}
        if pod_name:
            body["pod_name"] = pod_name
        if reason:
            body["reason"] = reason
        return self._operation("release", "POST", "/api/v1/release", results.read_object, body)

    async def _need(self, operation: Operation[T]) -> T:
        """The value of the answer, or an exception that says why there is none."""
        answer, _ = await self._ask(operation, None)
        if answer and answer.kind == DONE and answer.value is not None:
            return answer.value
        if answer is None:
            raise results.RouterUnavailable(results.BREAKER_OPEN, 0, f"{operation.name}: the breaker is open")
        message = f"{operation.name}: {answer.error}"
        if answer.kind == REFUSED:
            outcome = "not_found" if answer.status == 404 else "refused"
            raise results.RouterRefused(outcome, answer.status, message)
        raise results.RouterUnavailable(results.UNAVAILABLE, answer.status, message)

    async def _ask(self, operation: Operation[T], traceparent: Optional[str]) -> Tuple[Optional[Answer[T]], bool]:
        """The last answer, and whether an unanswered try may have been carried out. No answer: no request has left."""
        if self._exchange.is_closed:
            return Answer(FAILED, error="the client is closed"), False
        with self._is_under_way():
            return await self._try(operation, traceparent)

    async def _try(self, operation: Operation[T], traceparent: Optional[str]) -> Tuple[Optional[Answer[T]], bool]:
        trace = self._trace(traceparent)
        answer: Optional[Answer[T]] = None
        is_uncertain = False
        for number in range(1, operation.tries + 1):
            if self._is_closing and number > 1:
                break
            permit = self.breaker.enter() if operation.uses_breaker else 0
            if permit is None:
                break
            answer = await self._send(operation, permit, number, trace)
            # "No pods" also says that no earlier try was carried out: the call would have had its pod.
            is_uncertain = answer.kind != NO_PODS and (is_uncertain or answer.may_be_done)
            wait = self._wait_after(answer, number)
            if wait is None or number == operation.tries or (operation.uses_breaker and self.breaker.open_for > 0):
                break
            await self._clock.sleep(wait)
        return answer, is_uncertain

    async def _send(self, operation: Operation[T], permit: int, number: int, trace: str) -> Answer[T]:
        started = time.monotonic()
        has_answered: Optional[bool] = None
        try:
            answer = await self._exchange.send(operation, trace)
            if answer.has_answered or not self._exchange.is_closed:  # other clients may share the breaker
                has_answered = answer.has_answered
        finally:
            if operation.uses_breaker:
                self.breaker.leave(permit, has_answered)
        seconds = time.monotonic() - started
        path = operation.path.partition("?")[0]
        error = "" if answer.kind == DONE else answer.error
        event = RequestEvent(operation.name, operation.method, path, number, answer.status, error, seconds, trace)
        self._hook(self.hooks.request, event)
        return answer

    def _wait_after(self, answer: Answer[T], number: int) -> Optional[float]:
        """Seconds until the next try; None: there is none."""
        if answer.kind == DONE:
            return None
        after = 0.0
        if answer.status in (429, 503):
            if answer.retry_after is None or answer.retry_after > self.settings.timeout:
                return None
            after = answer.retry_after
        elif answer.kind != FAILED:
            return None
        return max(BACKOFF_S * 2.0 ** (number - 1), after) * (1 + self._jitter() / 2)

    def _trace(self, traceparent: Optional[str]) -> str:
        if traceparent and TRACEPARENT.fullmatch(traceparent):
            return traceparent
        trace = self._hook(self.hooks.traceparent)
        return trace if trace and TRACEPARENT.fullmatch(trace) else new_traceparent()

    # The background.

    def _release_later(
        self, call_sid: str, pod_name: Optional[str], reason: Optional[str], wait: Optional[float] = None
    ) -> None:
        until = self._clock.now() + self.settings.lease_seconds
        if self.background.add(call_sid, pod_name, reason, until, wait):
            self._hook(self.hooks.release, ReleaseEvent(call_sid, reason or "", "pending", 0))

    def _release_unanswered(self, call_sid: str, was_pending: bool) -> None:
        """The router may have given this call a pod. One that had its pod before is alive: its end releases it."""
        if was_pending or not self._is_live(call_sid):
            self._release_later(call_sid, None, UNANSWERED)

    def _is_live(self, call_sid: str) -> bool:
        """This client has the call, or wants it: somebody else's end of an allocation does not release it."""
        is_ours = call_sid in self._kept or call_sid in self._answered or call_sid in self._lines
        return is_ours or any(has(call_sid) for has in self.live_checks)

    def _remember_answered(self, call_sid: str) -> None:
        self._answered.pop(call_sid, None)
        if len(self._answered) >= ANSWERED_MAX:
            del self._answered[next(iter(self._answered))]
        self._answered[call_sid] = None

    def _forget_answered(self, call_sids: Sequence[str]) -> None:
        for call_sid in call_sids:
            self._answered.pop(call_sid, None)

    async def _release_pending(self, pending: PendingRelease) -> Optional[bool]:
        operation = self._release_operation(pending.call_sid, pending.pod_name, pending.reason)
        answer, _ = await self._ask(operation, None)
        if answer is None:
            return None
        if not answer.ends_release:
            return False
        self._tell_release(pending.call_sid, pending.reason, answer, pending.tries + 2)
        return True

    def _give_up(self, pending: PendingRelease, why: str) -> None:
        self._log(
            logging.ERROR, f"a release is given up: {why}; the call ends with its lease", call_sid=pending.call_sid
        )
        self._hook(
            self.hooks.release, ReleaseEvent(pending.call_sid, pending.reason or "", "given_up", pending.tries + 1)
        )

    def _tell_release(self, call_sid: str, reason: Optional[str], answer: Answer[Any], tries: int) -> None:
        if answer.kind == REFUSED and answer.status != 404:
            self._log(
                logging.ERROR,
                "the router refuses a release; check the key",
                call_sid=call_sid,
                status=answer.status,
                error=answer.error,
            )
        self._hook(self.hooks.release, ReleaseEvent(call_sid, reason or "", "done", tries))

    def _keep(self, call: Call) -> None:
        self._kept.setdefault(call.call_sid, []).append(call)
        if not self.background.is_renewing:
            self.background.renew_at(self._clock.now() + self.settings.heartbeat_interval)

    async def _renew_kept(self) -> None:
        started = self._clock.now()
        sids = list(self._kept)
        for first in range(0, len(sids), RENEW_MAX):
            try:
                renewal = await self.renew(sids[first : first + RENEW_MAX])
            except results.RouterError as error:
                # Also 404 and 409 of a single call: it may be adopted by its pod's heartbeat, or is released at its end.
                self._log(logging.WARNING, "calls are not renewed; the next time is soon", error=str(error))
                continue
            for call_sid in renewal.ended + renewal.conflicts:
                self._end(call_sid)
        self.background.renew_at(started + self.settings.heartbeat_interval if self._kept else None)

    def _end(self, call_sid: str) -> None:
        """The router has ended a call that we keep."""
        for call in self._kept.pop(call_sid, []):
            call.has_ended = True
            self.spawn_callback(call.on_ended, call_sid)

    def spawn_callback(
        self, callback: Optional[Callable[..., Any]], call_sid: str, name: str = "on_ended", *arguments: object
    ) -> None:
        """Runs what a user wants to happen to a call; it may be a coroutine function."""
        if callback is None:
            return
        try:
            result = callback(*arguments)
        except Exception as error:
            self._log(logging.ERROR, f"{name} has raised {error!r}", call_sid=call_sid)
            return
        if asyncio.iscoroutine(result):
            self.spawn(self._wait_callback(result, call_sid, name))

    async def _wait_callback(self, work: Coroutine[Any, Any, Any], call_sid: str, name: str) -> None:
        try:
            await work
        except Exception as error:
            self._log(logging.ERROR, f"{name} has raised {error!r}", call_sid=call_sid)

    async def _finish(self, call: Call) -> Optional[bool]:
        """Ends what `_keep` began. None: there was nothing to release, or a second block keeps the call."""
        if not call.has_pod or call.has_ended:
            return None
        calls = self._kept[call.call_sid]
        calls.remove(call)
        if calls:
            return None
        del self._kept[call.call_sid]
        if not self._kept:
            self.background.renew_at(None)
        return await self.release(call.call_sid, call.pod_name, "call_ended")

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that `aclose` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Hooks.

    def _hook(self, hook: Callable[..., T], *arguments: Any) -> Optional[T]:
        try:
            return hook(*arguments)
        except Exception:
            logging.getLogger("smartrouter").exception("a hook has raised")
            return None

    def _log(self, level: int, message: str, **fields: object) -> None:
        self._hook(self.hooks.log, level, message, fields)

    def _tell_breaker(self, old: str, new: str) -> None:
        level = logging.WARNING if new == "open" else logging.INFO
        self._log(level, f"the breaker is {new.replace('_', ' ')}", before=old)
        self._hook(self.hooks.breaker, old, new)


def _pod_path(pod_name: str) -> str:
    return f"/api/v1/pod/{quote(pod_name, safe='')}"
