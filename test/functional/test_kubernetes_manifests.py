"""What deploy/kubernetes has is what a real API server takes, and its Role is enough for all that the router does."""

import contextlib
import json
import re

import pytest
import redis_servers
import yaml
from conftest import ROOT, wait_until
from test_kubernetes import MARKS, annotations

FILES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
PLACES = {
    "ServiceAccount": ("serviceaccounts", "v1"),
    "Service": ("services", "v1"),
    "Role": ("roles", "rbac.authorization.k8s.io/v1"),
    "RoleBinding": ("rolebindings", "rbac.authorization.k8s.io/v1"),
    "Deployment": ("deployments", "apps/v1"),
    "NetworkPolicy": ("networkpolicies", "networking.k8s.io/v1"),
    "ValidatingAdmissionPolicy": ("validatingadmissionpolicies", "admissionregistration.k8s.io/v1"),
    "ValidatingAdmissionPolicyBinding": ("validatingadmissionpolicybindings", "admissionregistration.k8s.io/v1"),
}


def objects():
    return [(file.name, thing) for file in FILES for thing in yaml.safe_load_all(file.read_text())]


def find(kind, name=None):
    (found,) = [thing for _, thing in objects() if thing["kind"] == kind and name in (None, thing["metadata"]["name"])]
    return found


def place_of(namespace, thing):
    what, group = PLACES[thing["kind"]]
    assert thing["apiVersion"] == group
    return f"/apis/{group}/{what}" if thing["kind"].startswith("Validating") else namespace.path(what, group=group)


@pytest.mark.parametrize(
    ("file", "thing"), [pytest.param(*o, id=f"{o[1]['kind']}-{o[1]['metadata']['name']}") for o in objects()]
)
def test_the_server_takes_it(namespace, file, thing):
    # As `kubectl apply --dry-run=server`: checked in full, unknown fields refused, nothing kept.
    strictly = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = namespace.api.request("POST", place_of(namespace, thing), params=strictly, json=thing)
    assert answer.status_code == 201, f"{file}: {answer.text}"


def test_they_belong_together():
    account, binding, pods = find("ServiceAccount"), find("RoleBinding"), find("Deployment")["spec"]["template"]
    assert [subject["name"] for subject in binding["subjects"]] == [account["metadata"]["name"]]
    assert binding["roleRef"]["name"] == find("Role")["metadata"]["name"]
    assert pods["spec"]["serviceAccountName"] == account["metadata"]["name"]
    ports = {port["name"] for port in pods["spec"]["containers"][0]["ports"]}
    for name in ("smart-router", "smart-router-metrics"):
        service = find("Service", name)["spec"]
        assert service["selector"].items() <= pods["metadata"]["labels"].items()
        assert {port["targetPort"] for port in service["ports"]} <= ports


def test_the_service_that_providers_reach_has_no_port_without_keys():
    assert [port["targetPort"] for port in find("Service", "smart-router")["spec"]["ports"]] == ["http"]


def test_nginx_and_the_service_agree():
    conf = (ROOT / "deploy" / "nginx" / "smart-router.conf").read_text()
    (name, port) = re.search(r"server ([\w-]+)\.default\.svc\.cluster\.local:(\d+);", conf).groups()
    assert int(port) in [port["port"] for port in find("Service", name)["spec"]["ports"]]


def test_the_router_runs_with_as_little_as_it_needs():
    pod = find("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for container in pod["containers"] + pod.get("initContainers", []):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    assert find("ServiceAccount")["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is True
    for rule in find("Role")["rules"]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]


# ----- Who may talk to whom -----


def network(name):
    """{(direction, port): peers} of a NetworkPolicy, and the labels of the pods that it is about."""
    policy = find("NetworkPolicy", name)["spec"]
    allowed = {}
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for rule in policy.get(direction, []):
            for port in rule["ports"]:
                allowed.setdefault((direction, port["port"]), []).extend(rule.get(peers, ["anywhere"]))
    return policy["podSelector"]["matchLabels"], allowed


def test_the_network_policies_are_about_the_ports_and_pods_of_the_deployment(run_router):
    template = find("Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    env = {e["name"]: e.get("value") for e in container["env"]}
    defaults = run_router({"HTTP_PORT": None, "METRICS_PORT": None}, args=["check-config"]).stdout.decode()
    for name in ("http", "metrics"):  # the Deployment sets neither, so the router listens where it does by default
        assert re.search(rf"^{name.upper()}_PORT={ports[name]}\b", defaults, re.MULTILINE)
    agents = dict(label.split("=") for label in env["POD_LABEL_SELECTOR"].split(","))
    port = int(env["VOICE_AGENT_PORT"])

    routers, allowed = network("smart-router")
    assert routers.items() <= template["metadata"]["labels"].items()
    assert {number for direction, number in allowed if direction == "ingress"} == set(ports.values())
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert allowed["ingress", ports["metrics"]] == [monitoring]
    assert {"podSelector": {"matchLabels": agents}} in allowed["ingress", ports["http"]]
    assert "anywhere" not in allowed["ingress", ports["http"]]
    assert allowed["egress", port] == [{"podSelector": {"matchLabels": agents}}]
    assert {number for direction, number in allowed if direction == "egress"} == {53, 443, 6443, 6379, 26379, port}

    labels, allowed = network("voice-agent")
    assert labels == agents
    assert allowed == {("ingress", port): [{"podSelector": {"matchLabels": routers}}]}


def test_the_environment_is_one_that_the_router_takes(namespace, run_router, tmp_path):
    pod = find("Deployment")["spec"]["template"]["spec"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert mount["name"] in [volume["name"] for volume in pod["volumes"]]
    env = {e["name"]: e.get("value", "x") for e in pod["containers"][0]["env"]}
    for name in [name for name in env if name.endswith("_FILE")]:
        secret = tmp_path / env[name].removeprefix(mount["mountPath"] + "/")
        secret.write_text(f"the-secret-of-{name}\n")
        env[name] = str(secret)
    env.update(REDIS_URL="redis://redis:6379", STATIC_PODS=None, KUBERNETES_SERVICE_HOST="10.0.0.1")
    env["SERVICE_ACCOUNT_DIR"] = namespace.account().write_mount(tmp_path / "mount")
    done = run_router(env, args=["check-config"])
    assert done.returncode == 0, done.output


def test_a_router_that_is_replaced_has_time_for_its_streams(run_router):
    lines = run_router({"SHUTDOWN_DELAY": None}, args=["check-config"]).stdout.decode().splitlines()
    settings = dict(line.split("  #")[0].split("=", 1) for line in lines if "=" in line)
    units = {"s": 1, "m": 60, "h": 3600}
    seconds = lambda name: int(settings[name][:-1]) * units[settings[name][-1]]  # noqa: E731
    needed = seconds("SHUTDOWN_DELAY") + seconds("CALL_MAX_DURATION") + seconds("HTTP_SHUTDOWN_TIMEOUT")
    deployment = find("Deployment")["spec"]
    assert deployment["template"]["spec"]["terminationGracePeriodSeconds"] > needed
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


# ----- What the router may do -----


@pytest.fixture
def policies(namespace):
    """Those of policy.yaml, for as long as the test lasts: they are the whole cluster's."""
    things = [thing for file, thing in objects() if file == "policy.yaml"]
    for thing in things:
        namespace.api.create(place_of(namespace, thing), thing)
    yield
    for thing in things:
        namespace.api.delete(f"{place_of(namespace, thing)}/{thing['metadata']['name']}")


@pytest.fixture
def account(namespace, policies):
    """The router's, once its policies are in force."""
    account = namespace.create_account(find("ServiceAccount")["metadata"]["name"], rules=find("Role")["rules"])
    namespace.create_pod("probe")
    pod, leases = namespace.path("pods/probe"), namespace.path("leases", group="coordination.k8s.io/v1")
    label, lease, only_try = {"metadata": {"labels": {"x": "y"}}}, {"metadata": {"name": "probe"}}, {"dryRun": "All"}
    with contextlib.closing(account.client()) as api:
        wait_until(lambda: patch(api, pod, label, **only_try).status_code == 403, "pods are protected")
        wait_until(lambda: api.request("POST", leases, json=lease, params=only_try).status_code == 403, "leases are, too")
    namespace.end_pod("probe")
    return account


def patch(api, path, body, **params):
    merge = {"Content-Type": "application/merge-patch+json"}
    return api.request("PATCH", path, content=json.dumps(body), headers=merge, params=params)


def test_the_policies_allow_marks_and_nothing_else(namespace, account):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}
    refused = {
        "labels": {"metadata": {"labels": {"app": "other"}}},
        "another label": {"metadata": {"labels": {"more": "x"}}},
        "image": {"spec": {"containers": [{"name": "agent", "image": "evil"}]}},
        "deadline": {"spec": {"activeDeadlineSeconds": 1}},
        "finalizers": {"metadata": {"finalizers": ["example.com/never"]}},
        "owner": {"metadata": {"ownerReferences": [owner]}},
        "another annotation": {"metadata": {"annotations": {"example.com/x": "y"}}},
        "an annotation changed": {"metadata": {"annotations": {"example.com/theirs": "y"}}},
        "an annotation removed": {"metadata": {"annotations": {"example.com/theirs": None}}},
        "another value": {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}},
        "a long value": {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "10000"}}},
        "a mark and more": {"metadata": {"annotations": MARKS, "labels": {"more": "x"}}},
    }
    namespace.create_pod("agent-0", annotations={"example.com/theirs": "x"})
    before = namespace.pod("agent-0")
    refused["tolerations"] = {"spec": {"tolerations": [*before["spec"].get("tolerations", []), {"operator": "Exists"}]}}
    with contextlib.closing(account.client()) as api:
        for what, body in refused.items():
            answer = patch(api, namespace.path("pods/agent-0"), body)
            assert answer.status_code == 403 and "smart-router may" in answer.text, (what, answer.text)
        assert namespace.pod("agent-0")["metadata"] == before["metadata"]
        marks = {**MARKS, "smart-router/marks": "pod-deletion-cost,safe-to-evict,do-not-disrupt"}
        for value in (marks, dict.fromkeys(marks)):
            answer = patch(api, namespace.path("pods/agent-0"), {"metadata": {"annotations": value}})
            assert answer.status_code == 200, answer.text
        leases = namespace.path("leases", group="coordination.k8s.io/v1")
        for name, status in (("smart-router-leader", 201), ("another", 403)):
            assert api.request("POST", leases, json={"metadata": {"name": name}}).status_code == status, name
            assert api.request("GET", f"{leases}/{name}").status_code == (200 if status == 201 else 403), name
    assert namespace.pod("agent-0")["metadata"]["annotations"] == {"example.com/theirs": "x"}
    namespace.label_pod("agent-0", more="x")  # others are not bound


def test_the_role_is_enough_and_the_policies_let_it_work(namespace, account, redis_server, start_in):
    namespace.create_pod("agent-0")
    quiet = {"GATEWAY_SECRET": "a secret of the test", "GATEWAY_MAX": 100}  # else there are warnings at the start
    quiet.update({f"{name}_TOKEN": "a-token-of-the-test" for name in ("TWILIO_AUTH", "PLIVO_AUTH", "EXOTEL")})
    quiet["API_KEY"] = "a-key-of-the-test"
    router = start_in(namespace, {"REDIS_URL": redis_server.url, **redis_servers.QUICK, **quiet}, account=account)
    wait_until(lambda: router.get("/api/v1/status").json()["is_leader"], "it leads")
    wait_until(lambda: router.get("/api/v1/pods").json()["total"] == 1, "it lists")
    namespace.create_pod("agent-1")
    wait_until(lambda: router.get("/api/v1/pods").json()["total"] == 2, "it watches")
    pod = router.allocate("CA1")["pod_name"]
    wait_until(lambda: MARKS.items() <= annotations(namespace, pod).items(), "it marks")
    # Renewed for longer than the lease lasts, and given up.
    lease = lambda: namespace.lease("smart-router-leader")["spec"]  # noqa: E731
    first = lease()["renewTime"]
    wait_until(lambda: lease()["renewTime"] > first, "it renews")
    assert router.stop() == 0
    assert not lease().get("holderIdentity")
    warnings = [line for line in router.log_lines() if line["level"] in ("warn", "error")]
    assert warnings == []
