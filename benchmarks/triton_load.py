"""A Triton server beside the engine that it runs: throughput with many requests under way, and the
time of one. Bounded in requests and time; on the loopback.

    triton_load.py ENGINE.vke [--requests 320] [--rounds 5] [--concurrency 16] [--alone 20]
        [--shared]

Throughput is that of a model that waits 2 ms for a batch; one request is timed with a model that
waits for none. The least differences and the processor's times (of the server, and of this process
for calls) are what to look at where other programs run.
"""

import argparse
import json
import os
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
# Prints the seconds that all took and, of requests one by one, what each took.
CLIENT = """
import json, sys, time
import numpy, tritonclient.grpc as triton
from queue import SimpleQueue
port, model, name, requests, concurrency, path, shared = sys.argv[1:]
requests, concurrency = int(requests), int(concurrency)
x = numpy.load(path)
client = triton.InferenceServerClient("127.0.0.1:" + port)
one = triton.InferInput(name, x.shape, "FP32")
if shared == "True":
    import tritonclient.utils.shared_memory as memory
    region = memory.create_shared_memory_region(name, "/" + name + port, x.nbytes)
    memory.set_shared_memory_region(region, [x])
    client.register_system_shared_memory(name, "/" + name + port, x.nbytes)
    one.set_shared_memory(name, x.nbytes)
else:
    one.set_data_from_numpy(x)
inputs, done, times = [one], SimpleQueue(), []
client.infer(model, inputs)
start = time.perf_counter()
if concurrency == 1:
    for _ in range(requests):
        sent = time.perf_counter()
        client.infer(model, inputs)
        times.append(time.perf_counter() - sent)
else:
    def send():
        client.async_infer(model, inputs, callback=lambda result, error: done.put(error))
    for _ in range(min(concurrency, requests)):
        send()
    for answered in range(requests):
        error = done.get(timeout=120)
        if error: raise error
        if answered + concurrency < requests: send()
print(json.dumps([time.perf_counter() - start, times]))
if shared == "True":
    client.unregister_system_shared_memory(name)
    memory.destroy_shared_memory_region(region)
"""


def ask(server, model, name, requests, concurrency, path, shared):
    """Seconds that these requests took, and of each where they are one by one."""
    python = triton_process.ENVIRONMENT / "bin" / "python"
    done = subprocess.run([python, "-c", CLIENT, str(server.grpc), model, name, str(requests),
                           str(concurrency), path, str(shared)],
                          capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def processor(process: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def throughput(server, name, engine, batch, path, options):
    """Rows a second and the processor's ms a row: of the engine, and served."""
    rows = len(batch)
    batches = max(options.requests // rows, 1)
    used = time.process_time()
    direct = timed(lambda: [engine.run([batch]) for _ in range(batches)])
    used = time.process_time() - used
    before = processor(server.process.pid)
    served, _ = ask(server, "batches", name, options.requests, options.concurrency, path,
                    options.shared)
    by_server = processor(server.process.pid) - before
    return (rows * batches / direct, options.requests / served,
            1e3 * used / (rows * batches), 1e3 * by_server / (options.requests + 1))


def alone(server, name, engine, one, path, options):
    """ms of each call of the engine, and of each request."""
    direct = [timed(lambda: engine.run([one])) for _ in range(options.alone)]
    _, served = ask(server, "alone", name, options.alone, 1, path, options.shared)
    return [1e3 * time for time in direct], [1e3 * time for time in served]


def report(rates, times, statistics_of_batches):
    for direct, served, used, by_server in rates:
        print(f"{direct:8.1f} rows/s by the engine, {served:8.1f} served: {served / direct:.2f}; "
              f"processor {used:.2f} and {by_server:.2f} ms a row: {used / by_server:.2f}")
    for direct, served in times:
        print(f"{min(direct):8.2f} ms a call, {min(served):8.2f} ms a request (min); "
              f"{statistics.median(direct):8.2f} and {statistics.median(served):8.2f} (median)")
    ratio = statistics.median(served / direct for direct, served, *_ in rates)
    by_processor = statistics.median(used / by_server for *_, used, by_server in rates)
    more = [statistics.median(of(served) - of(direct) for direct, served in times)
            for of in (min, statistics.median)]
    rows = statistics_of_batches["inference_count"] / statistics_of_batches["execution_count"]
    print(f"median: {ratio:.2f} of the engine's throughput ({by_processor:.2f} by the processor's "
          f"time), {rows:.1f} rows a batch; a request + {more[0]:.2f} ms (min), + {more[1]:.2f} ms "
          "(median)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("engine", type=Path)
    parser.add_argument("--requests", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--alone", type=int, default=20, help="requests one by one")
    parser.add_argument("--shared", action="store_true",
                        help="inputs in shared memory, not in the request")
    options = parser.parse_args()
    if missing := triton_process.what_is_missing():
        sys.exit(missing)
    engine = tv.Engine.load(options.engine)
    (binding,) = engine.info()["inputs"]
    shape = [1, *binding["shape"][1:]]
    batch = numpy.ones([options.concurrency, *shape[1:]], numpy.float32)
    rates, times = [], []
    with tempfile.TemporaryDirectory() as folder:
        repository, path = Path(folder) / "models", Path(folder) / "x.npy"
        for model, delay in (("batches", 2000), ("alone", 0)):
            triton_process.add_model(repository, model, options.engine, "dynamic_batching "
                                     f"{{ max_queue_delay_microseconds: {delay} }}\n")
        numpy.save(path, batch[:1])
        with triton_process.Server(repository, Path(folder) / "server.log") as server:
            what = server, binding["name"], engine
            engine.run([batch]), engine.run([batch[:1]])
            for _ in range(options.rounds):  # in alternation, as the machine's load changes
                rates.append(throughput(*what, batch, path, options))
                times.append(alone(*what, batch[:1], path, options))
            found = server.client().statistics("batches")
    report(rates, times, found)


if __name__ == "__main__":
    main()
