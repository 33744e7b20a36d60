"""The chart and the manifests of deploy/kubernetes: a real API server takes them, others' judges find nothing wrong with
them, and they are one source."""

import itertools
import json
import os
import re
import subprocess

import basics
import pytest
import yaml
from conftest import DEADLINE_S, ROOT
from manifests import CHART, KUSTOMIZE, built, find, judges, objects_in, render, rendered, run_judge, write_files

EXAMPLES = CHART / "examples"
OVERLAYS = ("nginx", "sentinel", "tls")
COMPONENTS = sorted(path.name for path in (KUSTOMIZE / "components").iterdir())


def together(overlays):
    return [EXAMPLES / f"{overlay}.yaml" for overlay in overlays]


# Every combination of the overlays' values, and the chart's own extremes.
VALUES = {"+".join(some) or "default": together(some) for n in range(4) for some in itertools.combinations(OVERLAYS, n)}
VALUES.update({name: [EXAMPLES / f"{name}.yaml"] for name in ("everything", "small")})
VALUES.update({f"{name}+{'+'.join(OVERLAYS)}": [EXAMPLES / f"{name}.yaml", *together(OVERLAYS)] for name in ("everything", "small")})


@pytest.fixture
def build_with(tmp_path):
    """build_with(directory, components) -> what kustomize builds of both."""

    def build(directory, components):
        relative = lambda path: os.path.relpath(KUSTOMIZE / path, tmp_path)
        text = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [relative(directory)],
            "components": [relative(f"components/{name}") for name in components],
        }
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(text))
        return built(tmp_path)

    return build


# ----- The API server -----


class Server:
    """An API server that knows the objects of KEDA and of the Prometheus Operator, too."""

    def __init__(self, plane):
        self.plane = plane
        self.api = plane.api
        self.resources = {}
        self.namespace = plane.create_namespace()
        self.api.create("/api/v1/namespaces", {"metadata": {"name": "voice-agents"}})
        self._define()

    def _define(self):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for file in sorted(os.listdir(judges()["crds"])):
            with open(f"{judges()['crds']}/{file}", encoding="utf-8") as text:
                definition = yaml.safe_load(text)
            name = self.api.create(path, definition)["metadata"]["name"]
            established = {"type": "Established", "status": "True"}
            basics.wait_until(
                lambda n=name: any(
                    established.items() <= condition.items()
                    for condition in self.api.get(f"{path}/{n}").get("status", {}).get("conditions") or []
                ),
                f"{name} is there", DEADLINE_S,
            )

    def place(self, thing):
        """The path of the collection that the object belongs into."""
        group = thing["apiVersion"]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        if group not in self.resources:
            self.resources[group] = {r["kind"]: r for r in self.api.get(root)["resources"] if "/" not in r["name"]}
        resource = self.resources[group][thing["kind"]]
        where = f"namespaces/{thing['metadata'].get('namespace', self.namespace.name)}/" if resource["namespaced"] else ""
        return f"{root}/{where}{resource['name']}"

    def judge(self, things):
        """Checked in full, unknown and repeated fields refused, nothing kept: `kubectl apply --dry-run=server`."""
        strictly = {"dryRun": "All", "fieldValidation": "Strict"}
        for thing in things:
            answer = self.api.request("POST", self.place(thing), params=strictly, json=thing)
            assert answer.status_code == 201, f"{thing['kind']} {thing['metadata']['name']}: {answer.text}"


@pytest.fixture(scope="module")
def server(control_plane):
    return Server(control_plane)


@pytest.mark.parametrize("case", VALUES)
def test_the_server_takes_the_chart(server, case):
    server.judge(rendered(files=VALUES[case]))


@pytest.mark.parametrize("directory", ["base", *(f"overlays/{name}" for name in OVERLAYS), "agents/deployment", "agents/statefulset"])
def test_the_server_takes_what_kustomize_builds(server, directory):
    server.judge(built(directory))


@pytest.mark.parametrize("scaler", ["keda", "hpa"])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_takes_every_overlay_with_all_components(server, build_with, overlay, scaler):
    components = [name for name in COMPONENTS if name not in ("keda", "hpa") or name == scaler]
    server.judge(build_with(f"overlays/{overlay}", components))


def test_a_member_that_kubernetes_does_not_know_is_refused(server):
    deployment = find(rendered(), "Deployment")
    deployment["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
    with pytest.raises(AssertionError, match="unknown field"):
        server.judge([deployment])


# ----- helm and kubeconform -----


@pytest.mark.parametrize("case", VALUES)
def test_helm_lint_finds_nothing(case):
    files = [word for file in VALUES[case] for word in ("--values", file)]
    done = run_judge("helm", "lint", "--strict", CHART, *files)
    assert done.returncode == 0, done.stdout


def standalone(schema, definitions, is_top=True):
    """A schema of OpenAPI 2 as JSON schema, without references, in which unknown members are refused."""
    if "$ref" in schema:
        return standalone(definitions[schema["$ref"].removeprefix("#/definitions/")], definitions, False)
    kept = {name: schema[name] for name in ("type", "enum", "required", "pattern", "minimum", "maximum") if name in schema}
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "items" in schema:
        kept["items"] = standalone(schema["items"], definitions, False)
    if isinstance(schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = standalone(schema["additionalProperties"], definitions, False)
    if "properties" in schema:
        kept["properties"] = {n: standalone(s, definitions, False) for n, s in schema["properties"].items()}
        kept["additionalProperties"] = False
    return kept


@pytest.fixture(scope="module")
def schemas(server, tmp_path_factory):
    """A directory with the schemas of the server itself, as kubeconform looks for them."""
    directory = tmp_path_factory.mktemp("schemas")
    wanted = {(t["apiVersion"], t["kind"]) for files in VALUES.values() for t in rendered(files=files)}
    crds = lambda document: any("keda" in name for name in document["definitions"])
    document = basics.wait_until(
        lambda: next(filter(crds, [server.api.get("/openapi/v2")]), None), "the document has all definitions", DEADLINE_S
    )
    for definition in document["definitions"].values():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            version = "/".join(filter(None, (kind["group"], kind["version"])))
            if (version, kind["kind"]) in wanted:
                file = directory / f"{kind['group'] or kind['version']}-{kind['version']}-{kind['kind']}.json".lower()
                file.write_text(json.dumps(standalone(definition, document["definitions"])))
                wanted.remove((version, kind["kind"]))
    assert not wanted
    return directory


def conform(schemas, text):
    place = f"{schemas}/{{{{.Group}}}}-{{{{.ResourceAPIVersion}}}}-{{{{.ResourceKind}}}}.json"
    return run_judge("kubeconform", "-strict", "-summary", "-schema-location", place, "-", input=text)


@pytest.mark.parametrize("case", VALUES)
def test_kubeconform_finds_nothing(schemas, case):
    done = conform(schemas, render(files=VALUES[case]).stdout)
    assert done.returncode == 0 and ", Errors: 0, Skipped: 0" in done.stdout, done.stdout + done.stderr


def test_kubeconform_would_find_something(schemas):
    done = conform(schemas, render().stdout.replace("terminationGracePeriodSeconds", "terminationGracePeriod"))
    assert done.returncode != 0 and "terminationGracePeriod" in done.stdout


# ----- One source -----


def test_the_base_and_the_components_are_what_the_chart_renders():
    done = subprocess.run([ROOT / "scripts/kube-manifests", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def comparable(things):
    """By kind and name; lists whose members have names, in the order of these: kustomize has its own order."""

    def sort(value):
        if isinstance(value, dict):
            return {name: sort(member) for name, member in value.items()}
        if isinstance(value, list):
            value = [sort(member) for member in value]
            return sorted(value, key=lambda m: m["name"]) if all(isinstance(m, dict) and "name" in m for m in value) else value
        return value

    return {(thing["kind"], thing["metadata"]["name"]): sort(thing) for thing in things}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_the_chart_with_its_example(overlay):
    chart = comparable(t for t in rendered(files=together([overlay])) if t["kind"] != "Pod")
    overlay = comparable(built(f"overlays/{overlay}"))
    assert {what: thing for what, thing in overlay.items() if "nginx" not in what[1]} == chart


def test_the_packed_chart_has_the_version_of_the_tree_and_is_the_same_twice(tmp_path):
    packed = []
    for name in ("first", "second"):
        done = subprocess.run([ROOT / "scripts/chart", tmp_path / name], capture_output=True, text=True, check=True)
        packed.append(ROOT / done.stdout.strip())
    assert packed[0].read_bytes() == packed[1].read_bytes()
    about = yaml.safe_load(run_judge("helm", "show", "chart", packed[0]).stdout)
    assert packed[0].name == f"smart-router-{about['version']}.tgz" and about["appVersion"] == about["version"]
    assert run_judge("helm", "lint", "--strict", packed[0]).returncode == 0
    image = find(objects_in(run_judge("helm", "template", "x", packed[0]).stdout), "Deployment")
    (container,) = image["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"smart-router:{about['version'].replace('+', '-')}"


# ----- Values -----


REFUSED = {
    "replcas=2": "'replcas' not allowed",
    "image.name=x": "'name' not allowed",
    "secret.keys.REDIS_URI=x": "'REDIS_URI' not allowed",
    "secret.keys.REDIS_URL=": "/secret/keys/REDIS_URL",
    "replicas=0": "/replicas",
    "agents.port=70000": "/agents/port",
    "settings.HTTP_PORT=8081": "/settings/HTTP_PORT",
    "settings.log_level=debug": "'log_level' does not match",
    "service.type=External": "/service/type",
    "autoscaling.with=vpa": "/autoscaling/with",
    "networkPolicy.metrics=null": "/networkPolicy",
    "image.digest=sha256:abc": "/image/digest",
}


@pytest.mark.parametrize("value", REFUSED)
def test_a_wrong_value_is_refused_by_its_name(value):
    done = render(value, check=False)
    assert done.returncode != 0 and REFUSED[value] in done.stderr, done.stderr


@pytest.mark.parametrize(("name", "why"), [("SHUTDOWN_DELAY", "the chart sets it itself"), ("API_KEY", "this is a secret"),
                                           ("API_KEY_FILE", "this is a secret"), ("HTTP_PORT", "the chart sets it itself")])
def test_a_setting_that_has_a_value_of_its_own_is_refused(tmp_path, name, why):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"settings": {name: "1s"}}))
    done = render(files=[file], check=False)
    assert done.returncode != 0 and f"settings.{name}: {why}" in done.stderr


def test_the_schema_knows_exactly_the_values_and_refuses_others():
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(values, schema, path):
        assert schema["additionalProperties"] is False, path
        assert set(schema["properties"]) - {"global"} == set(values), path
        for name, member in values.items():
            if "properties" in schema["properties"][name]:
                compare(member, schema["properties"][name], f"{path}.{name}")

    compare(values, json.loads((CHART / "values.schema.json").read_text()), "values")


def test_the_document_has_every_value():
    done = subprocess.run([ROOT / "scripts/chart-values", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def alerts(*values):
    (group,) = find(rendered("monitoring.enabled=true", *values), "PrometheusRule")["spec"]["groups"]
    return group["rules"]


@pytest.mark.parametrize("name", ["smart-router", "other"])
def test_the_alerts_are_those_of_the_rules_about_the_job_of_this_release(name):
    """test_monitoring.py judges the rules themselves."""
    text = (ROOT / "deploy/monitoring/rules.yaml").read_text()
    wanted = yaml.safe_load(text.replace('job="smart-router"', f'job="{name}-metrics"'))["groups"][0]["rules"]
    assert alerts(f"fullnameOverride={name}") == wanted
    assert all(f'job="{name}-metrics"' in alert["expr"] for alert in wanted)


# ----- The parts belong together -----


def test_the_names_belong_together():
    for files in VALUES.values():
        things = rendered(files=files)
        pods = find(things, "Deployment")["spec"]["template"]
        account, binding = find(things, "ServiceAccount"), find(things, "RoleBinding")
        assert [subject["name"] for subject in binding["subjects"]] == [account["metadata"]["name"]]
        assert binding["roleRef"]["name"] == find(things, "Role")["metadata"]["name"]
        assert pods["spec"]["serviceAccountName"] == account["metadata"]["name"]
        ports = {port["name"] for port in pods["spec"]["containers"][0]["ports"]}
        for service in [thing for thing in things if thing["kind"] == "Service"]:
            assert service["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
        assert not [thing for thing in things if thing["kind"] in ("ClusterRole", "ClusterRoleBinding", "Secret")]


def test_the_service_that_providers_reach_has_no_port_without_keys():
    service = find(built("overlays/tls"), "Service", "smart-router")
    assert {port["targetPort"] for port in service["spec"]["ports"]} == {"http", "https"}


def test_nginx_and_the_service_agree():
    conf = (ROOT / "deploy/nginx/smart-router.conf").read_text()
    name, port = re.search(r"server ([\w-]+)\.default\.svc\.cluster\.local:(\d+);", conf).groups()
    things = built("overlays/nginx")
    assert int(port) in [port["port"] for port in find(things, "Service", name)["spec"]["ports"]]
    nginx = find(things, "Deployment", "smart-router-nginx")["spec"]["template"]["spec"]
    listening = {int(number) for number in re.findall(r"^ *listen (\d+)", conf, re.MULTILINE)}
    assert {port["containerPort"] for port in nginx["containers"][0]["ports"]} == listening


def pods_of(things):
    return [thing["spec"]["template"]["spec"] for thing in things if thing["kind"] in ("Deployment", "StatefulSet")]


def test_every_container_runs_with_as_little_as_it_needs():
    everything = rendered(files=[EXAMPLES / "everything.yaml"])
    pods = [find(everything, "Pod")["spec"], *pods_of(everything), *pods_of(built("overlays/nginx"))]
    pods += [pod for kind in ("deployment", "statefulset") for pod in pods_of(built(f"agents/{kind}"))]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
    assert [pod["automountServiceAccountToken"] for pod in pods].count(True) == 2  # the routers of both
    assert find(everything, "ServiceAccount")["automountServiceAccountToken"] is False


def seconds_of(duration):
    assert re.fullmatch(r"\d+[smh]", duration)
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


@pytest.mark.parametrize("case", VALUES)
def test_a_router_that_is_replaced_has_time_for_its_streams(run_router, case):
    deployment = find(rendered(files=VALUES[case]), "Deployment")["spec"]
    pod = deployment["template"]["spec"]
    env = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    needed = sum(seconds_of(env[name]) for name in ("SHUTDOWN_DELAY", "HTTP_SHUTDOWN_TIMEOUT"))
    needed += seconds_of(env.get("GATEWAY_DRAIN_TIMEOUT") or env["CALL_MAX_DURATION"])
    assert pod["terminationGracePeriodSeconds"] >= needed + 30
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    # Not ready is not dead: only METRICS_PORT answers until the exit.
    (container,) = pod["containers"]
    for probe, path, port in (("startup", "/health", "metrics"), ("liveness", "/health", "metrics"), ("readiness", "/ready", "http")):
        assert container[f"{probe}Probe"]["httpGet"] == {"path": path, "port": port}
    agents = pods_of(built("agents/deployment"))[0]
    assert agents["terminationGracePeriodSeconds"] > seconds_of(env["CALL_MAX_DURATION"])


@pytest.mark.parametrize("case", VALUES)
def test_the_environment_is_one_that_the_router_takes(namespace, run_router, tmp_path, case):
    env = write_files(tmp_path, find(rendered(files=VALUES[case]), "Deployment")["spec"]["template"]["spec"])
    env.update(STATIC_PODS=None, KUBERNETES_SERVICE_HOST="10.0.0.1")
    env["SERVICE_ACCOUNT_DIR"] = namespace.account().write_mount(tmp_path / "mount")
    done = run_router(env, args=["check-config"])
    assert done.returncode == 0, done.output
    for name in env:
        assert re.search(rf"^{name.removesuffix('_FILE')}", done.stdout.decode(), re.MULTILINE), name


# ----- Who may talk to whom -----


def network(things, name):
    """The labels of the pods that a NetworkPolicy is about, and {(direction, port): peers}."""
    policy = find(things, "NetworkPolicy", name)["spec"]
    allowed = {}
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for rule in policy.get(direction, []):
            for port in rule["ports"]:
                allowed.setdefault((direction, port["port"]), []).extend(rule.get(peers, ["anywhere"]))
    return policy["podSelector"]["matchLabels"], allowed


def test_the_network_policies_are_about_the_ports_and_pods_of_the_deployment(run_router):
    things = rendered("networkPolicy.enabled=true")
    template = find(things, "Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    env = {entry["name"]: entry.get("value") for entry in container["env"]}
    defaults = run_router({"HTTP_PORT": None, "METRICS_PORT": None}, args=["check-config"]).stdout.decode()
    for name in ("http", "metrics"):  # the Deployment sets neither, so the router listens where it does by default
        assert re.search(rf"^{name.upper()}_PORT={ports[name]}\b", defaults, re.MULTILINE)
    agents = dict(label.split("=") for label in env["POD_LABEL_SELECTOR"].split(","))
    port = int(env["VOICE_AGENT_PORT"])

    routers, allowed = network(things, "smart-router")
    assert routers.items() <= template["metadata"]["labels"].items()
    assert {number for direction, number in allowed if direction == "ingress"} == {*ports.values(), 8443}
    in_namespace = lambda name: {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    assert allowed["ingress", ports["metrics"]] == [in_namespace("monitoring"), in_namespace("keda")]
    assert {"podSelector": {"matchLabels": agents}} in allowed["ingress", ports["http"]]
    assert "anywhere" not in allowed["ingress", ports["http"]]
    assert allowed["egress", port] == [{"podSelector": {"matchLabels": agents}}]
    assert {number for direction, number in allowed if direction == "egress"} == {53, 443, 6443, 6379, 26379, port}

    # So that the component fits to every overlay.
    tls = find(built("overlays/tls"), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert allowed["ingress", 8443] == allowed["ingress", ports["http"]]
    assert {port["containerPort"] for port in tls["ports"]} == {*ports.values(), 8443}
    nginx = find(built("overlays/nginx"), "Deployment", "smart-router-nginx")["spec"]["template"]["metadata"]["labels"]
    assert {"podSelector": {"matchLabels": nginx}} in allowed["ingress", ports["http"]]

    labels, allowed = network(things, "smart-router-agents")
    assert labels == agents
    assert allowed == {("ingress", port): [{"podSelector": {"matchLabels": routers}}]}
    for kind, name in (("deployment", "Deployment"), ("statefulset", "StatefulSet")):
        assert find(built(f"agents/{kind}"), name)["spec"]["template"]["metadata"]["labels"] == agents
