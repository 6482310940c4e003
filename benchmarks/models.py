"""The parity table and the latency of the networks.

    python benchmarks/models.py --check            errors, coverage, engines, gradients
    python benchmarks/models.py                    latency beside eager's, in alternation

Each network runs in a process of its own, so that one's peak memory is not another's.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

FP32_ERROR, FP32_SHARE_OF_CHANGE, FP16_ERROR, GRADIENT_ERROR = 1e-4, 1e-2, 1e-2, 1e-3
MIN_COVERAGE = 0.99


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


def check_gradients(network, batch, reduced, device):
    """Largest errors of outputs and gradients through the training path, float32.

    A gradient's error is relative to the largest gradient of its parameter. Eager's own error in
    float32 on the CPU stands beside it: a rounding that moves a ReLU's switch shows in both.
    """
    import torch

    from torch_vulkan import compilations

    model = network.make(reduced)
    given = network.inputs(batch, reduced, 0)

    def gradients(module, call, inputs):
        module.zero_grad()
        out = call(**inputs)[0]
        # A fixed random direction: the plain sum of normalised outputs has no gradient.
        weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
        (out * weights.to(out.device, out.dtype)).sum().backward()
        return out.detach(), [p.grad for p in module.parameters() if p.grad is not None]

    def largest_of(got):
        scale = max(g.abs().max() for g in wanted)
        return max(((a.cpu().double() - b).abs().max() / max(b.abs().max(), 1e-3 * scale)).item()
                   for a, b in zip(got, wanted, strict=True))

    eager = [g.clone() for g in gradients(model, model, tensors(given, "cpu", torch.float32))[1]]
    double = model.double()
    reference, wanted = gradients(double, double, tensors(given, "cpu", torch.float64))
    reference, wanted = reference.clone(), [g.clone() for g in wanted]
    compilations.clear()
    model = model.to(device, torch.float32)
    fast = torch.compile(model, backend="vulkan")
    ours, got = gradients(model, fast, tensors(given, device, torch.float32))
    row = summary(compilations.compilations())
    row["error"] = largest(ours.cpu().double() - reference, reference)
    row["gradient_error"], row["eager_gradient_error"] = largest_of(got), largest_of(eager)
    row["ok"] = row["error"] <= FP32_ERROR and row["gradient_error"] <= GRADIENT_ERROR
    return row


def latency(network, batch, reduced, device, dtype_name, runs):
    """Minimum and median latency (ms), eager and vulkan in alternation."""
    import torch

    from torch_vulkan import compilations

    dtype = getattr(torch, dtype_name)
    model = network.make(reduced).to(device, dtype)
    inputs = tensors(network.inputs(batch, reduced, 0), device, dtype)
    compilations.clear()
    fast = torch.compile(model, backend="vulkan")
    times = {"eager": [], "vulkan": []}
    with torch.no_grad():
        start = time.perf_counter()
        fast(**inputs)
        first_s = time.perf_counter() - start
        for run in range(runs + 2):
            for name, call in (("eager", model), ("vulkan", fast)):
                start = time.perf_counter()
                call(**inputs)
                if device == "cuda":
                    torch.cuda.synchronize()
                if run >= 2:
                    times[name].append((time.perf_counter() - start) * 1e3)
    row = summary(compilations.compilations())
    for name, values in times.items():
        row[f"{name}_min_ms"], row[f"{name}_median_ms"] = min(values), statistics.median(values)
    row["ratio"] = row["vulkan_median_ms"] / row["eager_median_ms"]
    row["first_call_s"] = first_s
    row["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row["weight_mib"] = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20
    row["ok"] = True
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
        elif job["what"] == "check":
            row = check_inference(*common, job["dtype"])
        else:
            row = latency(*common, job["dtype"], job["runs"])
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
                      ("eager_gradient_error", ".1e"),
                      ("vulkan_median_ms", ".2f"), ("eager_median_ms", ".2f"), ("ratio", ".2f"),
                      ("build_s", ".1f"), ("first_call_s", ".1f"), ("peak_rss_mib", ".0f")):
        if key in row:
            cells.append(f"{key} {row[key]:{form}}")
    print(f"{name:44} {'ok  ' if row['ok'] else 'FAIL'} {'  '.join(cells)}", flush=True)
    for native in row["native"]:
        print(f"{'':49} native {native}", flush=True)


def jobs(options):
    """The rows that the command line asks for."""
    from networks import NETWORKS

    for name, network in NETWORKS.items():
        if options.only and not any(part.lower() in name.lower() for part in options.only):
            continue
        for batch in options.batch or network.batches:
            base = {"network": name, "batch": batch, "reduced": options.reduced,
                    "device": options.device, "runs": options.runs}
            for dtype in options.dtype:
                yield base | {"what": "check" if options.check else "latency", "dtype": dtype}
            if options.check and batch == 1 and not options.no_gradients:
                yield base | {"what": "gradients", "dtype": "float32"}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="parity in place of latency")
    parser.add_argument("--only", nargs="*", help="networks whose name contains one of these")
    parser.add_argument("--batch", type=int, nargs="*", help="default: each network's own")
    parser.add_argument("--dtype", nargs="*", default=["float32", "float16"])
    parser.add_argument("--device", default="cpu", help="where the tensors live: cpu or cuda")
    parser.add_argument("--reduced", action="store_true", help="the small sizes that the tests use")
    parser.add_argument("--no-gradients", action="store_true")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one row")
    parser.add_argument("--json", type=Path, help="write the rows here too")
    options = parser.parse_args()

    import torch

    import torch_vulkan as tv

    device = tv.devices()[0]
    print(f"{device.name}, {device.driver}, torch {torch.__version__}", flush=True)
    rows = []
    for job in jobs(options):
        rows.append(run(job, options.timeout))
        print_row(rows[-1])
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    failed = sum(not row["ok"] for row in rows)
    print(f"{len(rows) - failed} rows as required, {failed} not")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
