"""The pods of one namespace behind a ScriptedKube: lists, watches, and GETs of single pods that the test may hold up.

    with ScriptedPods() as kube:
        kube.put("agent-0")
        router = start_router({**ENV, **kube.where})
        kube.hide("agent-0")  # its label is taken off: the watch tells DELETED, but a GET finds it

`before_get`, `before_list` and `before_watch` are called with the Exchange (and the name, for a GET). What they return is
done in place of the answer, if it is a step.
"""

import copy
import itertools
import json
import threading
import time

import scripted_kube

NAMESPACE = "default"
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


def pod_object(name, uid, restarts=0, started_at=None, annotations=None, **status):
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() if started_at is None else started_at))
    return {
        "metadata": {"name": name, "uid": uid, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "agent"}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "agent", "restartCount": restarts, "state": {"running": {"startedAt": started}}}],
            **status,
        },
    }


def not_found(name, kind="pods"):
    """As a real API server words it."""
    return scripted_kube.answer(
        404,
        {
            "kind": "Status",
            "status": "Failure",
            "reason": "NotFound",
            "message": f'{kind} "{name}" not found',
            "details": {"name": name, "kind": kind},
            "code": 404,
        },
    )


class ScriptedPods(scripted_kube.ScriptedKube):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.before_get = lambda exchange, name: None
        self.before_list = lambda exchange: None
        self.before_watch = lambda exchange: None
        self.gets = []  # the names, in the order in which they were asked for
        self.lists = 0
        self.watches = 0
        self.cuts = 0  # watches that began before this one was counted are cut
        self._uids = itertools.count(1)
        self._change = threading.Condition()
        self._pods = {}
        self._hidden = set()
        self._events = []  # (type, object); the version of each is its place, from 1 on

    @property
    def where(self):
        return {"POD_SOURCE": "kubernetes", "KUBE_API_URL": self.url, "NAMESPACE": NAMESPACE, "STATIC_PODS": ""}

    # ---- what the test does ----

    def _tell(self, kind, pod):
        self._events.append((kind, pod))
        pod["metadata"]["resourceVersion"] = str(len(self._events))
        self._change.notify_all()

    def put(self, name, uid=None, **kwargs):
        """A new pod of that name, or one that has changed; without a uid it keeps its own. Returns the uid."""
        with self._change:
            old = self._pods.get(name)
            uid = uid or (old["metadata"]["uid"] if old else f"uid-{next(self._uids)}")
            pod = pod_object(name, uid, **kwargs)
            self._pods[name] = pod
            if name not in self._hidden:
                self._tell("MODIFIED" if old else "ADDED", copy.deepcopy(pod))
            return uid

    def put_all(self, names):
        for name in names:
            self.put(name)

    def remove(self, name):
        with self._change:
            pod = self._pods.pop(name)
            if name not in self._hidden:
                self._tell("DELETED", copy.deepcopy(pod))
            self._hidden.discard(name)

    def replace(self, name, **kwargs):
        self.remove(name)
        return self.put(name, **kwargs)

    def hide(self, name):
        """Takes its label off."""
        with self._change:
            self._hidden.add(name)
            self._tell("DELETED", copy.deepcopy(self._pods[name]))

    def show(self, name):
        """Puts its label back."""
        with self._change:
            self._hidden.discard(name)
            self._tell("ADDED", copy.deepcopy(self._pods[name]))

    def forget_silently(self, names):
        """They are gone, and no watch tells it."""
        with self._change:
            for name in names:
                self._pods.pop(name, None)

    def cut_watches(self):
        with self._change:
            self.cuts += 1
            self._change.notify_all()

    def names(self):
        with self._change:
            return set(self._pods) - self._hidden

    # ---- what the server does ----

    def _next_step(self, request):
        if not request.path.startswith(PATH) or request.method != "GET":
            return super()._next_step(request)
        with self._lock:
            self.requests.append(request)
        if request.path == PATH:
            return self._watch if "watch=" in request.query else self._list
        return self._get

    def _list(self, exchange):
        with self._change:
            self.lists += 1
        step = self.before_list(exchange)
        with self._change:
            items = [copy.deepcopy(pod) for name, pod in self._pods.items() if name not in self._hidden]
            version = str(len(self._events))
        page = {"kind": "PodList", "metadata": {"resourceVersion": version}, "items": items}
        (step or scripted_kube.answer(200, page))(exchange)

    def _watch(self, exchange):
        with self._change:
            self.watches += 1
            cuts = self.cuts
        step = self.before_watch(exchange)
        if step:
            step(exchange)
            return
        query = dict(pair.split("=", 1) for pair in exchange.request.query.split("&") if "=" in pair)
        at = int(query.get("resourceVersion") or 0)
        exchange.start()
        while not self.stopped.is_set():
            with self._change:
                self._change.wait_for(lambda: len(self._events) > at or self.cuts > cuts, 0.1)
                events, at = self._events[at:], len(self._events)
                is_cut = self.cuts > cuts
            for kind, pod in events:
                exchange.chunk(json.dumps({"type": kind, "object": pod}).encode())
            if is_cut:
                exchange.cut()

    def _get(self, exchange):
        name = exchange.request.path.rpartition("/")[2]
        with self._change:
            self.gets.append(name)
            pod = copy.deepcopy(self._pods.get(name))
        step = self.before_get(exchange, name)
        (step or (scripted_kube.answer(200, pod) if pod else not_found(name)))(exchange)
