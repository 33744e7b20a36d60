"""What pods and their statuses look like, as a kubelet writes them."""

import datetime
import time


def timestamp(unix=None):
    """In whole seconds, as Kubernetes has them."""
    moment = datetime.datetime.fromtimestamp(int(time.time() if unix is None else unix), datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_spec(containers=("agent",), node="node-1"):
    """Scheduled, so that a deleted pod stays until its kubelet has ended it."""
    return {
        "nodeName": node,
        "terminationGracePeriodSeconds": 3600,
        "automountServiceAccountToken": False,
        "containers": [{"name": name, "image": name} for name in containers],
    }


def pod_status(ip, phase, ready, statuses):
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    if ip:
        status.update(podIP=ip, podIPs=[{"ip": ip}])
    return {**status, "containerStatuses": statuses}


def container_statuses(pod, order, is_running, is_ready, started_at):
    """One for each container of the pod; a container that runs already goes on."""
    known = {status["name"]: status for status in pod["status"].get("containerStatuses") or []}
    names = order or list(known) or [container["name"] for container in pod["spec"]["containers"]]
    return [_container_status(name, known.get(name), is_running, is_ready, started_at) for name in names]


def _container_status(name, known, is_running, is_ready, started_at):
    status = dict(known or {"name": name, "image": name, "imageID": name, "restartCount": 0, "state": {}})
    status["ready"] = is_ready
    if not is_running:
        status["state"] = {"waiting": {"reason": "ContainerCreating"}}
    elif "running" not in status["state"] or started_at is not None:
        status["state"] = {"running": {"startedAt": timestamp(started_at)}}
    return status


def restarted(status, started_at):
    """The container's status after it has ended and was started again."""
    began = status["state"].get("running", {}).get("startedAt")
    ended = {"exitCode": 137, "reason": "Error", "startedAt": began, "finishedAt": timestamp(started_at)}
    return {
        **status,
        "restartCount": status["restartCount"] + 1,
        "lastState": {"terminated": ended},
        "state": {"running": {"startedAt": timestamp(started_at)}},
    }
