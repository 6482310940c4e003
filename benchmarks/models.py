"""The parity table, and the latency and memory of the networks.

    python benchmarks/models.py --check            errors, coverage, engines, gradients
    python benchmarks/models.py                    latency and peak memory beside eager's and
                                                   inductor's
    python benchmarks/models.py --digests          what the engines are, to compare two versions
    python benchmarks/models.py --only resnet --batch 1 --precision fp16 --roofline resnet.png

Each network runs in a process of its own, so that one's peak memory is not another's. serving.py
says what is timed, peak_memory.py what is counted.
"""

import argparse
import json
import multiprocessing
import sys
import time
import warnings
from pathlib import Path

sys.path[:0] = [str(folder) for folder in Path(__file__).resolve().parents[:2]]

# Latencies of these are measured where --only has the word.
ASKED_FOR_BY = {"BERT-base, mask": "mask", "YOLOv5s": "yolo"}


def work(job, queue):
    """One row, in a process of its own."""
    warnings.filterwarnings("ignore")
    from workloads.checks import check_gradients, check_inference, engine_digests
    from workloads.networks import NETWORKS

    network = NETWORKS[job["network"]]
    common = (network, job["batch"], job["reduced"], job["device"])
    try:
        if job["what"] == "digests":
            row = engine_digests(*common, job["dtype"], job["gradients"])
        elif job["what"] == "gradients":
            row = check_gradients(*common)
        else:
            row = check_inference(*common, job["dtype"])
    except Exception as error:  # a row that fails is a row of the table
        row = {"ok": False, "failure": f"{type(error).__name__}: {error}"[:2000]}
    queue.put(job | row)


def run(job, timeout_s):
    """The row of one job; a crash or a hang becomes a failed row."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(job, queue))
    process.start()
    try:
        row = queue.get(timeout=timeout_s)
    except Exception:
        row = job | {"ok": False, "failure": f"no answer within {timeout_s} s or a crash"}
        process.kill()
    process.join()
    return row


def print_row(row):
    """One line of the table."""
    name = f"{row['network']} b{row['batch']} {row['dtype']} {row['what']}"
    if "failure" in row:
        print(f"{name:44} FAIL {row['failure'].splitlines()[0]}", flush=True)
        return
    cells = [f"engines {row['engines']}", f"dispatches {row['dispatches']}",
             f"coverage {row['coverage']:.1%}"]
    for key, form in (("error", ".1e"), ("share_of_change", ".1e"), ("gradient_error", ".1e"),
                      ("switches", "d"), ("unmoved_error", ".1e"),
                      ("eager_gradient_error", ".1e"), ("eager_switches", "d"),
                      ("build_s", ".1f")):
        if key in row:
            cells.append(f"{key} {row[key]:{form}}")
    print(f"{name:44} {'ok  ' if row['ok'] else 'FAIL'} {'  '.join(cells)}", flush=True)
    for native in row["native"]:
        print(f"{'':49} native {native}", flush=True)


def chosen(options):
    """The networks that the command line asks for."""
    from workloads.networks import NETWORKS

    return {name: network for name, network in NETWORKS.items()
            if not options.only or any(part.lower() in name.lower() for part in options.only)}


def checks(options):
    """The rows of the parity table."""
    for name, network in chosen(options).items():
        for batch in options.batch or network.batches:
            base = {"network": name, "batch": batch, "reduced": options.reduced,
                    "device": options.device}
            for dtype in options.dtype:
                yield base | {"what": "check", "dtype": dtype}
            if batch == 1 and not options.no_gradients:
                yield base | {"what": "gradients", "dtype": "float32"}


def check(options):
    """The parity table; returns the number of rows that are not as required."""
    rows = []
    for job in checks(options):
        rows.append(run(job, options.timeout or 900))
        print_row(rows[-1])
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    failed = sum(not row["ok"] for row in rows)
    print(f"{len(rows) - failed} rows as required, {failed} not")
    return failed


def digests(options):
    """A line for each engine; returns the number of rows that failed."""
    failed = 0
    for job in checks(options):
        gradients = job["what"] == "gradients"
        row = run(job | {"what": "digests", "gradients": gradients}, options.timeout or 900)
        name = f"{row['network']} b{row['batch']} {row['dtype']}{' gradients' * gradients}"
        failed += "failure" in row
        for line in row.get("digests") or [f"FAIL {row['failure'].splitlines()[0]}"]:
            print(f"{name:44} {line}", flush=True)
    return failed


def compare(options):
    """The table of latencies; returns the number of rows in which something failed."""
    import serving

    cuda = options.device == "cuda"
    precisions = options.precision or (["tf32", "fp32", "fp16"] if cuda else ["fp32"])
    asked = " ".join(options.only or ()).lower()
    left_out = [name for name, word in ASKED_FOR_BY.items() if word not in asked]
    cases = [(name, batch, precision) for name in chosen(options) if name not in left_out
             for batch in options.batch or ((1, 16) if cuda else (1,)) for precision in precisions]
    settings = {"device": options.device, "reduced": options.reduced, "level": options.level,
                "rounds": options.rounds, "together": options.together or (12 if cuda else 1),
                "timeout": options.timeout or (300 if cuda else 3600),
                "ways": options.ways or serving.ways(options.device),
                "roofline": str(options.roofline) if options.roofline else None,
                "layers": str(options.layers) if options.layers else None}
    rows, start = [], time.perf_counter()

    def on_row(row):
        if "note" in row:
            print(f"    {time.perf_counter() - start:6.1f} s  {row['note']}", flush=True)
            return
        rows.append(row)
        print(serving.line(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))

    print("milliseconds, median (min)", flush=True)
    serving.run(cases, settings, on_row)
    for text in serving.ratios(rows):
        print(text)
    return sum(bool(row["failures"]) for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="parity in place of latency")
    parser.add_argument("--digests", action="store_true",
                        help="SHA-256 of each engine without names and weights, at level 0")
    parser.add_argument("--only", nargs="*", help="networks whose name contains one of these")
    parser.add_argument("--batch", type=int, nargs="*", help="default: 1 and 16 on CUDA")
    parser.add_argument("--dtype", nargs="*", default=["float32", "float16"], help="with --check")
    parser.add_argument("--precision", nargs="*", choices=["tf32", "fp32", "fp16", "mixed"],
                        help="without --check; default: the first three on CUDA, fp32 on the CPU")
    parser.add_argument("--ways", nargs="*", help="eager, inductor, inductor+graphs, vulkan")
    parser.add_argument("--device", default="cpu", help="where the tensors live: cpu or cuda")
    parser.add_argument("--reduced", action="store_true", help="the small sizes that the tests use")
    parser.add_argument("--no-gradients", action="store_true")
    parser.add_argument("--rounds", type=int, default=5, help="of ten timed calls each")
    parser.add_argument("--together", type=int,
                        help="rows whose processes build side by side; default: 12 on CUDA, else 1")
    parser.add_argument("--level", type=int, default=3, help="optimization_level of the engines")
    parser.add_argument("--roofline", type=Path, help="plot the dispatches of the last row here")
    parser.add_argument("--layers", type=Path, help="write each row's times by layer in here")
    parser.add_argument("--timeout", type=int, help="seconds for one row of --check, else for all")
    parser.add_argument("--json", type=Path, help="write the rows here too")
    options = parser.parse_args()

    import torch

    import torch_vulkan as tv

    device = tv.devices()[0]
    print(f"{device.name}, {device.driver}, torch {torch.__version__}", flush=True)
    mode = check if options.check else digests if options.digests else compare
    return mode(options) > 0


if __name__ == "__main__":
    sys.exit(main())
