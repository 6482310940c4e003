"""Linear layers with packed weights, and with activations of 8 bits besides, beside the same with
floating-point ones, and what is held.

    python benchmarks/quantised.py [--rows 1 16 128] [--sizes 4096x4096] [--dtype float32]
                                   [--ways "int4 groups of 32"] [--device NAME] [--level N]
                                   [--json FILE]

A ratio above 1 says that packed weights are faster. Times are those of the engine's launches by the
device's own clock, one launch after the other; GB/s are the bytes of the weights over that time,
TOP/s the multiplications and additions. Weights smaller than the device's caches may be read from
there. Errors are those of the first rows. `2:4 dense` and `2:4 sparse` are one layer whose weight
is pruned to a 2:4 pattern, without and with `sparse_weights`; the tactics say whether measuring has
kept it dense.
"""

import argparse
import copy
import json
import time

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed
from torch import nn

import torch_vulkan as tv

WAYS = {"float": None, "int8 rows": ("int8", None), "int8 groups of 32": ("int8", 32),
        "int4 groups of 32": ("int4", 32), "int4 groups of 128": ("int4", 128),
        "int8 activations": "activations", "2:4 dense": "pruned", "2:4 sparse": "sparse"}
COMPARED = 4  # rows: a CPU takes long for many of 16 bits
WARM_UP_S = 0.3  # a GPU that was idle meanwhile has slow clocks at first


class Integers(nn.Module):
    """A layer as PT2E quantises it: activations of uint8 with a zero point, weights by channel."""

    def __init__(self, layer, x):
        super().__init__()
        weight = layer.weight.detach().float()
        scales = weight.abs().amax(1) / 127
        self.register_buffer("weight", (weight / scales[:, None]).round().to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(len(scales), dtype=torch.int64))
        self.scale = ((x.max() - x.min()) / 255).item()
        self.zero = round(-x.min().item() / self.scale)

    def forward(self, x):
        ops = torch.ops.quantized_decomposed
        limits = (self.scale, self.zero, 0, 255, torch.uint8)
        x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *limits), *limits)
        return nn.functional.linear(x, ops.dequantize_per_channel(
            self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8))


def pruned(layer):
    """The layer with the two largest of each four neighbours in a row of its weight."""
    layer = copy.deepcopy(layer)
    with torch.no_grad():
        fours = layer.weight.unflatten(-1, (-1, 4))
        keep = fours.abs().argsort(dim=-1, descending=True, stable=True)[..., :2]
        kept = torch.zeros_like(fours).scatter(-1, keep, fours.gather(-1, keep))
        layer.weight.copy_(kept.flatten(-2))
    return layer


def module_of(layer, way, x):
    """The layer in that way; `x`: what the range of its activations is taken from."""
    if way in ("pruned", "sparse"):
        return nn.Sequential(pruned(layer)).eval()
    module = nn.Sequential(layer).eval()
    if way == "activations":
        return Integers(layer, x)
    return module if way is None else tv.quantize(module, way[0], group_size=way[1])


def measured(module, x, settings, runs):
    """Time of the launches in µs, weights' bytes, largest error beside eager, and the tactics."""
    with torch.no_grad():
        eager = module(x[:COMPARED])
    (engine,) = tv.engines(tv.compile(module, inputs=[x], min_block_size=1, **settings))
    (result,) = engine.run([x]).values()
    start = time.perf_counter()
    while time.perf_counter() < start + WARM_UP_S:
        launches = engine.profile([x], runs=runs)
    tactics, memory = {launch["tactic"] for launch in launches}, engine.info()["memory"]
    sparse = any(name.startswith("matmul_sparse") for name in tactics)
    return {"us": sum(launch["time_us"] for launch in launches),
            "bytes": memory["weights_held" if sparse else "weights"],
            "error": ((result[:COMPARED] - eager).abs().max() / eager.abs().max()).item(),
            "tactics": sorted(tactics)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16, 64, 512])
    parser.add_argument("--sizes", nargs="+", default=["1024x1024", "4096x4096"],
                        help="outputs x inputs of the layer")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS),
                        help="besides float")
    parser.add_argument("--device", default=None)
    parser.add_argument("--level", type=int, default=3, help="optimization_level")
    parser.add_argument("--runs", type=int, default=20, help="whose median counts")
    parser.add_argument("--json", help="where the results go")
    args = parser.parse_args()
    settings = {"device": args.device, "optimization_level": args.level}
    dtype, results = getattr(torch, args.dtype), []
    print(f"{'layer':>12} {'rows':>5} {'weights':>18} {'us':>10} {'ratio':>6} {'GB/s':>6} "
          f"{'TOP/s':>6} {'bytes':>6} {'error':>8}  tactics")
    for size in args.sizes:
        outputs, inputs = map(int, size.split("x"))
        torch.manual_seed(0)
        layer = nn.Linear(inputs, outputs, bias=False).to(dtype)
        all_rows = torch.randn(max(args.rows), inputs).to(dtype)
        names = ["float", *(name for name in args.ways if name != "float")]
        modules = {name: module_of(layer, WAYS[name], all_rows) for name in names}
        for rows in args.rows:
            x, base = all_rows[:rows].clone(), None
            for name, module in modules.items():
                sparse = {"sparse_weights": WAYS[name] == "sparse"}
                row = measured(module, x, settings | sparse, args.runs)
                base = base or row
                row |= {"size": size, "rows": rows, "weights": name,
                        "ratio": base["us"] / row["us"]}
                results.append(row)
                operations = 2 * rows * outputs * inputs
                print(f"{size:>12} {rows:5} {name:>18} {row['us']:10.1f} {row['ratio']:6.2f} "
                      f"{row['bytes'] / row['us'] / 1e3:6.0f} {operations / row['us'] / 1e6:6.1f} "
                      f"{row['bytes'] / base['bytes']:6.3f} {row['error']:8.1e}  "
                      + ", ".join(row["tactics"]), flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
