"""Many architectures, vulkan beside eager and inductor: where is a cliff, and which dispatch is it?

    python benchmarks/survey.py [--only TEXT...] [--list] [--json FILE] [--rounds 7] [--full]
                                [--ways eager inductor] [--dtype float32] [--timeout 120]
                                [--device cpu|cuda] [--level 0] [--threads N]

Each network of workloads/survey_networks.py runs in a process of its own with a time bound. A row
says how long a call takes (minimum and median over the rounds, in which all ways alternate), the
ratio of vulkan's minimum to the first other way's, which part of the operators runs in how many
engines, how many dispatches these have, and the three slowest dispatches: their share of the time
of all, and what share of the device's roof they reach (roofline.py): of the rate of a large matmul
or of a large copy, whichever bounds a dispatch of so many FLOPs and bytes. "inductor" has CUDA
graphs on CUDA. The geometric mean of the ratios stands at the end, with the slowest networks before
it. Networks are small, or with --full of the size that their configuration has by default.
"""

import argparse
import json
import math
import multiprocessing
import queue
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

sys.path[:0] = [str(folder) for folder in Path(__file__).resolve().parents[:2]]


def slowest(layers, flops_s, bytes_s, count=3):
    """The dispatches that take the largest share of the time, and of which roof they reach what."""
    total = sum(layer["time_us"] for layer in layers) or 1
    best = sorted(layers, key=lambda layer: -layer["time_us"])[:count]
    return [{"name": layer["name"], "tactic": layer["tactic"], "time_us": layer["time_us"],
             "share": layer["time_us"] / total,
             "roof": max(layer["flops"] / flops_s, layer["bytes"] / bytes_s) * 1e6 /
             (layer["time_us"] or 1)} for layer in best]


def times_of(calls, rounds, synchronise):
    """Minimum and median of each call in ms; the calls take turns."""
    taken = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            synchronise()
            taken[name].append((time.perf_counter() - start) * 1e3)
    return {name: {"min_ms": min(ms), "median_ms": statistics.median(ms)}
            for name, ms in taken.items()}


def measure(name, options):
    """The row of one network."""
    import torch
    from roofline import measure as dispatches
    from roofline import roofs

    import torch_vulkan as tv

    from workloads.survey_networks import architectures

    torch.manual_seed(0)
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    network = next(a for a in architectures(options["full"]) if a.name == name)
    dtype = getattr(torch, options["dtype"])
    model = network.make().eval().requires_grad_(False).to(options["device"], dtype)
    inputs = {key: value.to(options["device"], dtype if value.is_floating_point() else None)
              for key, value in network.inputs().items()}
    synchronise = torch.cuda.synchronize if options["device"] == "cuda" else lambda: None
    with torch.no_grad():
        compiled = torch.compile(model, backend="vulkan",
                                 options={"optimization_level": options["level"]})
        start = time.perf_counter()
        result = compiled(**inputs)
        first_s = time.perf_counter() - start
        wanted = model(**inputs)
        error = ((result - wanted).abs().max() / wanted.abs().max()).item()
        calls = {way: made(model, way, options) for way in options["ways"]} | {"vulkan": compiled}
        for call in calls.values():
            call(**inputs)
        row = times_of({way: partial(call, **inputs) for way, call in calls.items()},
                       options["rounds"], synchronise)
        layers = dispatches(SimpleNamespace(model=model, inputs=inputs, calls=calls))
        peak, rate = roofs(options["device"], dtype)
    records = tv.compilations.compilations()
    nodes = [(record.coverage, len(record.engines)) for record in records]
    return row | {"ratio": row["vulkan"]["min_ms"] / row[options["ways"][0]]["min_ms"],
                  "error": error, "first_s": first_s, "graphs": len(nodes),
                  "coverage": min(coverage for coverage, _ in nodes),
                  "engines": sum(engines for _, engines in nodes),
                  "dispatches": len(layers), "slowest": slowest(layers, peak, rate)}


def made(model, way, options):
    """The model as "eager" or "inductor" calls it."""
    if way == "eager":
        return model
    import torch

    mode = "reduce-overhead" if options["device"] == "cuda" else None
    return torch.compile(model, mode=mode)


def work(name, options, results):
    """A row, or why there is none, for the process that started this one."""
    try:
        results.put(measure(name, options))
    except Exception as error:  # a row of the table
        results.put({"failure": f"{type(error).__name__}: {error}"[:500]})


def row_of(name, options, timeout_s):
    """measure() in a process of its own; a crash and a hang are failures."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=work, args=(name, options, results))
    process.start()
    end, row = time.monotonic() + timeout_s, None
    while row is None:
        try:
            row = results.get(timeout=1)
        except queue.Empty:
            if time.monotonic() > end:
                row = {"failure": f"no answer within {timeout_s} s"}
            elif not process.is_alive():
                row = {"failure": f"a crash, exit code {process.exitcode}"}
    process.kill()
    process.join()
    return {"network": name, "ways": [*options["ways"], "vulkan"]} | row


def print_row(row):
    if "failure" in row:
        print(f"{row['network']:30} FAIL {row['failure'].splitlines()[0][:100]}", flush=True)
        return
    parts = [f"{part['name'].split('/')[-1]} {part['share']:.0%} of roof {part['roof']:.0%}"
             for part in row["slowest"]]
    times = " ".join(f"{row[way]['min_ms']:8.2f} {row[way]['median_ms']:8.2f}"
                     for way in row["ways"])
    print(f"{row['network']:30} {times} {row['ratio']:7.2f} "
          f"{row['coverage']:6.0%} {row['engines']:4} {row['dispatches']:5} {row['error']:8.0e}  "
          f"{', '.join(parts)}", flush=True)


def summary(rows):
    """The mean and the slowest, as text."""
    ratios = {row["network"]: row["ratio"] for row in rows if "ratio" in row}
    if not ratios:
        return "no network ran"
    worst = sorted(ratios, key=ratios.get)[-5:][::-1]
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
    first = rows[0]["ways"][0]
    return (f"slowest: {', '.join(f'{name} {ratios[name]:.1f}' for name in worst)}\n"
            f"{len(ratios)} of {len(rows)} networks, vulkan / {first} {mean:.2f} in the geometric "
            "mean")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="networks whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ways", nargs="+", choices=("eager", "inductor"), default=["eager"],
                        help="what stands beside vulkan; ratios are to the first")
    parser.add_argument("--dtype", default="float32", help="of weights and inputs")
    parser.add_argument("--full", action="store_true", help="full sizes, in place of small ones")
    parser.add_argument("--timeout", type=int, default=120, help="seconds of each network")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu",
                        help="where the tensors are")
    parser.add_argument("--level", type=int, default=0, help="optimization_level")
    parser.add_argument("--threads", type=int,
                        help="of eager; on a machine that others use, all cores wait for the last")
    args = parser.parse_args()
    from workloads.survey_networks import architectures

    names = [a.name for a in architectures(args.full)]
    if args.only is not None:
        names = [name for name in names if any(text in name for text in args.only)]
    if args.list:
        print("\n".join(names))
        return
    heads = " ".join(f"{way:>8} {'median':>8}" for way in (*args.ways, "vulkan"))
    print(f"{'network':30} {heads} {'ratio':>7} "
          f"{'in it':>6} {'eng':>4} {'disp':>5} {'error':>8}  slowest dispatches")
    options = {key: getattr(args, key) for key in (
        "device", "rounds", "level", "threads", "ways", "dtype", "full")}
    rows = []
    for name in names:
        rows.append(row_of(name, options, args.timeout))
        print_row(rows[-1])
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))
    print(summary(rows))


if __name__ == "__main__":
    main()
