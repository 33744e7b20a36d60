"""What the router's account may do is what the router does: the shipped Role and policies, on a real API server.

The Kubernetes tests of test/functional run with the rules of the shipped Role, so these are enough. Here: each verb is
needed, and without it the router says what is missing. And the hooks of the shipped agents wait for their calls.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import kube
import pytest
import redis_servers
from conftest import BINARY, wait_until
from manifests import built, find, rendered
from test_kubernetes import MARKS, annotations

# What a router needs at its start so that it has nothing to warn about.
COMPLETE = {
    "GATEWAY_SECRET": "a secret of the test",
    "GATEWAY_MAX": 100,
    "API_KEY": "a-key-of-the-test",
    "PUBLIC_BASE_URL": "https://voice.example.com",
    **{f"{name}_TOKEN": "a-token-of-the-test" for name in ("TWILIO_AUTH", "PLIVO_AUTH", "EXOTEL")},
}


@pytest.fixture(scope="module")
def shipped():
    return rendered("admissionPolicy.enabled=true")


def place_of(thing):
    what = {"ValidatingAdmissionPolicy": "policies", "ValidatingAdmissionPolicyBinding": "policybindings"}[thing["kind"]]
    return f"/apis/{thing['apiVersion']}/validatingadmission{what}"


# ----- The policies -----


@pytest.fixture
def policies(namespace, shipped):
    """For as long as the test lasts: they are the whole cluster's."""
    things = [thing for thing in shipped if thing["kind"].startswith("Validating")]
    assert len(things) == 4
    for thing in things:
        namespace.api.create(place_of(thing), thing)
    yield
    for thing in things:
        namespace.api.delete(f"{place_of(thing)}/{thing['metadata']['name']}")


@pytest.fixture
def account(namespace, policies, shipped):
    """The router's, once its policies are in force."""
    account = namespace.create_account(find(shipped, "ServiceAccount")["metadata"]["name"], rules=find(shipped, "Role")["rules"])
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
    router = start_in(namespace, {"REDIS_URL": redis_server.url, **redis_servers.QUICK, **COMPLETE}, account=account)
    wait_until(lambda: router.get("/api/v1/status").json()["is_leader"], "it leads")
    wait_until(lambda: router.get("/api/v1/pods").json()["total"] == 1, "it lists")
    namespace.create_pod("agent-1")
    wait_until(lambda: router.get("/api/v1/pods").json()["total"] == 2, "it watches")
    pod = router.allocate("CA1")["pod_name"]
    wait_until(lambda: MARKS.items() <= annotations(namespace, pod).items(), "it marks")
    # Renewed for longer than the lease lasts, and given up.
    lease = lambda: namespace.lease("smart-router-leader")["spec"]
    first = lease()["renewTime"]
    wait_until(lambda: lease()["renewTime"] > first, "it renews")
    assert router.stop() == 0
    assert not lease().get("holderIdentity")
    warnings = [line for line in router.log_lines() if line["level"] in ("warn", "error")]
    assert warnings == []


# ----- Each verb is needed -----


WATCHING = (
    "Kubernetes does not allow it: a Role must give this service account the verbs get, list and watch on pods in this "
    "namespace"
)
LEADING = "this router cannot lead: its role lacks a verb on leases"
MARKING = "pods with calls are not protected from scaling down: the role lacks a verb on pods"
UNKNOWN = "it is not known whether a pod with calls still exists"
# (resource, verb): the message that names it, and what else it must say.
MISSING = {
    ("pods", "list"): (WATCHING, {"level": "error", "verb": "list", "resource": "pods"}),
    ("pods", "watch"): (WATCHING, {"level": "error", "verb": "watch", "resource": "pods"}),
    ("pods", "get"): (UNKNOWN, {"level": "warn"}),
    ("pods", "patch"): (MARKING, {"level": "error", "verb": "patch", "resource": "pods"}),
    ("leases", "get"): (LEADING, {"level": "error", "verb": "get", "resource": "leases.coordination.k8s.io"}),
    ("leases", "update"): (LEADING, {"level": "error", "verb": "update", "resource": "leases.coordination.k8s.io"}),
    ("leases", "create"): (LEADING, {"level": "error", "verb": "create", "resource": "leases.coordination.k8s.io"}),
}


def verbs_of(rules):
    return [(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]]


def without(rules, resource, verb):
    """The rules but for one verb."""
    left = []
    for rule in rules:
        verbs = [v for v in rule["verbs"] if rule["resources"] != [resource] or v != verb]
        if verbs:
            left.append({**rule, "verbs": verbs})
    assert len(verbs_of(left)) == len(verbs_of(rules)) - 1
    return left


def test_the_table_has_every_verb_of_the_role(shipped):
    assert sorted(verbs_of(find(shipped, "Role")["rules"])) == sorted(MISSING)
    for rule in find(shipped, "Role")["rules"]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
    assert find(rendered("agents.mark=false"), "Role")["rules"] == without(find(shipped, "Role")["rules"], "pods", "patch")


@pytest.mark.parametrize(("resource", "verb"), MISSING)
def test_without_one_verb_the_router_names_it(namespace, shipped, redis_server, start_in, resource, verb):
    names = [f"agent-{number}" for number in range(4)]
    namespace.create_pods(names)
    account = namespace.create_account(rules=without(find(shipped, "Role")["rules"], resource, verb))
    router = start_in(namespace, {"REDIS_URL": redis_server.url, **redis_servers.QUICK, **COMPLETE}, account=account)
    text, members = MISSING[resource, verb]
    if (resource, verb) in (("pods", "get"), ("pods", "patch")):
        # These two are for pods with calls.
        wait_until(lambda: router.get("/api/v1/pods").json()["total"] == len(names), "it lists")
        calls = {router.allocate(f"CA{number}")["pod_name"]: f"CA{number}" for number in range(len(names))}
        if verb == "get":
            namespace.label_pod(names[0], app=None)
    said = lambda: [line for line in router.log_lines() if line["msg"].startswith(text)]
    line = wait_until(said, "it names what is missing")[0]
    assert members.items() <= line.items()
    if verb == "get" and resource == "pods":
        assert "403" in line["error"] and "cannot get resource" in line["error"], line
        assert router.get(f"/api/v1/pod/{names[0]}").json()["calls"] == [calls[names[0]]]  # it stays
    else:
        assert line["namespace"] == namespace.name
    # The process is well: it can decide about calls, and serves them with what it knows.
    assert router.get("/health").status_code == 200 and router.get("/ready").status_code == 200

    # With the verb it recovers; except marks, which are tried again after five minutes.
    account.set_rules(find(shipped, "Role")["rules"])
    if resource == "leases":
        wait_until(lambda: router.get("/api/v1/status").json()["is_leader"], "it leads")
    if resource == "pods" and verb in ("list", "watch"):
        namespace.create_pod("agent-9")
        wait_until(lambda: router.get("/api/v1/pods").json()["total"] == len(names) + 1, "it follows the pods")
    if resource == "pods" and verb == "get":
        namespace.end_pod(names[0])
        wait_until(lambda: router.log_lines("call ended"), "it knows that the pod is gone")


# ----- The agents' preStop hooks -----


def hook_of(kind, tmp_path, router, pod):
    """The command and the environment of the hook, as the kubelet would run it in the agent's container."""
    (container,) = find(built(f"agents/{kind.lower()}"), kind)["spec"]["template"]["spec"]["containers"]
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    (mount,) = container["volumeMounts"]
    assert {"POD_NAME", "SMART_ROUTER_URL"} <= {entry["name"] for entry in container["env"]}
    key = tmp_path / "api-key"
    key.write_text("the-secret-of-the-agents\n")
    key.chmod(0o600)
    assert f"{mount['mountPath']}/api-key" in command[-1]
    programs = tmp_path / "bin"
    programs.mkdir()
    os.symlink(BINARY, programs / "smart-router")
    env = {"PATH": f"{programs}:/usr/bin:/bin", "POD_NAME": pod, "SMART_ROUTER_URL": router.url}
    # The router answers every second instead of every minute, so that the hook has to ask again.
    text = command[-1].replace(mount["mountPath"], str(tmp_path)).replace("timeout_seconds=60", "timeout_seconds=1")
    return [*command[:-1], text], env


def metric(router, series, headers):
    lines = router.get("/metrics", headers=headers).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(series + " "))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_hook_of_an_agent_waits_for_its_calls(namespace, start_in, tmp_path, kind):
    if kind == "StatefulSet" and not shutil.which("curl"):
        pytest.skip("there is no curl")
    keys = tmp_path / "keys"
    keys.write_text("ops admin the-secret-of-operators\nagents agent=agent-* the-secret-of-the-agents\n")
    keys.chmod(0o600)
    admin = {"Authorization": "Bearer the-secret-of-operators"}
    namespace.create_pod("agent-0")
    router = start_in(namespace, {"API_KEYS_FILE": str(keys), "RECONCILE_INTERVAL": "1s"})
    wait_until(lambda: router.get("/api/v1/pods", headers=admin).json().get("total") == 1, "it lists")
    assert router.post("/api/v1/allocate", {"call_sid": "CA1"}, headers=admin).status_code == 200

    # As the kubelet does: the pod is terminating, its hook runs, and it stays until that has ended.
    namespace.delete_pod("agent-0")
    command, env = hook_of(kind, tmp_path, router, "agent-0")
    hook = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        state = lambda: router.get("/api/v1/pod/agent-0", headers=admin).json().get("state")
        wait_until(lambda: state() == "draining", "the pod drains")
        asked = 'http_requests_total{method="GET",endpoint="/api/v1/pod/{name}/drained",status="%s"}'
        answers = lambda status: metric(router, asked % status, admin)
        if kind == "StatefulSet":
            wait_until(lambda: answers("202") >= 2 or hook.poll() is not None, "it asks again")
        with pytest.raises(subprocess.TimeoutExpired):
            hook.wait(1)
        assert router.post("/api/v1/release", {"call_sid": "CA1"}, headers=admin).status_code == 200
        output, errors = hook.communicate(timeout=kube.PATIENCE_S)
        assert hook.returncode == 0, (output, errors)
        assert answers("200") == 1
    finally:
        if hook.poll() is None:
            os.killpg(hook.pid, signal.SIGKILL)
        hook.communicate()
