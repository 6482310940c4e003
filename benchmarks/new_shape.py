"""What a new shape costs a network with a dynamic batch: milliseconds of the first call of each
batch size on the host, from its start to the submission (planning of memory, encoding, barriers,
recording of commands, growth of the arena), and calls of a batch size that was recorded already.

    python benchmarks/new_shape.py [--network ResNet-50] [--batches 8] [--level 0]
"""

import argparse
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch

import torch_vulkan as tv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workloads.networks import NETWORKS  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="ResNet-50", choices=NETWORKS)
    parser.add_argument("--batches", type=int, default=8, help="batch sizes 1 to this")
    parser.add_argument("--level", type=int, default=0, help="optimization_level")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    network = NETWORKS[options.network]
    inputs = {name: tv.Input(min_shape=(1, *x.shape[1:]), opt_shape=(options.batches, *x.shape[1:]),
                             max_shape=(options.batches, *x.shape[1:]), dtype=x.dtype)
              for name, x in network.inputs(2, False, 0).items()}
    program = tv.compile(network.make(False), inputs, optimization_level=options.level)
    (engine,) = tv.engines(program)
    # The largest first: after it the arena is large enough.
    order = [options.batches, *range(1, options.batches)]
    recorded = []
    for batch in order:
        given = network.inputs(batch, False, batch)
        before = engine.stats()
        start = time.perf_counter()
        engine.run(given)
        whole = time.perf_counter() - start
        after = engine.stats()
        assert after["recordings"] == before["recordings"] + 1, "each batch size is new"
        recorded.append((after["recording_us"] - before["recording_us"]) / 1e3)
        print(f"batch {batch:3}: {recorded[-1]:6.2f} ms of {whole * 1e3:8.1f}", flush=True)
    layers = len(engine.info()["layers"])
    print(f"{options.network}, {layers} dispatches: first {recorded[0]:.2f}, then median "
          f"{statistics.median(recorded[1:]):.2f}, at most {max(recorded[1:]):.2f} ms")


if __name__ == "__main__":
    with torch.no_grad():
        main()
