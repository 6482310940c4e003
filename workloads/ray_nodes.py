"""A Ray cluster of several nodes on this machine, run by the Python that has Ray:

    python workloads/ray_nodes.py DASHBOARD_PORT RESOURCES.json…

A node for each list of resources. Prints "ready", ends a node for each line "end N" that it reads,
and all with its standard input.
"""

import json
import os
import socket
import sys
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_agent_register_timeout_ms"] = "300000"

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


def _ports() -> dict[str, int]:
    """Of a node's agents: a raylet that knows them does not wait for the agents to say them."""
    free = {}
    for name in ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port",
                 "dashboard_agent_listen_port"):
        with socket.socket() as made:
            made.bind(("127.0.0.1", 0))
            free[name] = made.getsockname()[1]
    return free


def main() -> None:
    port, *resources = sys.argv[1:]
    cluster = Cluster()
    cluster.add_node(wait=False, num_cpus=1, include_dashboard=True, dashboard_host="127.0.0.1",
                     dashboard_port=int(port), object_store_memory=_MEMORY, **_ports())
    nodes = [cluster.add_node(wait=False, num_cpus=1, object_store_memory=_MEMORY,
                              resources=json.loads(text), **_ports()) for text in resources]
    cluster.wait_for_nodes(timeout=_SECONDS)
    print("ready", flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line.split()[1])])
        print("ended", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
