"""A real Kubernetes control plane for the tests: etcd, kube-apiserver and, for those who want it, the controllers.

There is no node: the tests are the kubelet. A pod is created as if it had been scheduled, and its status is what
the test says. `Kubelet` does that by itself for the pods that a controller makes.

One control plane serves all tests of a pytest worker, each in a namespace of its own. scripts/kube-binaries finds or
builds the programs.
"""

import base64
import contextlib
import functools
import itertools
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import basics
import httpx
import pytest
import yaml
from kube_pods import container_statuses, pod_spec, pod_status, restarted, timestamp

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 90  # until a server that should take seconds is given up
ADMIN_TOKEN = "admin-token"

POD_READER = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
POD_PATCHER = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
LEASE_HOLDER = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "verbs": ["get", "list", "watch", "create", "update", "patch"],
}


def shipped_rules():
    """Those of the Role that we ship: every test of a router runs with them, so they are enough."""
    things = yaml.safe_load_all((ROOT / "deploy/kubernetes/base/rbac.yaml").read_text())
    (role,) = [thing for thing in things if thing["kind"] == "Role"]
    return tuple(role["rules"])


ROUTER_RULES = shipped_rules()


def wait_until(condition, what):
    return basics.wait_until(condition, what, PATIENCE_S, pause=0.02)


@functools.cache
def find_binaries():
    """({name: path}, why some are missing)"""
    done = subprocess.run(
        [str(ROOT / "scripts/kube-binaries"), "--find"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines()), done.stderr.strip()


def need(*names):
    """The paths of these programs. Skips the test where one is missing; on a machine of the CI that is a failure."""
    found, reason = find_binaries()
    if all(name in found for name in names):
        return [found[name] for name in names]
    basics.skip(reason)


def grow_old():
    """A call that is there now is older than a container that starts after this, by more than clocks may differ."""
    time.sleep(3)


class Program:
    """One of the servers: a process whose output is a file, and that never outlives the tests."""

    def __init__(self, name, directory):
        self.name = name
        (self.path,) = need(name)
        self.log_path = pathlib.Path(directory) / f"{name}.log"
        self.process = None

    def start(self, *args):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", self.path, *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_for(self, answers):
        end = time.monotonic() + PATIENCE_S
        while not answers():
            if not self.is_running() or time.monotonic() > end:
                code = self.process.poll()
                pytest.fail(f"{self.name} does not answer, exit status {code}:\n{self.log()[-4000:]}")
            time.sleep(0.05)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def send(self, number):
        if self.is_running():
            self.process.send_signal(number)

    def end(self, number=signal.SIGKILL):
        self.send(number)
        if self.process is not None:
            self.process.wait(PATIENCE_S)

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""


class ControlPlane:
    """etcd and the API server on free ports. `api` is the administrator's client."""

    def __init__(self, apiserver_flags=()):
        need("etcd", "kube-apiserver")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sr-kube-"))
        self.apiserver_flags = apiserver_flags
        self.etcd = Program("etcd", self.directory)
        self.apiserver = Program("kube-apiserver", self.directory)
        self.controllers = None
        self.port = basics.free_port()
        self.etcd_url = f"http://127.0.0.1:{basics.free_port()}"
        self.numbers = itertools.count()
        self.api = None
        try:
            self._write_secrets()
            self.start_etcd()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_path(self):
        """The server's own certificate, which it has signed itself. There once it has started."""
        return self.directory / "certs/apiserver.crt"

    def _write_secrets(self):
        (self.directory / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
        key = ["openssl", "genrsa", "-out", str(self.directory / "sa.key"), "2048"]
        subprocess.run(key, capture_output=True, check=True)

    def start_etcd(self):
        self.etcd.start(
            f"--data-dir={self.directory}/etcd",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync=true",
        )
        self.etcd.wait_for(lambda: answers(self.etcd_url + "/health"))

    def start_apiserver(self):
        """Also after end_apiserver(): on the same port, with the same certificate and keys."""
        self.apiserver.start(
            f"--etcd-servers={self.etcd_url}",
            f"--cert-dir={self.directory}/certs",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-issuer={self.url}/",
            f"--service-account-key-file={self.directory}/sa.key",
            f"--service-account-signing-key-file={self.directory}/sa.key",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.directory}/tokens.csv",
            "--disable-admission-plugins=ServiceAccount",
            *self.apiserver_flags,
        )
        self.apiserver.wait_for(lambda: self.ca_path.exists() and answers(self.url + "/readyz", str(self.ca_path)))
        if self.api is None:
            self.api = Api(self, ADMIN_TOKEN)

    def end_apiserver(self, number=signal.SIGKILL):
        """With SIGTERM it lets open watches finish first, which takes its time."""
        self.apiserver.end(number)

    def restart_apiserver(self):
        """Its memory of past events is gone: a watch from an older version gets 410."""
        self.end_apiserver()
        self.start_apiserver()

    @contextlib.contextmanager
    def paused_apiserver(self):
        """Connections stay open and nothing answers."""
        self.apiserver.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.apiserver.send(signal.SIGCONT)

    def back_up(self):
        """etcd's data as it is now, for restore(). The API server waits meanwhile."""
        backup = self.directory / f"backup-{next(self.numbers)}"
        self.etcd.end(signal.SIGTERM)
        shutil.copytree(self.directory / "etcd", backup)
        self.start_etcd()
        wait_until(lambda: answers(self.url + "/readyz", str(self.ca_path)), "the API server has etcd again")
        return backup

    def restore(self, backup):
        """What happened since then has never been; versions begin again from there."""
        self.end_apiserver()
        self.etcd.end()
        shutil.rmtree(self.directory / "etcd")
        shutil.copytree(backup, self.directory / "etcd")
        self.start_etcd()
        self.start_apiserver()

    def start_controllers(self):
        """StatefulSets, Deployments and PodDisruptionBudgets come to life. Does nothing if they are running."""
        if self.controllers is not None and self.controllers.is_running():
            return
        self.controllers = Program("kube-controller-manager", self.directory)
        flags = [
            f"--kubeconfig={self.write_kubeconfig(ADMIN_TOKEN)}",
            "--leader-elect=false",
            "--secure-port=0",
            # These are the names that every version knows.
            "--controllers=statefulset,replicaset,deployment,endpointslice,disruption,garbagecollector",
        ]
        if int(self.api.get("/version")["minor"].rstrip("+")) < 24:
            flags.append("--port=0")  # the plain listener that there was until then
        self.controllers.start(*flags)

    def write_kubeconfig(self, token, namespace="default", server=None, **user):
        """A file in which the certificate is inline; returns its path. `user` overrides what says who one is."""
        ca = base64.b64encode(self.ca_path.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
            "clusters": [
                {"name": "test", "cluster": {"server": server or self.url, "certificate-authority-data": ca}}
            ],
            "users": [{"name": "test", "user": user or {"token": token}}],
        }
        path = self.directory / f"kubeconfig-{next(self.numbers)}"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1))  # JSON is YAML
        return path

    def create_namespace(self):
        name = f"test-{next(self.numbers)}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return Namespace(self, name)

    def stop(self):
        for program in (self.controllers, self.apiserver, self.etcd):
            if program:
                program.end()
        if self.api:
            self.api.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def answers(url, verify=True):
    try:
        return httpx.get(url, verify=verify, trust_env=False, timeout=5).status_code == 200
    except (httpx.HTTPError, OSError):
        return False


class Api:
    """What a client of the API server does. An answer that is an error raises, with the server's own words."""

    def __init__(self, plane, token):
        self.client = httpx.Client(
            base_url=plane.url,
            verify=str(plane.ca_path),
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
            trust_env=False,
            # A connection from before a restart of the server would fail once.
            limits=httpx.Limits(max_connections=32, max_keepalive_connections=32, keepalive_expiry=2),
        )

    def request(self, method, path, **kwargs):
        """Returns httpx's answer, whatever its status."""
        try:
            return self.client.request(method, path, **kwargs)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            return self.client.request(method, path, **kwargs)

    def call(self, method, path, **kwargs):
        answer = self.request(method, path, **kwargs)
        if answer.is_error:
            raise ApiError(answer)
        return answer.json()

    def get(self, path, **params):
        return self.call("GET", path, params=params)

    def create(self, path, body):
        return self.call("POST", path, json=body)

    def put(self, path, body):
        return self.call("PUT", path, json=body)

    def patch(self, path, body):
        headers = {"Content-Type": "application/merge-patch+json"}
        return self.call("PATCH", path, content=json.dumps(body), headers=headers)

    def delete(self, path, **options):
        return self.call("DELETE", path, json=options)

    def watch(self, path, resource_version, **params):
        """The events as they come, until the server ends the stream: timeoutSeconds=1 makes that soon."""
        params = {"watch": "1", "resourceVersion": resource_version, **params}
        with self.client.stream("GET", path, params=params) as answer:
            if answer.is_error:
                answer.read()
                raise ApiError(answer)
            for line in answer.iter_lines():
                yield json.loads(line)

    def close(self):
        self.client.close()


class ApiError(Exception):
    def __init__(self, answer):
        super().__init__(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}")
        self.code = answer.status_code


class Account:
    """A service account, allowed what its rules say in its namespace."""

    def __init__(self, namespace, name, rules):
        self.namespace = namespace
        self.name = name
        api = namespace.api
        api.create(namespace.path("serviceaccounts"), {"metadata": {"name": name}})
        role = {"metadata": {"name": name}, "rules": list(rules)}
        api.create(namespace.path("roles", group="rbac.authorization.k8s.io/v1"), role)
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace.name, "name": name}],
        }
        api.create(namespace.path("rolebindings", group="rbac.authorization.k8s.io/v1"), binding)
        self.token = self.new_token()
        self._wait_for_rules(rules)

    def _wait_for_rules(self, rules):
        """The server learns of new rules by a watch of its own."""
        with contextlib.closing(self.client()) as api:
            for rule in rules:
                attributes = {
                    "namespace": self.namespace.name,
                    "verb": rule["verbs"][-1],
                    "group": rule["apiGroups"][0],
                    "resource": rule["resources"][-1],
                    "name": rule.get("resourceNames", [""])[0],
                }
                review = {"spec": {"resourceAttributes": attributes}}
                path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
                wait_until(lambda r=review: api.create(path, r)["status"]["allowed"], f"{attributes} is allowed")

    def new_token(self):
        """Another one for the same account, as the kubelet gets when it rotates them."""
        path = self.namespace.path(f"serviceaccounts/{self.name}/token")
        return self.namespace.api.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]

    def set_rules(self, rules):
        path = self.namespace.path(f"roles/{self.name}", group="rbac.authorization.k8s.io/v1")
        self.namespace.api.patch(path, {"rules": list(rules)})

    def client(self):
        return Api(self.namespace.plane, self.token)

    def kubeconfig(self, server=None, **user):
        return self.namespace.plane.write_kubeconfig(self.token, self.namespace.name, server, **user)

    def write_mount(self, directory):
        """The files that a pod finds below /var/run/secrets/kubernetes.io/serviceaccount."""
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "token").write_text(self.token)
        (directory / "namespace").write_text(self.namespace.name)
        shutil.copy(self.namespace.plane.ca_path, directory / "ca.crt")
        return directory


class Namespace:
    """One test's own part of the cluster, and its kubelet's hands."""

    def __init__(self, plane, name):
        self.plane = plane
        self.api = plane.api
        self.name = name
        self.addresses = itertools.count(1)
        self.kubelets = []
        self.router_account = None

    def path(self, what, group="v1"):
        root = "/api" if "/" not in group else "/apis"
        return f"{root}/{group}/namespaces/{self.name}/{what}"

    def new_ip(self):
        number = next(self.addresses)
        return f"10.{1 + number // 65536}.{number // 256 % 256}.{number % 256}"

    def create_account(self, name="router", rules=ROUTER_RULES):
        return Account(self, name, rules)

    def account(self):
        """The router's own, made when it is first asked for."""
        if self.router_account is None:
            self.router_account = self.create_account()
        return self.router_account

    # Pods

    def create_pod(self, name, labels=None, annotations=None, ready=True, containers=("agent",), **status):
        """Running and ready with an address of its own, unless told otherwise; ready=None leaves it pending."""
        meta = {"name": name, "labels": labels or {"app": "agent"}, "annotations": annotations or {}}
        pod = self.api.create(self.path("pods"), {"metadata": meta, "spec": pod_spec(containers)})
        return pod if ready is None else self.set_status(name, ready=ready, pod=pod, **status)

    def create_pods(self, names, **kwargs):
        """Many at once."""
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda name: self.create_pod(name, **kwargs), names))

    def set_status(
        self, name, phase="Running", ready=True, ip=None, started_at=None, statuses=None, restarts=None, pod=None
    ):
        """What the kubelet reports. What it does not name stays as in `pod`; a pod without an address gets one.

        `statuses` is the order of the containers there, which need not be the spec's. `started_at` is a Unix time;
        a container that starts does so now, by the kubelet's clock, which is ours.
        """
        pod = pod or self.pod(name)
        known = container_statuses(pod, statuses, phase == "Running", ready, started_at)
        if restarts is not None:
            known[0]["restartCount"] = restarts
        address = ip or pod["status"].get("podIP") or self.new_ip()
        return self._patch_status(name, pod_status(address, phase, ready, known))

    def _patch_status(self, name, status):
        return self.api.patch(self.path(f"pods/{name}/status"), {"status": status})

    def restart_container(self, name, container="agent", started_at=None):
        """It ended and runs again, at once: the kubelet tells both in one report.

        A call is only taken for older than the new container if it is so by more than clocks may differ: see
        grow_old(). An earlier `started_at` is a report that comes late.
        """
        pod = self.pod(name)
        statuses = [
            restarted(known, started_at) if known["name"] == container else known
            for known in pod["status"]["containerStatuses"]
        ]
        return self._patch_status(name, {"containerStatuses": statuses})

    def finish_pod(self, name, phase="Failed", reason=None):
        """Its containers have ended and do not start again. Succeeded, or Failed, as with reason="Evicted"."""
        ended = {"terminated": {"exitCode": int(phase == "Failed"), "finishedAt": timestamp()}}
        statuses = [
            {**known, "state": ended, "ready": False} for known in self.pod(name)["status"]["containerStatuses"]
        ]
        status = pod_status(None, phase, False, statuses)
        return self._patch_status(name, {**status, "reason": reason})

    def label_pod(self, name, **labels):
        """None takes a label off."""
        return self.api.patch(self.path(f"pods/{name}"), {"metadata": {"labels": labels}})

    def delete_pod(self, name):
        """It is terminating now, and stays so until end_pod()."""
        return self.api.delete(self.path(f"pods/{name}"))

    def end_pod(self, name, uid=None):
        """It is gone."""
        preconditions = {"preconditions": {"uid": uid}} if uid else {}
        return self.api.delete(self.path(f"pods/{name}"), gracePeriodSeconds=0, **preconditions)

    def replace_pod(self, name, **kwargs):
        """The same name comes back with another uid."""
        self.end_pod(name)
        return self.create_pod(name, **kwargs)

    def pod(self, name):
        return self.api.get(self.path(f"pods/{name}"))

    def list_pods(self, **params):
        return self.api.get(self.path("pods"), **params)

    def pods(self):
        """{name: pod}"""
        return {pod["metadata"]["name"]: pod for pod in self.list_pods()["items"] or []}

    def forbid_changes(self, name):
        """A policy of the cluster lets nobody change this pod's metadata, whatever the role allows."""
        policy = f"{self.name}-{name}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {"expression": f"object.metadata.name != '{name}'", "message": "hands off", "reason": "Forbidden"}
            ],
        }
        group = "/apis/admissionregistration.k8s.io/v1"
        self.api.create(f"{group}/validatingadmissionpolicies", {"metadata": {"name": policy}, "spec": spec})
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.name}}}
        binding = {"policyName": policy, "validationActions": ["Deny"], "matchResources": here}
        self.api.create(
            f"{group}/validatingadmissionpolicybindings", {"metadata": {"name": policy}, "spec": binding}
        )
        wait_until(lambda: not self._may_change(name), "the policy is in force")

    def _may_change(self, name):
        try:
            self.api.patch(self.path(f"pods/{name}"), {"metadata": {"labels": {"try": str(time.time_ns())}}})
            return True
        except ApiError as error:
            if error.code != 403:
                raise
            return False

    # StatefulSets: only with controllers

    def create_stateful_set(self, name, replicas, labels=None):
        labels = labels or {"app": name}
        spec = {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
        }
        return self.api.create(self.path("statefulsets", group="apps/v1"), {"metadata": {"name": name}, "spec": spec})

    def scale(self, name, replicas):
        path = self.path(f"statefulsets/{name}/scale", group="apps/v1")
        return self.api.patch(path, {"spec": {"replicas": replicas}})

    def start_kubelet(self):
        kubelet = Kubelet(self)
        self.kubelets.append(kubelet)
        return kubelet

    def lease(self, name):
        return self.api.get(self.path(f"leases/{name}", group="coordination.k8s.io/v1"))

    def close(self):
        for kubelet in self.kubelets:
            kubelet.stop()


class Kubelet:
    """Makes new pods of a namespace run, and ends those that are terminating, unless hold() has named them."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.started = set()  # uids; what the list says of them may be older
        self.held = set()
        self.error = None
        self.is_stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self.thread.start()

    def hold(self, *names):
        """These finish their work first: they stay terminating."""
        self.held.update(names)

    def let_go(self, *names):
        self.held.difference_update(names)

    def _run(self):
        try:
            while not self.is_stopping.wait(0.05):
                with contextlib.suppress(httpx.TransportError):  # the server is away: later
                    self._look()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error  # stop() raises it, on the test's thread

    def _look(self):
        for name, pod in self.namespace.pods().items():
            uid = pod["metadata"]["uid"]
            try:
                if "deletionTimestamp" in pod["metadata"]:
                    if name not in self.held:
                        self.namespace.end_pod(name, uid)
                elif uid not in self.started:
                    self.started.add(uid)
                    self.namespace.set_status(name)
            except ApiError as error:
                # Another one was quicker: the pod is gone, or it is not the same any more.
                if error.code not in (404, 409):
                    raise

    def stop(self):
        self.is_stopping.set()
        self.thread.join(PATIENCE_S)
        if self.error:
            raise self.error


class Elector:
    """Our program on client-go's leader election. `events()` are what it has said so far."""

    def __init__(self, kubeconfig, namespace, lease, identity, **durations):
        (path,) = need("elector")
        self.directory = tempfile.mkdtemp(prefix="sr-elector-")
        flags = [f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", f"--name={lease}", f"--identity={identity}"]
        flags += [f"--{name.replace('_', '-')}={value}" for name, value in durations.items()]
        self.output_path = pathlib.Path(self.directory) / "output"
        with open(self.output_path, "wb") as output, open(self.directory + "/log", "wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", path, *flags], stdin=subprocess.DEVNULL, stdout=output, stderr=log
            )

    def events(self):
        lines = self.output_path.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def is_leading(self):
        said = [event["event"] for event in self.events() if event["event"] != "new leader"]
        return bool(said) and said[-1] == "started leading"

    def send(self, number):
        self.process.send_signal(number)

    def terminate(self):
        """Gives the Lease back; returns the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Line:
    """The line to the API server, which can be cut: the server itself goes on, and so does what happens there."""

    def __init__(self, plane):
        self.plane = plane
        self.port = basics.free_port()
        self.listener = None
        self.sockets = set()
        self.swallowed = set()
        self.lock = threading.Lock()
        self.mend()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def mend(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._connect(client)

    def _connect(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.plane.port))
        except OSError:  # it is away
            client.close()
            return
        with self.lock:
            self.sockets.update((client, server))
        for pair in ((client, server), (server, client)):
            threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if source not in self.swallowed:
                    target.sendall(data)
        if source in self.swallowed:
            return
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def swallow(self):
        """Open connections stay open, and nothing comes through any more, not even their end. New ones are fine."""
        with self.lock:
            self.swallowed.update(self.sockets)

    def cut(self):
        """Connections end, and new ones are refused."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # accept() returns
        self.listener.close()
        self.drop()

    def drop(self):
        """Connections end; new ones are fine."""
        with self.lock:
            for sock in self.sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            self.sockets.clear()
            self.swallowed.clear()

    def close(self):
        self.cut()
