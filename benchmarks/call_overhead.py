"""What one call of a tiny engine costs: y = relu(x) of 16 elements on CPU tensors, in µs.

    python benchmarks/call_overhead.py
"""

import statistics
import time
import warnings

import torch


def per_call_us(call, calls=2000, rounds=7):
    """Minimum and median over the rounds of the mean time of one call."""
    for _ in range(200):
        call()
    means = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        means.append((time.perf_counter() - start) / calls * 1e6)
    return min(means), statistics.median(means)


def main():
    warnings.filterwarnings("ignore")
    x = torch.randn(16)
    rows = {"eager": torch.relu}
    for backend, options in (("aot_eager", None), ("vulkan", {"min_block_size": 1})):
        given = {"options": options} if options else {}
        rows[backend] = torch.compile(lambda t: torch.relu(t), backend=backend, **given)
    with torch.no_grad():
        for name, function in rows.items():
            low, median = per_call_us(lambda f=function: f(x))
            print(f"{name:10} {low:8.1f} min {median:8.1f} median µs a call", flush=True)


if __name__ == "__main__":
    main()
