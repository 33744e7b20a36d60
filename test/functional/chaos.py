"""What the chaos campaign does to a cluster: pods that live and die, lines that break, an API server with a past.

The test is the kubelet. It starts and ends containers by its own clock, and only then writes what has happened; so it knows
at any time which run of its agent's container a pod has, whatever the API server and the routers believe.
"""

import contextlib
import datetime
import itertools
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import httpx
import kube

PATIENCE_S = 120  # until an API server that comes and goes has taken a write
CLOCK_SKEW_S = 0.9  # of the nodes: routers allow for 2 s, of which whole seconds take one
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends a reset


class Wire:
    """One router's line to the API server. Cut, its connections end; swallowing, they stay and carry nothing."""

    def __init__(self, plane):
        self.plane = plane
        self.is_cut = False
        self.flows = threading.Event()
        self.flows.set()
        self.sockets = set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.listener.getsockname()[1]}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client):
        self.flows.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self.plane.port))
        except OSError:
            server = None  # the API server is being started anew
        with self.lock:
            if self.is_cut or server is None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.close()
                return
            self.sockets.update((client, server))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._carry, args=(server, client), daemon=True).start()
        self._carry(client, server)

    def _carry(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.flows.wait()
                target.sendall(data)
        self.flows.wait()  # the end of a connection is swallowed, too
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self.lock:
            self.sockets.discard(source)

    def cut(self):
        with self.lock:
            self.is_cut = True
            for sock in self.sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def swallow(self):
        self.flows.clear()

    def mend(self):
        """What was swallowed arrives late, as after a break of the network."""
        with self.lock:
            self.is_cut = False
        self.flows.set()

    def close(self):
        self.cut()
        self.mend()
        self.listener.close()


class Life:
    """One run of a pod's agent container. `calls` are those that their clients have on it now."""

    def __init__(self, number):
        self.number = number
        self.began = time.monotonic()
        self.ended = None
        self.calls = set()


class Pod:
    """What its kubelet knows of it. A script that changes it holds its lock."""

    def __init__(self, number):
        self.name = f"agent-{number}"
        self.has_sidecar = number % 3 == 0
        self.is_sidecar_first = number % 6 == 0  # in the statuses: their order is anybody's guess
        self.skew_s = CLOCK_SKEW_S * (number % 3 - 1)
        self.lock = threading.Lock()
        self.uid = self.ip = None
        self.restarts = self.sidecar_restarts = 0
        self.started_at = None  # as the status says it: whole seconds of the node's clock
        self.lives = []

    def life(self):
        return self.lives[-1] if self.lives and self.lives[-1].ended is None else None

    def begin(self):
        self.lives.append(Life(len(self.lives)))
        now = datetime.datetime.fromtimestamp(time.time() + self.skew_s, datetime.timezone.utc)
        self.started_at = now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def end(self):
        if self.life():
            self.lives[-1].ended = time.monotonic()

    def life_during(self, since, until):
        """The one that ran all the time, or None."""
        for life in self.lives:
            if life.began <= since and (life.ended is None or life.ended >= until):
                return life
        return None


def container_status(name, restarts, state, ready):
    return {"name": name, "image": name, "imageID": name, "ready": ready, "restartCount": restarts, "state": state}


def pod_spec(pod):
    spec = kube.pod_spec()
    if pod.has_sidecar:
        spec["containers"].append({"name": "sidecar", "image": "sidecar"})
    return spec


def pod_status(pod, phase, ready, reason):
    """`ready` of a pod whose agent does not run is False."""
    if pod.life():
        state = {"running": {"startedAt": pod.started_at}}
    elif phase == "Running":
        state = {"waiting": {"reason": "CrashLoopBackOff"}}
    else:
        state = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 137}}
    ready = ready and pod.life() is not None
    statuses = [container_status("agent", pod.restarts, state, ready)]
    if pod.has_sidecar:
        beside = {"running": {"startedAt": pod.started_at}} if phase == "Running" else {"terminated": {"exitCode": 0}}
        statuses.append(container_status("sidecar", pod.sidecar_restarts, beside, phase == "Running"))
    if pod.is_sidecar_first:
        statuses.reverse()
    return {
        "phase": phase,
        "reason": reason,
        "podIP": pod.ip,
        "podIPs": [{"ip": pod.ip}],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        "containerStatuses": statuses,
    }


class Fleet:
    """The pods of a namespace, their kubelet's hands and what can happen to one of them."""

    def __init__(self, namespace, count, over):
        self.namespace, self.api = namespace, namespace.api
        self.over = over  # an event: no script waits any longer
        self.pods = {pod.name: pod for pod in map(Pod, range(count))}
        for pod in self.pods.values():
            self.create(pod)
            self.start(pod)

    # The API server, which comes and goes. A kubelet does not give up.

    def insist(self, ask, passes=()):
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return ask()
            except kube.ApiError as error:
                if error.code in passes:
                    return None
                if time.monotonic() > end:
                    raise
            except httpx.TransportError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def path(self, pod):
        return self.namespace.path(f"pods/{pod.name}")

    def look(self, pod):
        """As the API server has it; None if it has none."""
        return self.insist(lambda: self.api.get(self.path(pod)), passes=(404,))

    def create(self, pod):
        """As its controller does, and the scheduler; a second try finds what the first one has made."""
        body = {"metadata": {"name": pod.name, "labels": {"app": "agent"}}, "spec": pod_spec(pod)}
        made = None
        while made is None:
            made = self.insist(lambda: self.api.create(self.namespace.path("pods"), body), passes=(409,)) or self.look(pod)
        pod.uid, pod.ip = made["metadata"]["uid"], self.namespace.new_ip()
        pod.restarts = pod.sidecar_restarts = 0

    def write(self, pod, ready=True, phase="Running", reason=None):
        status = {"status": pod_status(pod, phase, ready, reason)}
        self.insist(lambda: self.api.patch(self.path(pod) + "/status", status))

    def start(self, pod):
        pod.begin()
        self.write(pod)

    def label(self, pod, value):
        body = {"metadata": {"uid": pod.uid, "labels": {"app": value}}}
        self.insist(lambda: self.api.patch(self.path(pod), body))

    def remove(self, pod, uid=None):
        """It is gone at once; its containers have ended before."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid or pod.uid}}
        self.insist(lambda: self.api.delete(self.path(pod), **options), passes=(404, 409))

    def wait(self, rng, least, most):
        self.over.wait(rng.uniform(least, most))

    # What can happen to a pod: each leaves it running, ready and labelled.

    def restart(self, pod, rng):
        pod.end()
        if rng.random() < 0.6:  # else the kubelet is quicker than its own report
            self.write(pod, ready=False)
        self.wait(rng, 0.05, 2.5)
        pod.restarts += 1
        self.start(pod)

    def restart_sidecar(self, pod, _):
        pod.sidecar_restarts += 1
        self.write(pod)

    def replace(self, pod, rng):
        """Its containers get their time: the calls go on meanwhile."""
        self.insist(lambda: self.api.delete(self.path(pod)), passes=(404, 409))
        self.wait(rng, 0.3, 4)
        self.replace_at_once(pod, rng)

    def replace_at_once(self, pod, rng):
        pod.end()
        self.remove(pod)
        if rng.random() < 0.5:
            self.wait(rng, 0.05, 1.5)
        self.create(pod)
        self.wait(rng, 0.05, 1)
        self.start(pod)

    def fail(self, pod, rng):
        pod.end()
        phase, reason = rng.choice((("Failed", "Evicted"), ("Failed", "Error"), ("Succeeded", None)))
        self.write(pod, ready=False, phase=phase, reason=reason)
        self.wait(rng, 0.1, 2)
        self.replace_at_once(pod, rng)

    def unlabel(self, pod, rng):
        """Out of the selector and back; some have another container or another uid by then."""
        self.label(pod, None)
        self.wait(rng, 0.3, 6)
        change = rng.random()
        if change < 0.2:
            self.replace_at_once(pod, rng)
            return
        if change < 0.4:
            self.restart(pod, rng)
        self.label(pod, "agent")

    def flap(self, pod, rng):
        for _ in range(rng.choice((1, 1, 2, 4))):
            self.write(pod, ready=False)
            self.wait(rng, 0.05, 2)
            self.write(pod)
            self.wait(rng, 0.05, 0.5)

    # After a restore

    def settle(self, pod, rng):
        """What a node does with what it finds. Its containers run, whatever the API server has forgotten.

        Some have been ended before: see Backups.
        """
        found = self.look(pod)
        if found is None:
            pod.end()  # a kubelet ends what is not in the API
            self.create(pod)
            self.start(pod)
            return
        is_alive = "deletionTimestamp" not in found["metadata"] and found["status"].get("phase") in ("Pending", "Running")
        if found["metadata"]["uid"] == pod.uid and is_alive:
            if pod.life():
                self.write(pod)
            else:
                pod.restarts += 1
                self.start(pod)
            self.label(pod, "agent")
            return
        # It has come back from the dead. Its successor is unknown now, and ends.
        pod.end()
        if is_alive and rng.random() < 0.5:
            pod.uid = found["metadata"]["uid"]
            agents = [one for one in found["status"].get("containerStatuses") or [] if one["name"] == "agent"]
            pod.restarts = agents[0]["restartCount"] + 1 if agents else 0
            pod.sidecar_restarts += 1
            self.start(pod)
            self.label(pod, "agent")
        else:
            self.remove(pod, found["metadata"]["uid"])
            self.create(pod)
            self.start(pod)


class Backups:
    """Copies of etcd's data, as backups have them: of a moment.

    A kubelet ends the containers of a pod that the API server does not have. After a restore a router may see that one is
    missing, and end its call, before its kubelet has looked; so those that may be missing end before the API server is back.
    """

    def __init__(self, plane, pods):
        self.plane, self.pods = plane, pods
        self.numbers = itertools.count()
        self.uids = {}  # those that are surely in the copy

    def take(self):
        with contextlib.ExitStack() as locks:
            still = [pod for pod in self.pods if pod.lock.acquire(blocking=False)]
            for pod in still:
                locks.callback(pod.lock.release)
            self.uids = {pod.name: pod.uid for pod in still}
            return self._copy()

    def _copy(self):
        copy = self.plane.directory / f"backup-{next(self.numbers)}"
        self.plane.etcd.send(signal.SIGSTOP)
        try:
            subprocess.run(["cp", "-a", "--sparse=always", self.plane.directory / "etcd", copy], check=True)
        finally:
            self.plane.etcd.send(signal.SIGCONT)
        return copy

    def restore(self, copy):
        """Time is turned back: versions that the routers have seen are given a second time, to other changes."""
        self.plane.end_apiserver()
        self.plane.etcd.end()
        for pod in self.pods:
            if self.uids.get(pod.name) != pod.uid:
                pod.end()
        shutil.rmtree(self.plane.directory / "etcd")
        copy.rename(self.plane.directory / "etcd")
        self.plane.start_etcd()
        self.plane.start_apiserver()
