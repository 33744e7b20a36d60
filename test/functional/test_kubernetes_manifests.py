"""What deploy/kubernetes has is what a real API server takes, and its Role is enough for all that the router does."""

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
}


def objects():
    return [(file.name, thing) for file in FILES for thing in yaml.safe_load_all(file.read_text())]


def find(kind):
    (found,) = [thing for _, thing in objects() if thing["kind"] == kind]
    return found


@pytest.mark.parametrize(("file", "thing"), [pytest.param(*o, id=o[1]["kind"]) for o in objects()])
def test_the_server_takes_it(namespace, file, thing):
    what, group = PLACES[thing["kind"]]
    assert thing["apiVersion"] == group
    # As `kubectl apply --dry-run=server`: checked in full, unknown fields refused, nothing kept.
    answer = namespace.api.request(
        "POST", namespace.path(what, group=group), params={"dryRun": "All", "fieldValidation": "Strict"}, json=thing
    )
    assert answer.status_code == 201, f"{file}: {answer.text}"


def test_they_belong_together():
    account, binding, pods = find("ServiceAccount"), find("RoleBinding"), find("Deployment")["spec"]["template"]
    assert [subject["name"] for subject in binding["subjects"]] == [account["metadata"]["name"]]
    assert binding["roleRef"]["name"] == find("Role")["metadata"]["name"]
    assert pods["spec"]["serviceAccountName"] == account["metadata"]["name"]
    service = find("Service")["spec"]
    assert service["selector"].items() <= pods["metadata"]["labels"].items()
    ports = {port["name"] for port in pods["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in service["ports"]} <= ports


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


def test_the_role_is_enough(namespace, redis_server, start_in):
    account = namespace.create_account(rules=find("Role")["rules"])
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
