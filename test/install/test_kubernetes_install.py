"""`helm install` on a real API server: its Deployment makes pods, and a router with what such a pod gets serves a call.

There is no node, so no container: the test starts the router with the environment, the files and the token of the pod.
"""

import re
import shutil

import kube
import pytest
import redis_servers
from conftest import wait_until
from manifests import CHART, RELEASE, run_judge, write_files


class Release:
    """The chart, installed in a namespace."""

    def __init__(self, namespace, tmp_path, *values):
        self.namespace = namespace
        self.chart = tmp_path / "chart"
        shutil.copytree(CHART, self.chart)
        # The API server of the tests is built from a module, and does not know its own version.
        about = self.chart / "Chart.yaml"
        about.write_text(re.sub("^kubeVersion: .*\n", "", about.read_text(), flags=re.MULTILINE))
        self.config = str(namespace.plane.write_kubeconfig(kube.ADMIN_TOKEN, namespace.name))
        self.values = [word for value in values for word in ("--set", value)]

    def helm(self, verb, *args):
        done = run_judge("helm", verb, RELEASE, *args, "--kubeconfig", self.config, "--namespace", self.namespace.name)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self):
        return self.helm("install", self.chart, *self.values)

    def upgrade(self, *values):
        return self.helm("upgrade", self.chart, *self.values, *[word for value in values for word in ("--set", value)])

    def pods(self):
        return {name: pod for name, pod in self.namespace.pods().items() if pod["metadata"]["labels"]["app"] == RELEASE}

    def names(self, what, group="v1"):
        items = self.namespace.api.get(self.namespace.path(what, group=group))["items"]
        return {item["metadata"]["name"] for item in items} - {"default", "kubernetes"}

    def environment(self, tmp_path, redis_url):
        """What the kubelet gives to one of the pods."""
        name, pod = sorted(self.pods().items())[0]
        env = write_files(tmp_path, pod["spec"], REDIS_URL_FILE=redis_url, API_KEY_FILE="a-key-of-the-test")
        fields = {"metadata.name": name, "metadata.namespace": self.namespace.name}
        for entry in pod["spec"]["containers"][0]["env"]:
            if "valueFrom" in entry:
                env[entry["name"]] = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        mount = tmp_path / "account"
        mount.mkdir()
        path = self.namespace.path(f"serviceaccounts/{pod['spec']['serviceAccountName']}/token")
        token = self.namespace.api.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
        plane = self.namespace.plane
        (mount / "token").write_text(token)
        (mount / "namespace").write_text(self.namespace.name)
        (mount / "ca.crt").write_bytes(plane.ca_path.read_bytes())
        env.update(SERVICE_ACCOUNT_DIR=str(mount), KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=plane.port)
        return env


@pytest.fixture
def other_namespace(control_plane):
    namespace = control_plane.create_namespace()
    yield namespace
    namespace.close()


@pytest.mark.parametrize("agents_elsewhere", [False, True], ids=["one-namespace", "agents-elsewhere"])
def test_what_helm_installs_serves_a_call(namespace, other_namespace, controllers, redis_server, start_router, tmp_path,
                                          agents_elsewhere):
    agents = other_namespace if agents_elsewhere else namespace
    release = Release(namespace, tmp_path, *([f"agents.namespace={agents.name}"] if agents_elsewhere else []))
    assert "3 routers: smart-router" in release.install()
    wait_until(lambda: len(release.pods()) == 3, "there are three pods")

    agents.create_pod("voice-agent-0", labels={"app": "voice-agent"})
    # Quick, so that the test need not wait; and no gateway that warns about this machine's limits.
    quick = {**{name: value for name, value in redis_servers.QUICK.items() if name.startswith("LEADER")}, "GATEWAY_MAX": 100}
    env = {**release.environment(tmp_path, redis_server.url), **quick}
    router = start_router({**env, "STATIC_PODS": None, "LOG_LEVEL": "info"})
    wait_until(lambda: router.get("/api/v1/status").json().get("is_leader"), "it leads, with the rights of the chart")
    wait_until(lambda: router.get("/api/v1/pods").json().get("total") == 1, "it follows the agents")
    assert router.allocate("CA1")["pod_name"] == "voice-agent-0"
    router.post("/api/v1/release", {"call_sid": "CA1"})
    assert router.stop() == 0
    assert [line for line in router.log_lines() if line["level"] in ("warn", "error")] == []

    # Another version replaces the pods, and what was installed goes away again.
    before = set(release.pods())
    release.upgrade("image.tag=0.9.9")
    images = lambda: {pod["spec"]["containers"][0]["image"] for name, pod in release.pods().items() if name not in before}
    wait_until(lambda: images() == {"smart-router:0.9.9"}, "new pods have the new image")
    release.helm("uninstall", "--wait=false")
    groups = [("deployments", "apps/v1"), ("services", "v1"), ("serviceaccounts", "v1"),
              ("poddisruptionbudgets", "policy/v1")]
    wait_until(lambda: not any(release.names(*group) for group in groups), "nothing is left")
    rbac = "rbac.authorization.k8s.io/v1"
    for what in ("roles", "rolebindings"):
        assert agents.api.get(agents.path(what, group=rbac))["items"] == []
