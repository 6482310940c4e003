"""What it takes to give a built network other weights.

    python benchmarks/refit.py [--only ResNet-50 BERT-base] [--reduced] [--runs 5]

Milliseconds, the least of the runs by the wall clock / by the processor's (both cores added), the
second of which says what an idle machine would take. Rows:
  tv.refit, all      all weights of a program of tv.compile
  tv.refit, NAME     one of them
  load_state_dict    of a module behind torch.compile: all weights, until the result of the next
                     call, less what a call takes
"""

import argparse
import sys
import time
from pathlib import Path

import torch

import torch_vulkan as tv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workloads.networks import NETWORKS  # noqa: E402


def least(function, runs):
    """(wall, processor) seconds of a call."""
    times = []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return tuple(min(column) for column in zip(*times, strict=True))


def row(label, seconds, megabytes):
    wall, cpu = (1e3 * s for s in seconds)
    print(f"  {label:<60}{megabytes:9.3f} MB{wall:9.1f} / {cpu:.1f} ms", flush=True)


def size(tensors):
    return sum(t.numel() * t.element_size() for t in tensors) / 1e6


def program_rows(model, inputs, runs):
    program = tv.compile(model, inputs)
    with torch.no_grad():
        weights = {name: tensor * 1.01 if tensor.is_floating_point() else tensor.clone()
                   for name, tensor in model.state_dict().items()}
        program(**inputs)
        tv.refit(program, weights)
    row("tv.refit, all", least(lambda: tv.refit(program, weights), runs), size(weights.values()))
    by_size = sorted(weights, key=lambda name: weights[name].numel())
    for name in (by_size[-1], by_size[len(by_size) // 2], by_size[0]):
        one = {name: weights[name]}
        row(f"tv.refit, {name}", least(lambda one=one: tv.refit(program, one), runs),
            size(one.values()))


def module_row(model, inputs, runs):
    fast = torch.compile(model, backend="vulkan")
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def changed():
        model.load_state_dict(weights)
        fast(**inputs)

    with torch.no_grad():
        changed()
        call = least(lambda: fast(**inputs), runs)
        both = least(changed, runs)
    row("load_state_dict", [b - c for b, c in zip(both, call, strict=True)],
        size(weights.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["ResNet-50"])
    parser.add_argument("--reduced", action="store_true", help="the small sizes")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for name in options.only:
        print(name, flush=True)
        network = NETWORKS[name]
        model = network.make(options.reduced).requires_grad_(False)
        inputs = network.inputs(1, options.reduced, 0)
        program_rows(model, inputs, options.runs)
        module_row(model, inputs, options.runs)


if __name__ == "__main__":
    main()
