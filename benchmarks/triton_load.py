"""A Triton server beside the engine that it runs: throughput with many requests under way, and the
time of one. Bounded in requests and time; on the loopback.

    triton_load.py ENGINE.vke [--requests 320] [--rounds 5] [--concurrency 16]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

import numpy  # noqa: E402

import torch_vulkan as tv  # noqa: E402

from workloads import triton_process  # noqa: E402

# Runs under the environment of Triton's client: requests over gRPC, so many under way at a time.
CLIENT = """
import json, sys, time
import numpy, tritonclient.grpc as triton
from queue import SimpleQueue
port, name, requests, concurrency, path = sys.argv[1:]
x = numpy.load(path)
client = triton.InferenceServerClient("127.0.0.1:" + port)
def given():
    one = triton.InferInput(name, x.shape, "FP32")
    one.set_data_from_numpy(x)
    return [one]
inputs, done = given(), SimpleQueue()
client.infer("net", inputs)
start = time.perf_counter()
sent = 0
for _ in range(min(int(concurrency), int(requests))):
    client.async_infer("net", inputs, callback=lambda result, error: done.put(error)); sent += 1
for _ in range(int(requests)):
    error = done.get(timeout=120)
    if error: raise error
    if sent < int(requests):
        client.async_infer("net", inputs, callback=lambda result, error: done.put(error)); sent += 1
print(time.perf_counter() - start)
"""


def ask(server, name, requests, concurrency, path):
    """Seconds that these requests took."""
    python = triton_process.ENVIRONMENT / "bin" / "python"
    done = subprocess.run([python, "-c", CLIENT, str(server.grpc), name, str(requests),
                           str(concurrency), path], capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(done.stderr)
    return float(done.stdout)


def seconds(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("engine", type=Path)
    parser.add_argument("--requests", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=16)
    options = parser.parse_args()
    if missing := triton_process.what_is_missing():
        sys.exit(missing)
    engine = tv.Engine.load(options.engine)
    (binding,) = engine.info()["inputs"]
    shape = [1, *binding["shape"][1:]]
    batch = numpy.ones([options.concurrency, *shape[1:]], numpy.float32)
    one = batch[:1]
    throughput, latency = [], []
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "models"
        triton_process.add_model(repository, "net", options.engine, "dynamic_batching "
                                 "{ max_queue_delay_microseconds: 2000 }\n")
        path = Path(folder) / "x.npy"
        numpy.save(path, one)
        with triton_process.Server(repository, Path(folder) / "server.log") as server:
            for _ in range(options.rounds):  # in alternation, as the machine's load changes
                batches = max(options.requests // options.concurrency, 1)
                direct = seconds(lambda: engine.run([batch]), batches) / batches
                served = ask(server, binding["name"], options.requests, options.concurrency, path)
                throughput.append((options.concurrency / direct, options.requests / served))
                alone = seconds(lambda: engine.run([one]), 20) / 20
                latency.append((alone * 1e3, ask(server, binding["name"], 20, 1, path) / 20 * 1e3))
            (found,) = server.client().get("/v2/models/net/stats")["model_stats"]
    for direct, served in throughput:
        print(f"{direct:8.1f} rows/s in batches of {options.concurrency}, {served:8.1f} served: "
              f"{served / direct:.2f}")
    for direct, served in latency:
        print(f"{direct:8.2f} ms a call, {served:8.2f} ms a request: + {served - direct:.2f} ms")
    ratio = statistics.median(served / direct for direct, served in throughput)
    more = statistics.median(served - direct for direct, served in latency)
    rows = found["inference_count"] / found["execution_count"]
    print(f"median: {ratio:.2f} of the engine's throughput, + {more:.2f} ms a request; "
          f"{rows:.1f} rows a batch")


if __name__ == "__main__":
    main()
