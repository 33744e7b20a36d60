"""Programs of others read /openapi.json: a validator finds no fault in it, and a client that is generated from it works."""

import json
import re
import subprocess

import basics
import pytest
from conftest import ROOT

KEY = "key-of-the-generated-client"


@pytest.fixture(scope="module")
def judge():
    """The interpreter that has the judges."""
    done = subprocess.run([ROOT / "scripts" / "openapi-judges", "--find"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        basics.skip(done.stderr.strip())
    return done.stdout.strip().removeprefix("python=")


@pytest.fixture
def router(start_router):
    return start_router({"API_KEY": KEY})


@pytest.fixture
def document(router, tmp_path):
    path = tmp_path / "openapi.json"
    path.write_text(router.get("/openapi.json").text)
    return path


def run(*args, cwd=None):
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True, cwd=cwd, timeout=180, check=False)
    return done.returncode, done.stdout + done.stderr


def validate(judge, path):
    return run(judge, "-m", "openapi_spec_validator", "--schema", "3.1", path)


def test_the_document_is_valid_openapi_3_1(judge, document):
    status, output = validate(judge, document)
    assert status == 0, output


@pytest.mark.parametrize("fault", ["a reference to nothing", "an unknown place"])
def test_the_validator_sees_faults(judge, document, fault):
    """It is a judge only if it can refuse."""
    value = json.loads(document.read_text())
    operation = value["paths"]["/api/v1/pod/{name}"]["get"]
    if fault == "an unknown place":
        operation["parameters"][0]["in"] = "body"
    else:
        operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"] += "x"
    document.write_text(json.dumps(value))
    assert validate(judge, document)[0] != 0


def test_a_generated_client_allocates_and_releases(judge, router, document, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"post_hooks": []}))
    package = tmp_path / "generated"
    made = ["--path", document, "--output-path", package, "--meta", "none", "--config", config]
    status, output = run(judge, "-m", "openapi_python_client", "generate", *made, cwd=tmp_path)
    assert status == 0, output
    # It knows no XML, and no files. It leaves nothing else out.
    left_out = [line.split()[3] for line in output.splitlines() if line.startswith("WARNING parsing")]
    assert {path for path in left_out if not re.match("/api/v1/(twilio|plivo)/", path)} <= {"/", "/ui/{file}"}, output

    status, output = run(judge, ROOT / "test" / "openapi" / "client.py", tmp_path, "generated", router.url, KEY)
    assert status == 0, output
    answer = json.loads(output)
    assert answer["types"] == ["Allocation", "Call", "PodPage", "Release", "Error"]
    assert answer["shown"]["call_sid"] == "CA-generated" and answer["shown"]["pod_name"] == answer["pod"]
    assert answer["pods"] == [answer["pod"]] and answer["released_to"] == "pool:gold"
    assert answer["again"] == {"success": False, "error": "call not found", "code": "not_found"}
    assert answer["tiers"] == ["basic", "gold", "standard"]
    assert router.get("/api/v1/calls").json()["total"] == 0
