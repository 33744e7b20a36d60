"""An API server that is restored from a backup: its versions begin again, and a watch from the old ones is silent.

KUBE_SILENT=1 also lets the connection of the watch stay open and dead meanwhile, which takes minutes to be noticed.
"""

import os
import time

import kube
import pytest
from conftest import wait_until
from test_kubernetes import ended, pods, wait_for_pods
from test_kubernetes_rows import ENV, POD, PODS, RESTORED, call_on, expect

WAYS = ["closed", "swapped", *(["silent"] if os.environ.get("KUBE_SILENT") else [])]
VERSIONS = 400  # of changes that the backup does not have: more than the server makes by itself in a minute
SILENT_S = 240


@pytest.fixture(scope="module")
def plane():
    """One of its own: others would lose their pods."""
    plane = kube.ControlPlane()
    yield plane
    plane.stop()


@pytest.fixture
def line(plane):
    line = kube.Line(plane)
    yield line
    line.close()


def wait_long(condition):
    """For what only a timer notices; wait_for_pods() judges it."""
    end = time.monotonic() + SILENT_S
    while not condition() and time.monotonic() < end:
        time.sleep(1)


def raise_versions(namespace, name):
    for i in range(VERSIONS):
        namespace.label_pod(name, number=str(i))


@pytest.mark.parametrize("way", WAYS)
def test_after_a_restore_the_pods_are_those_that_there_are(way, plane, line, start_in):
    """closed: connections are refused until it is over. swapped: one server takes the other's place behind the line."""
    namespace = plane.create_namespace()
    namespace.create_pods(PODS)
    account = namespace.account()
    # No full sync: it would list again now and then.
    env = {**ENV, "RECONCILE_INTERVAL": "1h", "KUBECONFIG": account.kubeconfig(server=line.url)}
    router = start_in(namespace, env)
    wait_for_pods(router, PODS)
    call_sid = call_on(router, POD)
    backup = plane.back_up()

    # What the backup does not have.
    namespace.create_pod("ghost-0")
    wait_for_pods(router, [*PODS, "ghost-0"])
    ghost = call_on(router, "ghost-0")
    raise_versions(namespace, "ghost-0")
    namespace.create_pod("ghost-1")
    wait_for_pods(router, [*PODS, "ghost-0", "ghost-1"])

    if way == "closed":
        line.cut()
    else:
        line.swallow()
    plane.restore(backup)
    if way == "closed":
        line.mend()
    elif way == "swapped":
        line.drop()

    # What happens from now on has versions that were there before.
    namespace.end_pod("agent-2")
    namespace.create_pod("agent-3")
    expected = {"agent-0", "agent-1", "agent-3"}
    if way == "silent":
        wait_long(lambda: set(pods(router)) == expected)
    wait_for_pods(router, expected)
    wait_until(lambda: ended(router, ghost) == [("ghost-0", "pod_gone")], "the call of a pod that never was has ended")
    expect(RESTORED, router, call_sid)
    namespace.create_pod("agent-4")
    wait_for_pods(router, [*expected, "agent-4"])
