"""Networks in 8 bits beside this project's own float16 and beside PyTorch's ways to run them: every
way in alternation in one process.

    python benchmarks/quantised_models.py [--device cuda] [--reduced] [--only bert] [--batch 1 16]
                                          [--ways eager "vulkan PT2E"] [--level N] [--json FILE]

Times are the host's clock, from inputs in host memory to outputs there. `ratio` is the time of
"vulkan" over a way's, by the medians: above 1, the way is faster than the floats. `launches` are
kernels of a call; `quantising` those of them that quantise or dequantise, with other pointwise work
or alone, and are neither in the kernel that made the numbers nor in the one that reads them. `SNR`
and `top-5`, the share of the five largest results of a row, are by the same network in float32,
which runs in eager mode on the CPU. Weights are random, and so is the data that calibrates.

Ways that quantise: "calibrated", `tv.calibrate` of the float network; "PT2E", torchao's
X86InductorQuantizer; "QDQ", onnxruntime.quantization, whose file is read from host memory on CUDA,
too. What is in none of their integers is in --dtype.
"""

import argparse
import functools
import json
import re
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

import torch_vulkan as tv
from torch_vulkan._device import cuda_memory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from workloads import quantised_networks as quantised  # noqa: E402
from workloads.networks import NETWORKS, Positional  # noqa: E402

NAMES = ["ResNet-50", "BERT-base"]
WARM, TIMED = 2, 10
CALIBRATED_BY, TIMED_WITH = (0, 1), 9  # seeds
STEPS = r"quantize|aten::(round|convolution|linear|addmm|mm|bmm|matmul)\b"


class Skipped(Exception):
    """A way that cannot run here, and why."""


class Case:
    """One network and batch: the module in float32 on the CPU, data to calibrate by, an input."""

    def __init__(self, name, batch, options):
        source = NETWORKS[name]
        (key,) = source.inputs(1, True, 0)
        self.name, self.batch, self.options = name, batch, options
        self.dtype = getattr(torch, options.dtype)
        self.make = lambda: Positional(source.make(options.reduced), key).eval()
        *self.batches, self.x = (source.inputs(batch, options.reduced, seed)[key]
                                 for seed in (*CALIBRATED_BY, TIMED_WITH))
        self.exact = self.make()(self.x)

    def rounded(self):
        """The input in --dtype."""
        return self.x.to(self.dtype) if self.x.is_floating_point() else self.x

    def settings(self, *precisions):
        return {"optimization_level": self.options.level,
                "enabled_precisions": {torch.float32, self.dtype, *precisions}}

    @functools.cached_property
    def pt2e(self):
        if not quantised.has_torchao():
            raise Skipped(quantised.TORCHAO)
        device = self.options.device  # the graph holds it
        try:
            return quantised.pt2e(self.make().to(device), [b.to(device) for b in self.batches])
        except quantised.NothingQuantised as error:
            raise Skipped(str(error)) from None

    @functools.cached_property
    def file(self):
        """The bytes of an ONNX file."""
        try:
            import onnxruntime.quantization  # noqa: F401
        except ImportError as error:
            raise Skipped(str(error)) from None
        with tempfile.TemporaryDirectory() as folder:
            quantised.qdq(self.make(), self.batches, Path(folder) / "net.onnx",
                          self.options.op_types)
            return (Path(folder) / "net.onnx").read_bytes()


class FromHost:
    """A call on --device's tensors, of one in host memory; gives the result there."""

    def __init__(self, call, x):
        self.call, self.x, self.result = call, x.cuda(), None

    def __call__(self, x):
        torch.compiler.cudagraph_mark_step_begin()
        self.x.copy_(x, non_blocking=True)
        result = self.call(self.x)
        if self.result is None:
            self.result = torch.empty(result.shape, dtype=result.dtype, pin_memory=True)
        self.result.copy_(result, non_blocking=True)
        torch.cuda.synchronize()
        return self.result


# --- the ways: case -> call, its input in host memory, engines ---

def torch_way(case, module, x, compiled=lambda module: module):
    call = compiled(module.to(case.options.device))
    if case.options.device == "cuda":
        return FromHost(call, x), x.pin_memory(), []
    return call, x, []


def eager(case):
    return torch_way(case, case.make().to(case.dtype), case.rounded())


def inductor(case, mode=None):
    return torch_way(case, case.make().to(case.dtype), case.rounded(),
                     lambda module: torch.compile(module, mode=mode, dynamic=False))


def inductor_graphs(case):
    if case.options.device != "cuda":
        raise Skipped("CUDA graphs need --device cuda")
    return inductor(case, "reduce-overhead")


def inductor_pt2e(case):
    if case.options.device != "cpu":
        raise Skipped("inductor has kernels of integers for CPUs alone")
    import torch._inductor.config as settings

    def compiled(module):
        with settings.patch(freezing=True):  # or weights are dequantised at each call
            call = torch.compile(module, dynamic=False)
            call(case.x)
        return call

    return torch_way(case, case.pt2e, case.x, compiled)


def onnxruntime_qdq(case):
    import onnxruntime

    session = onnxruntime.InferenceSession(case.file, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), case.x, []


def vulkan_way(case, module, x, settings):
    made = []

    def compiled(module):
        made.append(tv.compile(module, inputs=[x.to(case.options.device)], **settings))
        return made[0]

    call, x, _ = torch_way(case, module, x, compiled)
    return call, x, tv.engines(made[0])


def vulkan(case):
    return vulkan_way(case, case.make().to(case.dtype), case.rounded(),
                      {"optimization_level": case.options.level})


def vulkan_calibrated(case):
    model = case.make()
    calibration = tv.calibrate(model, case.batches, case.options.method, progress=False)
    settings = case.settings(torch.int8) | {"calibration": calibration}
    return vulkan_way(case, model, case.x, settings)


def vulkan_pt2e(case):
    return vulkan_way(case, case.pt2e, case.x, case.settings())


def vulkan_qdq(case):
    session = tv.onnx.compile(case.file, **case.settings())
    x = case.x.pin_memory() if case.options.device == "cuda" else case.x
    return lambda x: session.run(None, {"x": x})[0], x, session.engines


WAYS = {"eager": eager, "inductor": inductor, "inductor+graphs": inductor_graphs,
        "inductor PT2E": inductor_pt2e, "onnxruntime QDQ": onnxruntime_qdq, "vulkan": vulkan,
        "vulkan calibrated": vulkan_calibrated, "vulkan PT2E": vulkan_pt2e,
        "vulkan QDQ": vulkan_qdq}


def kernels(engines):
    """Launches of a call, and those that are pointwise and quantise or dequantise. A calibrated
    product's are named after the product."""
    layers = [layer for engine in engines for layer in engine.info()["layers"]]
    quantising = [layer for layer in layers if layer["tactic"].startswith("pointwise")
                  and re.search(STEPS, " ".join(layer["ops"]))]
    return {"launches": len(layers), "quantising": len(quantising)}


def built(case, name):
    """A call of that way and its input, and what is known of it without timing it."""
    start = time.perf_counter()
    call, x, engines = WAYS[name](case)
    result = call(x).float()
    row = {"build_s": round(time.perf_counter() - start, 2),
           "snr_db": quantised.snr_db(result, case.exact),
           "top_5": quantised.top_5(result, case.exact)}
    if engines:
        row |= kernels(engines)
    if name == "vulkan":
        row["quantising"] = 0  # its products have pointwise kernels beside them, too
    return lambda: call(x), row


def timed(calls, rounds):
    """Minimum and median in ms of each call, which take turns."""
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            for i in range(WARM + TIMED):
                start = time.perf_counter()
                call()
                if i >= WARM:
                    times[name].append((time.perf_counter() - start) * 1e3)
    return {name: {"min_ms": min(found), "median_ms": statistics.median(found)}
            for name, found in times.items()}


def measured(case):
    """The ways of a case, and why the others of them are missing."""
    torch._dynamo.reset()  # not between the ways: it forgets what they have compiled
    calls, rows, missing = {}, {}, {}
    for name in case.options.ways:
        try:
            calls[name], rows[name] = built(case, name)
        except Skipped as reason:
            missing[name] = f"skipped: {reason}"
        except Exception as error:  # the other ways are worth their rows
            missing[name] = f"FAILED: {type(error).__name__}: {error}"[:500]
    for name, times in timed(calls, case.options.rounds).items():
        rows[name] |= times
    for row in rows.values():
        if "vulkan" in rows:
            row["ratio"] = rows["vulkan"]["median_ms"] / row["median_ms"]
    return {"network": case.name, "batch": case.batch, "ways": rows, "missing": missing}


def show(case):
    """Prints a table."""
    print(f"{case['network']}, batch {case['batch']}\n{'way':>18} {'median':>9} {'min':>9} "
          f"{'ratio':>6} {'SNR':>6} {'top-5':>6} {'launches':>8} {'quantising':>10} {'build':>7}")
    for name, row in case["ways"].items():
        ratio = f"{row['ratio']:6.2f}" if "ratio" in row else f"{'':6}"
        print(f"{name:>18} {row['median_ms']:9.3f} {row['min_ms']:9.3f} {ratio} "
              f"{row['snr_db']:6.1f} {row['top_5']:6.3f} {row.get('launches', ''):>8} "
              f"{row.get('quantising', ''):>10} {row['build_s']:7.1f}", flush=True)
    for name, why in case["missing"].items():
        print(f"{name:>18} {why}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="networks whose name contains one of these")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--dtype", default="float16", help="of what is not in integers")
    parser.add_argument("--method", default="percentile", help="of the calibration")
    parser.add_argument("--op-types", nargs="+",
                        help="of the file that have pairs around them; default: all")
    parser.add_argument("--device", default="cpu", help="where the tensors live: cpu or cuda")
    parser.add_argument("--reduced", action="store_true", help="the small sizes that the tests use")
    parser.add_argument("--rounds", type=int, default=5, help=f"of {TIMED} timed calls each")
    parser.add_argument("--level", type=int, default=3, help="optimization_level of the engines")
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.device == "cuda":
        cuda_memory.allocate_shareable()
    device = tv.devices()[0]
    about = {"device": device.name, "driver": device.driver, "torch": torch.__version__,
             "dtype": options.dtype, "level": options.level, "reduced": options.reduced,
             "op_types": options.op_types}
    print(", ".join(f"{key} {value}" for key, value in about.items()) + "; milliseconds, dB, s",
          flush=True)
    networks = [name for name in NAMES if not options.only or any(
        part.lower() in name.lower() for part in options.only)]
    cases = []
    with torch.no_grad():
        for name in networks:
            for batch in options.batch:
                cases.append(measured(Case(name, batch, options)))
                show(cases[-1])
                if options.json:
                    options.json.write_text(json.dumps(about | {"cases": cases}, indent=1))
    return any("FAILED" in why for case in cases for why in case["missing"].values())


if __name__ == "__main__":
    sys.exit(main())
