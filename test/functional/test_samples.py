"""The data of older releases (test/data) is read with everything in it, and this version goes on with it.

scripts/make-sample makes a sample. The clock in it is in the year 2100, and the store's clock never goes back: no lease
in it has run out, whenever the test runs.
"""

import json
import shutil

import pytest
from conftest import ROOT

DATA = ROOT / "test/data"
CHANGED = "the data is of an older version; from now on only this version or a newer one reads it"
SAMPLES = sorted(path.parent for path in DATA.glob("*/sample.json"))


def releases():
    lines = (DATA / "releases").read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def format_of(path):
    return int.from_bytes(path.read_bytes()[8:12], "little")


def common(expected, found):
    """What the sample's version knew; later versions show more."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return {key: common(value, found[key]) for key, value in expected.items() if key in found}
    if isinstance(expected, list) and isinstance(found, list):
        return [common(*pair) for pair in zip(expected, found)] + found[len(expected) :]
    return found


def expect_same(router, sample):
    get = lambda path: router.get(path).json()
    by = lambda key, rows: sorted(rows, key=lambda row: row[key])
    found = {
        "calls": by("call_sid", get("/api/v1/calls?limit=1000")["calls"]),
        "pods": by("pod_name", get("/api/v1/pods?limit=1000")["pods"]),
        "merchants": get("/api/v1/merchants")["merchants"],
        "tiers": get("/api/v1/tiers"),
        "histories": {path: get(path) for path in sample["histories"]},
        "waiting": get("/api/v1/waiting")["waiting"],
    }
    sample = {"waiting": [], **sample}  # 0.1.0 knew no calls that wait
    expected = {name: sample[name] for name in found}
    expected["calls"], expected["pods"] = by("call_sid", sample["calls"]), by("pod_name", sample["pods"])
    for call, was in zip(found["calls"], expected["calls"]):
        # At a start every call gets at least LEASE_TTL: nobody could renew it meanwhile. CALL_MAX_DURATION is longer.
        is_renewed = was["expires_at"] < call["expires_at"] < sample["calls"][0]["expires_at"]
        # The stream of a call that the gateway renewed last has ended with its router: a minute to come back.
        is_cut = was.get("renewed_by") == "gateway"
        call["expires_at"] = was["expires_at"] if is_renewed or is_cut else call["expires_at"]
    assert common(expected, found) == expected


def expect_ended(router, sample):
    """A call whose end is recorded is not brought back by its pod."""
    answer = router.post("/api/v1/pod/self-standard/heartbeat", {"call_sids": sample["ended"]}).json()
    assert sorted(answer["ended"]) == sorted(sample["ended"]) and answer["adopted"] == [], answer


def test_every_release_has_a_sample_of_its_format():
    assert releases()
    for name, _, version in releases():
        files = sorted((DATA / name).glob("*.0*"))
        assert {path.name.split(".")[0] for path in files} == {"log", "snapshot"}, f"scripts/make-sample {name}"
        assert {format_of(path) for path in files} == {int(version)}


@pytest.mark.parametrize("directory", SAMPLES, ids=lambda path: path.name)
def test_the_data_of_a_release_is_read_and_used(directory, tmp_path, start_router):
    sample = json.loads((directory / "sample.json").read_text())
    data = tmp_path / "data"
    shutil.copytree(directory, data, ignore=shutil.ignore_patterns("*.json"))
    router = start_router(sample["env"], data_dir=data)
    expect_same(router, sample)
    expect_ended(router, sample)
    # An older program refuses what is written from now on, because of the file's header.
    is_older = format_of(max(directory.glob("log.*"))) < format_of(max(data.glob("log.*")))
    assert len(router.log_lines(CHANGED)) == is_older

    call = sample["calls"][0]
    assert router.allocate(call["call_sid"])["was_existing"]
    assert router.release(call["call_sid"])["pod_name"] == call["pod_name"]
    assert router.post("/api/v1/renew", {"call_sid": "renewed-1"}).status_code == 200
    assert router.put("/api/v1/merchants/acme", {"tier": "gold"}).status_code == 200
    lasting = lambda: [{**call, "expires_at": None} for call in router.state()["calls"]["calls"]]  # see expect_same
    before = lasting(), router.state()["merchants"], router.state()["tiers"]
    router.kill()
    router = start_router(sample["env"], data_dir=data)
    assert (lasting(), router.state()["merchants"], router.state()["tiers"]) == before
