"""The rules and the dashboard of deploy/monitoring, the metrics that their queries name, and promtool as their judge."""

import functools
import json
import pathlib
import re
import subprocess

import basics
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/monitoring"
PATIENCE_S = 60
WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "inf", "nan"}
SUFFIXES = ("_bucket", "_sum", "_count")


@functools.cache
def find_promtool():
    """(its path, why it is missing)"""
    done = subprocess.run([str(ROOT / "scripts/promtool"), "--find"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.stdout.strip().partition("=")[2], done.stderr.strip()


def promtool(*args, **kwargs):
    """Runs it: (exit status, everything that it prints). Skips the test where it is missing; in CI that is a failure."""
    path, reason = find_promtool()
    if not path:
        basics.skip(reason)
    done = subprocess.run(
        [path, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False, **kwargs
    )
    return done.returncode, done.stdout


def rules():
    """The alarms, as they stand in rules.yaml."""
    (group,) = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    return group["rules"]


def dashboard():
    return json.loads((FOLDER / "dashboard.json").read_text())


def panel_queries():
    """[(title, query)] of all panels."""
    return [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel.get("targets", [])]


def metric_names(query):
    """The metrics that a query asks for: names that are no function, no keyword, and stand outside braces and label lists."""
    query = re.sub(r'"(?:[^"\\]|\\.)*"', "", query)
    query = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", query)
    query = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", query)
    names = re.findall(r"(?<![\w.])([a-zA-Z_:][\w:]*)(?!\w)(?!\s*\()", query)
    return {name for name in names if name.lower() not in WORDS}


def label_names(query):
    """{metric: the labels by which the query selects it}; job and instance come from Prometheus."""
    found = {}
    for name, inside in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", re.sub(r'(?<!\\)"(?:[^"\\]|\\.)*"', '""', query)):
        found.setdefault(name, set()).update(re.findall(r"([a-z_]+)\s*[=!]", inside))
    return found


def family(name, families):
    """The family of a sample's name; None: there is none."""
    if name in families:
        return name
    for suffix in SUFFIXES:
        if name.endswith(suffix) and families.get(name.removesuffix(suffix)) == "histogram":
            return name.removesuffix(suffix)
    return None
