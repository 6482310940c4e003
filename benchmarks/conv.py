"""Convolutions of the networks: µs and TFLOP/s beside torch's on the same device, and errors.

    python benchmarks/conv.py [--json FILE] [--tactics N] [--batch 1 16] [--dtype float16 float32]
                              [--network NAME]... [--only TEXT] [--layout nchw|last]

Every convolution of ResNet-50, MobileNetV2, EfficientNet-B0 and ViT-B/16, once, with its bias.
Vulkan's times are those of dependent dispatches (benchmarks/native/conv_tactics, built here),
torch's those of a CUDA graph, or of the host where there is no CUDA. Errors are against float64,
relative to the largest result. --tactics: how many of the rule's tactics to time; the fastest
counts, the rule's own stands beside it. --layout: `last` reads inputs whose channels are
neighbours (of multiples of 8), on both sides, as between the convolutions of a network on a GPU.
After each dtype and batch the networks' sums, each convolution as often as it occurs.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path[:0] = [str(folder) for folder in Path(__file__).resolve().parents[:2]]
import operators  # noqa: E402

NAMES = ("ResNet-50", "MobileNetV2", "EfficientNet-B0", "ViT-B/16")


def convolutions(name):
    """Counter of (ic, h, w, oc, k, stride, pad, groups) in one network at its full size."""
    from workloads.networks import NETWORKS

    found = Counter()

    def note(module, inputs):
        _, ic, h, w = inputs[0].shape
        pad = module.padding[0] if isinstance(module.padding, tuple) else 0
        found[(ic, h, w, module.out_channels, module.kernel_size[0], module.stride[0], pad,
               module.groups)] += 1

    with torch.no_grad():
        model = NETWORKS[name].make(False)
        for module in model.modules():
            if isinstance(module, torch.nn.Conv2d):
                module.register_forward_pre_hook(note)
        model(**NETWORKS[name].inputs(1, False, 0))
    return found


def is_last(shape, layout):
    return layout == "last" and shape[0] // shape[-1] % 8 == 0


def vulkan(shape, batch, dtype, tf32, options):
    """The results of the program, one a tactic, in the rule's order."""
    last = ["l"] * is_last(shape, options.layout)
    problem = ",".join(map(str, (batch, *shape, dtype, *last)))
    return operators.vulkan("conv_tactics", problem, options.tactics, *["--tf32"] * tf32)


def torch_result(shape, batch, dtype, tf32, layout):
    """µs of torch's convolution and its largest error, relative to the largest result."""
    ic, h, w, oc, k, stride, pad, groups = shape
    device, kind = operators.device(), getattr(torch, dtype)
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    x = torch.randn(batch, ic, h, w, device=device).to(kind)
    weight = (torch.randn(oc, ic // groups, k, k, device=device) /
              (ic // groups * k * k) ** 0.5).to(kind)
    bias = torch.randn(oc, device=device).to(kind)
    if is_last(shape, layout):
        x, weight = (t.to(memory_format=torch.channels_last) for t in (x, weight))

    def call():
        return F.conv2d(x, weight, bias, stride, pad, 1, groups)

    out = call()
    exact = F.conv2d(x[:1].cpu().double(), weight.cpu().double(), bias.cpu().double(), stride,
                     pad, 1, groups)
    return operators.torch_us(call), operators.error(out[:1].cpu(), exact)


def label(shape, batch, dtype, tf32):
    ic, h, w, oc, k, stride, pad, groups = shape
    kind = "tf32" if tf32 else {"float16": "f16", "float32": "fp32", "bfloat16": "bf16"}[dtype]
    grouped = f" g{groups}" if groups > 1 else ""
    return f"{kind} {batch}x{ic}x{h}x{w}->{oc} k{k} s{stride} p{pad}{grouped}"


def measure(shape, batch, dtype, tf32, options):
    ic, h, w, oc, k, stride, pad, groups = shape
    measured = vulkan(shape, batch, dtype, tf32, options)
    us, error = torch_result(shape, batch, dtype, tf32, options.layout)
    best = min(measured, key=lambda r: r["us"])
    rows, cols = ((size + 2 * pad - k) // stride + 1 for size in (h, w))
    return {"name": label(shape, batch, dtype, tf32), "shape": shape, "batch": batch,
            "dtype": dtype, "tf32": tf32, "vulkan": measured, "best": best, "torch_us": us,
            "torch_error": error, "flop": 2 * batch * oc * rows * cols * ic // groups * k * k}


def print_row(row):
    best, tera = row["best"], row["flop"] * 1e-6
    print(f"{row['name']:44} {best['us']:9.2f} {row['vulkan'][0]['us']:9.2f} "
          f"{tera / best['us']:8.2f} {row['torch_us']:9.2f} {tera / row['torch_us']:8.2f} "
          f"{row['torch_us'] / best['us']:6.2f} {best['error']:8.1e} {row['torch_error']:8.1e}  "
          f"{best['tactic']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", default="conv.json", help="where the results go")
    parser.add_argument("--tactics", type=int, default=4)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--dtype", nargs="+", default=["float16", "float32"])
    parser.add_argument("--network", action="append")
    parser.add_argument("--only", default="", help="rows whose label has this text")
    parser.add_argument("--layout", choices=("nchw", "last"),
                        default="last" if torch.cuda.is_available() else "nchw")
    args = parser.parse_args()
    operators.build("conv_tactics")
    counts = {name: convolutions(name) for name in args.network or NAMES}
    shapes = sorted(set().union(*counts.values()))
    rows = {}
    print(f"{'convolution':44} {'vulkan us':>9} {'rule us':>9} {'TFLOP/s':>8} {'torch us':>9} "
          f"{'TFLOP/s':>8} {'ratio':>6} {'error':>8} {'torch':>8}  tactic")
    kinds = [(d, False) for d in args.dtype]
    if "float32" in args.dtype:
        kinds.append(("float32", True))
    for dtype, tf32 in kinds:
        for batch in args.batch:
            for shape in shapes:
                if args.only not in label(shape, batch, dtype, tf32):
                    continue
                row = measure(shape, batch, dtype, tf32, args)
                rows[shape, batch, dtype, tf32] = row
                print_row(row)
            for name, count in counts.items():
                mine = [(rows[s, batch, dtype, tf32], n) for s, n in count.items()
                        if (s, batch, dtype, tf32) in rows]
                sums = [sum(n * of(row) for row, n in mine) for of in (
                    lambda r: r["best"]["us"], lambda r: r["vulkan"][0]["us"],
                    lambda r: r["torch_us"])]
                print(f"   {name}: {sum(n for _, n in mine)} convolutions, best {sums[0]:.0f} us, "
                      f"rule {sums[1]:.0f} us, torch {sums[2]:.0f} us", flush=True)
    Path(args.json).write_text(json.dumps(list(rows.values()), indent=1))


if __name__ == "__main__":
    main()
