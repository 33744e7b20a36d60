"""Drives a router with a client that was generated from its OpenAPI document: client.py FOLDER PACKAGE URL KEY

Prints what the client read, as JSON. It knows the API by the document alone.
"""

import importlib
import json
import sys

folder, package, url, key = sys.argv[1:]
sys.path.insert(0, folder)


def module(name):
    return importlib.import_module(f"{package}.{name}")


def call(name, **arguments):
    """What the operation `group.name` answers: a model of the client."""
    return module(f"api.{name}").sync(client=client, **arguments)


client = module("client").AuthenticatedClient(base_url=url, token=key)
models = module("models")
mine = {"call_sid": "CA-generated"}
with client:
    allocation = call("calls.allocate", body=models.AllocateBody.from_dict(mine))
    shown = call("calls.get_call", sid="CA-generated")
    pods = call("pods.list_pods", tier="gold", limit=5)
    release = call("calls.release", body=models.ReleaseBody.from_dict(mine))
    again = call("calls.release", body=models.ReleaseBody.from_dict(mine))
    tiers = call("configuration.get_tiers")
    answer = {
        "types": [type(one).__name__ for one in (allocation, shown, pods, release, again)],
        "pod": allocation.pod_name,
        "allocated_at": allocation.allocated_at.isoformat(),
        "shown": shown.to_dict(),
        "pods": [pod.pod_name for pod in pods.pods],
        "released_to": release.released_to_pool,
        "again": again.to_dict(),
        "tiers": sorted(tiers.to_dict()["tiers"]),
    }
print(json.dumps(answer))
