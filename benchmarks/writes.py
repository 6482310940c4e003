"""What it costs to write one row into a cache that the function is given, as the cache grows: µs a
call in eager mode and compiled, in alternation.

    python benchmarks/writes.py                 CPU tensors
    python benchmarks/writes.py --device cuda   CUDA tensors; each call is waited for

The last column says how the largest cache's time stands to the smallest's: 1 where the cost does
not grow with the cache.
"""

import argparse
import statistics
import warnings

import torch
from timing import per_call_us


def index_put(cache, row, position):
    cache[position] = row * 2
    return row + 1


def index_copy(cache, row, position):
    cache.index_copy_(0, position, row * 2)
    return row + 1


def scatter(cache, row, position):
    cache.scatter_(0, position[:, None].expand_as(row), row * 2)
    return row + 1


def constant_slice(cache, row, position):
    cache[7:8] = row * 2
    return row + 1


FORMS = {f.__name__: f for f in (index_put, index_copy, scatter, constant_slice)}


def compiled(function, *args):
    torch._dynamo.reset()
    fast = torch.compile(function, backend="vulkan", dynamic=False,
                         options={"min_block_size": 1})
    fast(*args)
    return fast


def measured(function, options, rows):
    """Eager mode's and the compiled function's µs a call: (minimum, median) of each."""
    row = torch.randn(1, options.width, device=options.device)
    position = torch.tensor([7], device=options.device)
    zeros = torch.zeros(rows, options.width, device=options.device)
    fast = compiled(function, zeros, row, position)
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    times = {"eager": [], "vulkan": []}
    for _ in range(options.rounds):
        for name, call in (("eager", function), ("vulkan", fast)):
            cache = zeros.clone()

            def waited(call=call, cache=cache):
                call(cache, row, position)
                wait()

            times[name].append(per_call_us(waited, options.calls, rounds=1)[0])
    return {name: (min(t), statistics.median(t)) for name, t in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, nargs="+", default=[256, 4096, 16384, 65536])
    parser.add_argument("--width", type=int, default=1024, help="float32 elements of a row")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.device == "cuda":
        from torch_vulkan._device import cuda_memory
        cuda_memory.allocate_shareable()
    print("µs a call, minimum/median; caches of", *options.rows, "rows of", 4 * options.width,
          "bytes")
    for form, function in FORMS.items():
        results = [measured(function, options, rows) for rows in options.rows]
        for name in ("eager", "vulkan"):
            cells = "  ".join(f"{r[name][0]:8.1f}/{r[name][1]:8.1f}" for r in results)
            grown = results[-1][name][0] / results[0][name][0]
            print(f"{form:14} {name:6} {cells}  x{grown:.2f}", flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        main()
