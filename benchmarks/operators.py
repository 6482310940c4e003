"""What conv.py, gemm.py, attention.py and pointwise.py share: the programs of benchmarks/native
beside torch."""

import argparse
import json
import subprocess
from pathlib import Path

import torch
from timing import median_s

ROOT = Path(__file__).resolve().parent.parent
DTYPES = {"float16": torch.half, "bfloat16": torch.bfloat16, "float32": torch.float}


def build(program):
    """Makes one of the programs that time tactics."""
    subprocess.run(["ninja", "-C", str(ROOT / "build"), program], check=True,
                   stdout=subprocess.DEVNULL)


def vulkan(program, problem, tactics, *flags):
    """The results of a program for one problem, one a tactic, in the rule's order."""
    command = [str(ROOT / "build/benchmarks/native" / program), "--json", "--first", str(tactics)]
    done = subprocess.run([*command, *flags, problem], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def torch_us(call):
    """µs of a call: in a CUDA graph of many where there is CUDA, else of the host."""
    if not torch.cuda.is_available():
        call()
        return median_s(call, 5, lambda: None) * 1e6
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    once = median_s(call, 3, torch.cuda.synchronize)
    repeats = max(2, min(100, int(0.02 / once)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(repeats):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return median_s(graph.replay, 5, torch.cuda.synchronize) / repeats * 1e6


def device():
    """Where torch's side runs."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def error(actual, exact):
    """max |actual - exact| / max |exact|."""
    return ((actual.double() - exact).abs().max() / exact.abs().max()).item()


def run(description, problems, beside, unit):
    """Times every problem on both sides and prints a line each; writes JSON.

    Args:
        description: of the command.
        problems: problem texts, as node_tactics takes them.
        beside: problem -> (a call of torch's, its error against float64).
        unit: "tflops" or "gb_s".
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--tactics", type=int, default=4,
                        help="how many of the rule's tactics to time; the fastest counts")
    parser.add_argument("--only", default="", help="rows whose problem has this text")
    args = parser.parse_args()
    build("node_tactics")
    name = {"tflops": "TFLOP/s", "gb_s": "GB/s"}[unit]
    print(f"{'problem':44} {'vulkan us':>10} {name:>8} {'torch us':>10} {name:>8} {'ratio':>6} "
          f"{'error':>8} {'torch':>8}  tactic")
    rows = []
    for problem in problems:
        if args.only not in problem:
            continue
        measured = vulkan("node_tactics", problem, args.tactics)
        call, wrong = beside(problem)
        us = torch_us(call)
        best = min(measured, key=lambda r: r["us"])
        theirs = best[unit] * best["us"] / us
        rows.append({"problem": problem, "vulkan": measured, "best": best, "torch_us": us,
                     "torch_error": wrong, "device": device()})
        print(f"{problem:44} {best['us']:10.2f} {best[unit]:8.1f} {us:10.2f} {theirs:8.1f} "
              f"{us / best['us']:6.2f} {best['error']:8.1e} {wrong:8.1e}  {best['tactic']}",
              flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
