"""What is shipped for Kubernetes, as objects: the chart with some values, and what kustomize builds."""

import functools
import pathlib
import subprocess

import basics
import yaml
from kube import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/smart-router"
KUSTOMIZE = ROOT / "deploy/kubernetes"
RELEASE = "smart-router"


@functools.cache
def judges():
    """{name: path} of helm, kubeconform, kustomize and crds. Skips the test where they are missing."""
    done = subprocess.run(
        [ROOT / "scripts/kube-judges", "--find"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode != 0:
        basics.skip(done.stderr.strip())
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def run_judge(name, *args, **kwargs):
    return subprocess.run([judges()[name], *map(str, args)], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S, **kwargs)


def objects_in(text):
    return [thing for thing in yaml.safe_load_all(text) if thing]


def render(*values, files=(), check=True):
    """What `helm template` answers with these --set values and files of values."""
    args = ["template", RELEASE, CHART]
    for value in values:
        args += ["--set", value]
    for file in files:
        args += ["--values", file]
    done = run_judge("helm", *args)
    assert not check or done.returncode == 0, done.stderr
    return done


def rendered(*values, files=()):
    return objects_in(render(*values, files=files).stdout)


def built(directory):
    """What `kustomize build` makes of a directory below deploy/kubernetes."""
    done = run_judge("kustomize", "build", KUSTOMIZE / directory)
    assert done.returncode == 0, done.stderr
    return objects_in(done.stdout)


def find(things, kind, name=None):
    (found,) = [thing for thing in things if thing["kind"] == kind and name in (None, thing["metadata"]["name"])]
    return found


def write_files(tmp_path, pod, **texts):
    """The environment of the router's container, with the files of its volumes below tmp_path. `texts` are theirs."""
    (container,) = pod["containers"]
    env = {entry["name"]: entry.get("value", "x") for entry in container["env"]}
    places = tuple(mount["mountPath"] + "/" for mount in container["volumeMounts"])
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    texts = {"REDIS_URL_FILE": "redis://redis:6379", "API_KEYS_FILE": "ops admin a-key-of-the-test-0123456789", **texts}
    certificate = tmp_path / "tls.pem"
    key = tmp_path / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=x",
                    "-keyout", key, "-out", certificate], capture_output=True, check=True)
    texts.update(TLS_CERT_FILE=certificate.read_text(), TLS_KEY_FILE=key.read_text(), REDIS_TLS_CA_FILE=certificate.read_text())
    for name in [name for name in env if name.endswith("_FILE")]:
        assert env[name].startswith(places), name
        file = tmp_path / env[name].lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(texts.get(name, f"the-secret-of-{name}") + "\n")
        file.chmod(0o440)
        env[name] = str(file)
    return env
