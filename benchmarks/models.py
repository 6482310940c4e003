"""The parity table and the latency of the networks.

    python benchmarks/models.py --check            errors, coverage, engines, gradients
    python benchmarks/models.py                    latency beside eager's and inductor's
    python benchmarks/models.py --only resnet --batch 1 --precision fp16 --roofline resnet.png

Each network runs in a process of its own, so that one's peak memory is not another's. serving.py
says what is timed.
"""

import argparse
import json
import multiprocessing
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

FP32_ERROR, FP32_SHARE_OF_CHANGE, FP16_ERROR, GRADIENT_ERROR = 1e-4, 1e-2, 1e-2, 1e-3
MIN_COVERAGE = 0.99
# Latencies of these are measured where --only has the word.
ASKED_FOR_BY = {"BERT-base, mask": "mask", "YOLOv5s": "yolo"}


def tensors(inputs, device, dtype):
    """Inputs on the device, floating ones in dtype."""
    return {k: v.to(device, dtype if v.is_floating_point() else None) for k, v in inputs.items()}


def largest(error, reference):
    """max |error| / max |reference|."""
    return (error.abs().max() / reference.abs().max()).item()


def summary(records):
    """Engines, dispatches, coverage and native operators of the compiled graphs."""
    covered = sum(r.covered_nodes for r in records)
    total = sum(r.compute_nodes for r in records)
    engines = [e for r in records for e in r.engines]
    return {
        "engines": len(engines),
        "dispatches": sum(e.dispatches for e in engines),
        "build_s": round(sum(e.build_s for e in engines), 1),
        "coverage": covered / total if total else 1.0,
        "native": sorted({f"{n.op}: {n.reason}" for r in records for n in r.native}),
    }


def check_inference(network, batch, reduced, device, dtype_name):
    """Largest errors of one network against eager in float64 on the CPU, with the same weights and
    inputs: for 16-bit dtypes those that were rounded."""
    import torch

    from torch_vulkan import compilations

    dtype = getattr(torch, dtype_name)
    model = network.make(reduced).to(dtype)
    first, second = (tensors(network.inputs(batch, reduced, seed), "cpu", dtype) for seed in (0, 1))
    compilations.clear()
    with torch.no_grad():
        double = model.double()
        reference = double(**tensors(first, "cpu", torch.float64))[0]
        change = (double(**tensors(second, "cpu", torch.float64))[0] - reference).abs().max()
        model = model.to(device, dtype)  # exactly the weights from before double()
        fast = torch.compile(model, backend="vulkan")
        ours = fast(**tensors(first, device, dtype))[0].cpu().double()
    row = summary(compilations.compilations())
    row["error"] = largest(ours - reference, reference)
    row["share_of_change"] = ((ours - reference).abs().max() / change).item()
    limit = FP32_ERROR if dtype_name == "float32" else FP16_ERROR
    row["ok"] = row["error"] <= limit and row["coverage"] >= MIN_COVERAGE
    row["ok"] &= row["engines"] <= network.max_engines
    if dtype_name == "float32":
        row["ok"] &= row["share_of_change"] <= FP32_SHARE_OF_CHANGE
    return row


def gradients_of(module, call, inputs):
    """The first output, and the parameters' gradients in one fixed random direction of it (the
    plain sum of normalised outputs has none)."""
    import torch

    module.zero_grad()
    out = call(**inputs)[0]
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    (out * weights.to(out.device, out.dtype)).sum().backward()
    found = [p.grad.cpu().double() for p in module.parameters() if p.grad is not None]
    return out.detach().cpu().double(), found


def gradient_error(got, wanted):
    """The largest error of a gradient, relative to the largest of its parameter."""
    scale = max(g.abs().max() for g in wanted)
    return max(((a - b).abs().max() / max(b.abs().max(), 1e-3 * scale)).item()
               for a, b in zip(got, wanted, strict=True))


def check_gradients(network, batch, reduced, device):
    """Largest errors of outputs and gradients through the training path, float32.

    The reference is eager in float64 on the CPU; it may take either side of the switches that
    float32 cannot tell an activation from (switches.py): `switches` of them were moved for ours;
    `unmoved_error` is its error with none moved.
    Eager's own error in float32 on the CPU, found in the same way, stands beside it.
    """
    import torch

    from torch_vulkan import compilations

    from switches import Switches, nearest

    model = network.make(reduced)
    given = network.inputs(batch, reduced, 0)
    _, eager = gradients_of(model, model, tensors(given, "cpu", torch.float32))
    compilations.clear()
    model = model.to(device)
    fast = torch.compile(model, backend="vulkan")
    ours, got = gradients_of(model, fast, tensors(given, device, torch.float32))
    row = summary(compilations.compilations())

    model = model.to("cpu", torch.float64)
    inputs = tensors(given, "cpu", torch.float64)
    with Switches(model) as switches:
        reference, wanted = gradients_of(model, model, inputs)
        row["unmoved_error"] = gradient_error(got, wanted)
        for key, found in (("eager_", eager), ("", got)):
            row[key + "gradient_error"], row[key + "switches"] = nearest(
                lambda g, found=found: gradient_error(found, g), wanted, switches,
                lambda: gradients_of(model, model, inputs)[1], GRADIENT_ERROR)
    row["error"] = largest(ours - reference, reference)
    row["ok"] = row["error"] <= FP32_ERROR and row["gradient_error"] <= GRADIENT_ERROR
    return row


def work(job, queue):
    """One row, in a process of its own."""
    warnings.filterwarnings("ignore")
    from networks import NETWORKS

    network = NETWORKS[job["network"]]
    common = (network, job["batch"], job["reduced"], job["device"])
    try:
        if job["what"] == "gradients":
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
    from networks import NETWORKS

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
    return (check(options) if options.check else compare(options)) > 0


if __name__ == "__main__":
    sys.exit(main())
