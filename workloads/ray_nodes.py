"""A Ray cluster of several nodes on this machine, run by the Python that has Ray:

    python workloads/ray_nodes.py DASHBOARD_PORT RESOURCES.json…

A node for each list of resources. Prints "ready", ends a node for each line "end N" that it reads,
and all with its standard input.
"""

import json
import os
import sys
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray._private.services as services  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

_SECONDS = 300
_MEMORY = 80 << 20
_get_node = services.get_node


def _patient(*given):
    """Ray gives a node 30 s to start, which a busy machine exceeds."""
    end = time.monotonic() + _SECONDS
    while True:
        try:
            return _get_node(*given)
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


services.get_node = _patient


def main() -> None:
    port, *resources = sys.argv[1:]
    cluster = Cluster()
    cluster.add_node(wait=False, num_cpus=1, include_dashboard=True, dashboard_host="127.0.0.1",
                     dashboard_port=int(port), object_store_memory=_MEMORY)
    nodes = [cluster.add_node(wait=False, num_cpus=1, object_store_memory=_MEMORY,
                              resources=json.loads(text)) for text in resources]
    cluster.wait_for_nodes(timeout=_SECONDS)
    print("ready", flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line.split()[1])])
        print("ended", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
