"""Linear layers with packed weights, and with activations of 8 bits besides, beside the same with
floating-point ones, and what is held.

    python benchmarks/quantised.py [--rows 1 16 128] [--sizes 4096x4096] [--dtype float32]
                                   [--device NAME] [--level N] [--json FILE]

A ratio above 1 says that packed weights are faster. Times are those of the engine's launches by the
device's own clock, one launch after the other; GB/s are the bytes of the weights over that time.
Weights smaller than the device's caches may be read from there.
"""

import argparse
import json

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed
from torch import nn

import torch_vulkan as tv

WAYS = {"float": None, "int8 rows": ("int8", None), "int8 groups of 32": ("int8", 32),
        "int4 groups of 32": ("int4", 32), "int4 groups of 128": ("int4", 128),
        "int8 activations": "activations"}


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


def measured(layer, way, x, settings, runs):
    """Time of the launches in µs, weights' bytes, largest error beside eager, and the tactics."""
    module = nn.Sequential(layer).eval()
    if way == "activations":
        module = Integers(layer, x)
    elif way is not None:
        module = tv.quantize(module, way[0], group_size=way[1])
    (engine,) = tv.engines(tv.compile(module, inputs=[x], min_block_size=1, **settings))
    with torch.no_grad():
        eager = module(x)
    (result,) = engine.run([x]).values()
    launches = engine.profile([x], runs=runs)
    return {"us": sum(launch["time_us"] for launch in launches),
            "bytes": engine.info()["memory"]["weights"],
            "error": ((result - eager).abs().max() / eager.abs().max()).item(),
            "tactics": sorted({launch["tactic"] for launch in launches})}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16, 128])
    parser.add_argument("--sizes", nargs="+", default=["1024x1024", "4096x4096"],
                        help="outputs x inputs of the layer")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default=None)
    parser.add_argument("--level", type=int, default=3, help="optimization_level")
    parser.add_argument("--runs", type=int, default=20, help="whose median counts")
    parser.add_argument("--json", help="where the results go")
    args = parser.parse_args()
    settings = {"device": args.device, "optimization_level": args.level}
    dtype, results = getattr(torch, args.dtype), []
    print(f"{'layer':>12} {'rows':>5} {'weights':>18} {'us':>10} {'ratio':>6} {'GB/s':>6} "
          f"{'bytes':>6} {'error':>8}  tactics")
    for size in args.sizes:
        outputs, inputs = map(int, size.split("x"))
        torch.manual_seed(0)
        layer = nn.Linear(inputs, outputs, bias=False).to(dtype)
        for rows in args.rows:
            x, base = torch.randn(rows, inputs).to(dtype), None
            for name, way in WAYS.items():
                row = measured(layer, way, x, settings, args.runs)
                base = base or row
                row |= {"size": size, "rows": rows, "weights": name,
                        "ratio": base["us"] / row["us"]}
                results.append(row)
                print(f"{size:>12} {rows:5} {name:>18} {row['us']:10.1f} {row['ratio']:6.2f} "
                      f"{row['bytes'] / row['us'] / 1e3:6.0f} "
                      f"{row['bytes'] / base['bytes']:6.3f} {row['error']:8.1e}  "
                      + ", ".join(row["tactics"]), flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
