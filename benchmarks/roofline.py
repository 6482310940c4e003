"""An engine's dispatches against the device's roofs: FLOP/s over FLOPs per byte, one dot each.

Times are the device's own (tv.profile), bytes those of the operands, FLOPs torch's own count by
module (torch.utils.flop_counter), shared among the module's dispatches that take the most time. The
roofs are what torch reaches on the same device: a large matmul and a large copy.

    python benchmarks/models.py --roofline FILE.png ...    measures, writes FILE.json, and plots
    python benchmarks/roofline.py FILE.json                plots FILE.png, where matplotlib is
"""

import json
import sys
import time
from collections import defaultdict
from pathlib import Path


def best_of(call, synchronise, runs=5):
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        call()
        synchronise()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def roofs(device, dtype):
    """FLOP/s of a matmul and bytes/s of a copy."""
    import torch

    n = 8192 if device == "cuda" else 1024
    a = torch.randn(n, n, device=device).to(dtype)
    synchronise = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    flops = 2 * n**3 / best_of(lambda: a @ a, synchronise)
    source = torch.empty(2**28 if device == "cuda" else 2**24, device=device)
    target = torch.empty_like(source)
    rate = 2 * source.nbytes / best_of(lambda: target.copy_(source), synchronise)
    return flops, rate


def flops_by_module(model, inputs):
    """Module path → FLOPs of the operators that it calls itself."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model(**inputs)
    totals = {path: sum(ops.values()) for path, ops in counter.get_flop_counts().items()}
    root = type(model).__name__
    own = {}
    for path, total in totals.items():
        depth = path.count(".")
        inside = sum(t for p, t in totals.items()
                     if p.startswith(path + ".") and p.count(".") == depth + 1)
        own[path.removeprefix(root).lstrip(".")] = total - inside
    return own


def measure(row):
    """The dispatches of one call with their FLOPs."""
    import torch_vulkan as tv

    counted = flops_by_module(row.model, row.inputs)
    with tv.profile(runs=20) as profile:
        row.calls["vulkan"](**row.inputs)
    by_module = defaultdict(list)
    for layer in profile.layers:
        layer["flops"] = 0
        by_module[layer["module_path"]].append(layer)
    for path, found in by_module.items():
        heavy = max(found, key=lambda layer: layer["time_us"])
        matches = [f for p, f in counted.items() if p and path and (
            p == path or p.endswith("." + path) or path.endswith("." + p))]
        heavy["flops"] = max(matches, default=0)
    return profile.layers


def plot(measured, path):
    """Writes the plot of what draw() measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    layers, peak, rate = measured["layers"], measured["flops_s"], measured["bytes_s"]
    figure, axes = pyplot.subplots(figsize=(9, 6))
    shown = [x for x in layers if x["time_us"] > 0 and x["flops"] > 0 and x["bytes"] > 0]
    axes.scatter([x["flops"] / x["bytes"] for x in shown],
                 [x["flops"] / x["time_us"] * 1e6 for x in shown],
                 s=[4 + x["time_us"] for x in shown], alpha=0.6)
    intensities = [2.0**i for i in range(-4, 13)]
    axes.plot(intensities, [min(peak, rate * i) for i in intensities], color="black", linewidth=1,
              label=f"torch: matmul {peak / 1e12:.1f} TFLOP/s, copy {rate / 1e9:.0f} GB/s")
    axes.set(xscale="log", yscale="log", xlabel="FLOPs per byte of operands", ylabel="FLOP/s",
             title=f"{measured['title']}: {len(shown)} of {len(layers)} dispatches, "
                   f"{sum(x['time_us'] for x in layers):.0f} µs alone; area is time")
    axes.grid(True, which="both", alpha=0.2)
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def draw(row, path):
    """Writes what one row's dispatches take beside `path`, and the plot there."""
    import torch

    layers = measure(row)
    dtype = torch.float16 if row.precision == "fp16" else torch.float32
    peak, rate = roofs(row.device, dtype)
    measured = {"title": f"{row.key['network']}, batch {row.key['batch']}, {row.precision}",
                "flops_s": peak, "bytes_s": rate, "layers": layers}
    Path(path).with_suffix(".json").write_text(json.dumps(measured, default=str))
    for x in sorted(layers, key=lambda x: -x["time_us"])[:12]:
        print(f"    {x['time_us']:9.1f} µs {x['bytes'] / 1e6:8.2f} MB {x['flops'] / 1e9:8.3f} "
              f"GFLOP  {x['tactic']:28} {x['name'][:50]}", flush=True)
    try:
        plot(measured, path)
    except ImportError:
        print(f"    no matplotlib: roofline.py plots {Path(path).with_suffix('.json')}", flush=True)


if __name__ == "__main__":
    for file in sys.argv[1:]:
        plot(json.loads(Path(file).read_text()), Path(file).with_suffix(".png"))
