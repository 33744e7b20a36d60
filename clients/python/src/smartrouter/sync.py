"""The client for programs without an event loop: the same client, on a thread of its own.

Create it after a fork: threads do not survive one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from typing import Any, Coroutine, Dict, Iterator, Optional, Sequence, TypeVar

from . import results
from .calls import Call
from .client import Client
from .results import Allocation
from .settings import Settings
from .waiting import OnWaiting

T = TypeVar("T")


class SyncClient:
    """`Client`, method by method. Any thread may use it. Keyword arguments are those of `Client`.

    Hooks, `on_waiting` and `on_ended` run on the client's own thread. There its methods raise: they would wait for themselves.
    """

    def __init__(self, settings: Optional[Settings] = None, **options: Any) -> None:
        self._lock = threading.Lock()
        self._is_closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="smartrouter", daemon=True)
        self._thread.start()
        try:
            self.client = self._run(_make(settings, options))
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """As `Client.aclose`. Other threads that are in a method get their answer, or RuntimeError."""
        closing = _close(self.client)
        self._check_thread(closing)
        with self._lock:
            is_first = not self._is_closing
            self._is_closing = True  # now nothing new begins
        if is_first:
            try:
                asyncio.run_coroutine_threadsafe(closing, self._loop).result()
            finally:
                self._stop()
        else:
            closing.close()
            self._thread.join()

    def allocate(
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
        asked = (call_sid, merchant_id, provider, flow, template, traceparent, wait, on_waiting)
        return self._run(self.client.allocate(*asked))

    def stop_waiting(self, call_sid: str) -> bool:
        """From another thread, or from `on_waiting`."""
        if threading.current_thread() is self._thread:
            return self.client.stop_waiting(call_sid)
        return self._run(_stop_waiting(self.client, call_sid))

    def release(
        self,
        call_sid: str,
        pod_name: Optional[str] = None,
        reason: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> bool:
        return self._run(self.client.release(call_sid, pod_name, reason, traceparent))

    def handle_status(self, call_sid: str, status: str, pod_name: Optional[str] = None) -> bool:
        return self._run(self.client.handle_status(call_sid, status, pod_name))

    @contextlib.contextmanager
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
    ) -> Iterator[Call]:
        context = self.client.call(
            call_sid, merchant_id, provider, flow, template, traceparent, wait, on_waiting
        )
        call = self._run(context.__aenter__())
        try:
            yield call
        finally:
            self._run(context.__aexit__(None, None, None))

    def renew(self, call_sids: Sequence[str]) -> results.Renewal:
        return self._run(self.client.renew(call_sids))

    def register(
        self, pod_name: str, address: str, incarnation: str, tier: Optional[str] = None
    ) -> results.Registration:
        return self._run(self.client.register(pod_name, address, incarnation, tier))

    def remove(self, pod_name: str) -> None:
        self._run(self.client.remove(pod_name))

    def heartbeat(self, pod_name: str, call_sids: Sequence[str]) -> results.HeartbeatResult:
        return self._run(self.client.heartbeat(pod_name, call_sids))

    def drain(self, pod_name: str, ttl_seconds: Optional[int] = None) -> results.DrainResult:
        return self._run(self.client.drain(pod_name, ttl_seconds))

    def drained(self, pod_name: str, timeout_seconds: int = 0) -> results.DrainedResult:
        return self._run(self.client.drained(pod_name, timeout_seconds))

    def status(self) -> Dict[str, Any]:
        return self._run(self.client.status())

    def health(self) -> bool:
        return self._run(self.client.health())

    @property
    def pending_releases(self) -> int:
        return self.client.pending_releases

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        self._check_thread(work)
        with self._lock:
            if self._is_closing:
                work.close()
                raise RuntimeError("the client is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()  # Ctrl-C: what is under way ends as if its task had been cancelled
            raise

    def _check_thread(self, work: Coroutine[Any, Any, Any]) -> None:
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a method of SyncClient waits for ever in a hook or on_ended: use another thread")

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _make(settings: Optional[Settings], options: Dict[str, Any]) -> Client:
    return Client(settings, **options)


async def _stop_waiting(client: Client, call_sid: str) -> bool:
    return client.stop_waiting(call_sid)


async def _close(client: Client) -> None:
    await client.settle()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:  # other threads wait for them; a cancelled allocation leaves its release
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=client.settings.timeout)
    await client.aclose()
