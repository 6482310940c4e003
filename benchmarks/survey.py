"""Many small architectures, eager beside vulkan: where is a cliff, and which dispatch is it?

    python benchmarks/survey.py [--only TEXT]... [--list] [--json FILE] [--rounds 7]
                                [--timeout 120] [--device cpu|cuda] [--level 0] [--threads N]

Each network of workloads/survey_networks.py runs in a process of its own with a time bound. A row
says how long a call takes (minimum and median over the rounds, in which both sides alternate), the
ratio of vulkan's minimum to eager's, which part of the operators runs in how many engines, how many
dispatches these have, and the three slowest dispatches with their share of the time of all. The
geometric mean of the ratios stands at the end, with the slowest networks before it.
"""

import argparse
import json
import math
import multiprocessing
import queue
import statistics
import sys
import time
from pathlib import Path

sys.path[:0] = [str(folder) for folder in Path(__file__).resolve().parents[:2]]


def slowest(layers, count=3):
    """The dispatches that take the largest share of the time."""
    total = sum(layer["time_us"] for layer in layers) or 1
    best = sorted(layers, key=lambda layer: -layer["time_us"])[:count]
    return [{"name": layer["name"], "tactic": layer["tactic"], "time_us": layer["time_us"],
             "share": layer["time_us"] / total} for layer in best]


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

    import torch_vulkan as tv

    from workloads.survey_networks import architectures

    torch.manual_seed(0)
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    network = next(a for a in architectures() if a.name == name)
    model = network.make().eval().to(options["device"])
    inputs = {key: value.to(options["device"]) for key, value in network.inputs().items()}
    synchronise = torch.cuda.synchronize if options["device"] == "cuda" else lambda: None
    with torch.no_grad():
        compiled = torch.compile(model, backend="vulkan",
                                 options={"optimization_level": options["level"]})
        start = time.perf_counter()
        result = compiled(**inputs)
        first_s = time.perf_counter() - start
        wanted = model(**inputs)
        error = ((result - wanted).abs().max() / wanted.abs().max()).item()
        row = times_of({"eager": lambda: model(**inputs), "vulkan": lambda: compiled(**inputs)},
                       options["rounds"], synchronise)
        with tv.profile() as profile:
            compiled(**inputs)
    records = tv.compilations.compilations()
    nodes = [(record.coverage, len(record.engines)) for record in records]
    return row | {"ratio": row["vulkan"]["min_ms"] / row["eager"]["min_ms"], "error": error,
                  "first_s": first_s, "graphs": len(nodes),
                  "coverage": min(coverage for coverage, _ in nodes),
                  "engines": sum(engines for _, engines in nodes),
                  "dispatches": len(profile.layers), "slowest": slowest(profile.layers)}


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
    return {"network": name} | row


def print_row(row):
    if "failure" in row:
        print(f"{row['network']:24} FAIL {row['failure'].splitlines()[0][:100]}", flush=True)
        return
    parts = [f"{part['name'].split('/')[-1]} {part['share']:.0%}" for part in row["slowest"]]
    print(f"{row['network']:24} {row['eager']['min_ms']:8.2f} {row['eager']['median_ms']:8.2f} "
          f"{row['vulkan']['min_ms']:8.2f} {row['vulkan']['median_ms']:8.2f} {row['ratio']:7.2f} "
          f"{row['coverage']:6.0%} {row['engines']:4} {row['dispatches']:5} {row['error']:8.0e}  "
          f"{', '.join(parts)}", flush=True)


def summary(rows):
    """The mean and the slowest, as text."""
    ratios = {row["network"]: row["ratio"] for row in rows if "ratio" in row}
    if not ratios:
        return "no network ran"
    worst = sorted(ratios, key=ratios.get)[-5:][::-1]
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
    return (f"slowest: {', '.join(f'{name} {ratios[name]:.1f}' for name in worst)}\n"
            f"{len(ratios)} of {len(rows)} networks, vulkan / eager {mean:.2f} in the geometric "
            "mean")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="networks whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--json", type=Path, help="where the results go")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--timeout", type=int, default=120, help="seconds of each network")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu",
                        help="where the tensors are")
    parser.add_argument("--level", type=int, default=0, help="optimization_level")
    parser.add_argument("--threads", type=int,
                        help="of eager; on a machine that others use, all cores wait for the last")
    args = parser.parse_args()
    from workloads.survey_networks import architectures

    names = [a.name for a in architectures()]
    if args.only is not None:
        names = [name for name in names if any(text in name for text in args.only)]
    if args.list:
        print("\n".join(names))
        return
    print(f"{'network':24} {'eager':>8} {'median':>8} {'vulkan':>8} {'median':>8} {'ratio':>7} "
          f"{'in it':>6} {'eng':>4} {'disp':>5} {'error':>8}  slowest dispatches")
    options = {"device": args.device, "rounds": args.rounds, "level": args.level,
               "threads": args.threads}
    rows = []
    for name in names:
        rows.append(row_of(name, options, args.timeout))
        print_row(rows[-1])
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))
    print(summary(rows))


if __name__ == "__main__":
    main()
