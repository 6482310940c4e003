"""Products of matrices: TFLOP/s beside torch's on the same device, and errors against float64.

    python benchmarks/gemm.py [--json FILE] [--tactics N] [--only TEXT]

Squares and the shapes of the networks (batch 1: 128 tokens, 197 patches), in f16, bf16 and fp32
(at full accuracy, and with TF32 allowed), b constant (a weight) and dynamic. Vulkan's times are
those of dependent dispatches (benchmarks/native/gemm_tactics, built here), torch's those of a CUDA
graph, or of the host where there is no CUDA. --tactics: how many of the rule's tactics to time; the
fastest counts.
"""

import argparse
import json
from pathlib import Path

import operators
import torch

SQUARES = [(s, s, s) for s in (256, 512, 1024, 2048, 4096, 8192)]
NETWORKS = [(m, n, k)
            for m in (1, 4, 16, 128, 197)
            for n, k in ((768, 768), (2304, 768), (3072, 768), (768, 3072))] + [
            (1, 1000, 2048), (16, 1000, 2048), (1, 50257, 768), (16, 4096, 4096)]


def problems():
    """(m, n, k, dtype, tf32, constant) of every row."""
    for dtype, tf32 in (("float16", False), ("bfloat16", False), ("float32", False),
                        ("float32", True)):
        for m, n, k in SQUARES:
            for constant in (True, False):
                yield m, n, k, dtype, tf32, constant
        if dtype != "bfloat16":
            for m, n, k in NETWORKS:
                yield m, n, k, dtype, tf32, True


def label(m, n, k, dtype, tf32, constant):
    kind = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32" if tf32 else "fp32"}[dtype]
    return f"{kind} {m}x{n}x{k} {'constant' if constant else 'dynamic'}"


def vulkan(m, n, k, dtype, tf32, constant, tactics):
    """The results of the program, one a tactic."""
    problem = f"{m},{n},{k},{dtype}" + ("" if constant else ",d")
    return operators.vulkan("gemm_tactics", problem, tactics, *["--tf32"] * tf32)


def torch_result(m, n, k, dtype, tf32):
    """µs of torch.matmul and its largest error, relative to the largest result."""
    device, kind = operators.device(), operators.DTYPES[dtype]
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a = torch.randn(m, k, device=device).to(kind)
    b = (torch.randn(k, n, device=device) / k**0.5).to(kind)
    out = torch.matmul(a, b)
    exact = a[:64].double() @ b.double()
    error = operators.error(out[:64], exact)
    return operators.torch_us(lambda: torch.matmul(a, b, out=out)), error


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", default="gemm.json", help="where the results go")
    parser.add_argument("--tactics", type=int, default=4)
    parser.add_argument("--only", default="", help="rows whose label has this text")
    args = parser.parse_args()
    operators.build("gemm_tactics")
    results = []
    print(f"{'product':34} {'vulkan us':>10} {'TFLOP/s':>8} {'torch us':>10} {'TFLOP/s':>8} "
          f"{'ratio':>6} {'error':>8} {'torch':>8}  tactic")
    for problem in problems():
        name = label(*problem)
        if args.only not in name:
            continue
        m, n, k, dtype, tf32, constant = problem
        measured = vulkan(*problem, args.tactics)
        us, error = torch_result(m, n, k, dtype, tf32)
        best = min(measured, key=lambda r: r["us"])
        tflop = 2e-12 * m * n * k
        results.append({"name": name, "problem": problem, "vulkan": measured, "best": best,
                        "torch_us": us, "torch_error": error})
        print(f"{name:34} {best['us']:10.2f} {tflop / best['us'] * 1e6:8.2f} {us:10.2f} "
              f"{tflop / us * 1e6:8.2f} {us / best['us']:6.2f} {best['error']:8.1e} {error:8.1e}  "
              f"{best['tactic']}", flush=True)
    Path(args.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
