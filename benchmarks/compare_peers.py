"""Networks on one GPU through torch_vulkan, ncnn and ONNX Runtime's WebGPU: milliseconds a call.

    pip install ncnn pnnx
    python benchmarks/compare_peers.py --convert FOLDER      once, where pnnx is
    pip install ncnn onnxruntime onnxruntime-ep-webgpu
    python benchmarks/compare_peers.py --ncnn FOLDER [--device cuda] [--only resnet] [--runs 20]

Every way takes its input from host memory and leaves its output there. Each is a process of its
own, one after another. ncnn's networks come as text without weights and run with zeros, as ncnn's
own benchmark does: what they take does not depend on the numbers. fp16: torch_vulkan computes in
float16, ncnn stores, packs and computes in it; WebGPU has float32 alone.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path[:0] = [str(folder) for folder in Path(__file__).resolve().parents[:2]]

NAMES = ("ResNet-50", "MobileNetV2", "ViT-B/16")
WAYS = ("vulkan fp32", "vulkan tf32", "vulkan fp16", "ncnn fp32", "ncnn fp16", "webgpu fp32")


def file_name(name):
    return name.replace("/", "-")


def module_and_input(name):
    """The network as one tensor in, one tensor out, and its input at batch 1."""
    from compare_ncnn import _Plain

    from workloads.networks import NETWORKS

    (key, x), = NETWORKS[name].inputs(1, False, 0).items()
    return _Plain(NETWORKS[name].make(False), key).eval(), x


def convert(name, folder):
    """Writes FOLDER/NAME.param and FOLDER/NAME.size, the size of its weights in bytes."""
    import pnnx
    import torch

    module, x = module_and_input(name)
    here, folder = os.getcwd(), folder.resolve()
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        os.chdir(work)  # pnnx writes where it runs
        try:
            pnnx.export(module, str(Path(work) / "net.pt"), (x,), fp16=False)
        finally:
            os.chdir(here)
        shutil.copy(Path(work) / "net.ncnn.param", folder / f"{file_name(name)}.param")
        size = (Path(work) / "net.ncnn.bin").stat().st_size
        (folder / f"{file_name(name)}.size").write_text(str(size))


def timed(call, runs):
    """Milliseconds of each of some calls, warm."""
    times = []
    for i in range(runs + 5):
        start = time.perf_counter()
        call()
        if i >= 5:
            times.append((time.perf_counter() - start) * 1e3)
    return times


def by_vulkan(name, precision, options):
    import serving
    import torch

    from torch_vulkan._device import cuda_memory

    from workloads.networks import NETWORKS

    settings = {"device": options["device"], "reduced": False, "level": options["level"],
                "ways": ["vulkan"]}
    if options["device"] == "cuda":
        cuda_memory.allocate_shareable()
    with torch.no_grad():
        row = serving.Row(NETWORKS[name], 1, precision, settings)
        row.build(["vulkan"], lambda text: None)
        if row.failures:
            raise RuntimeError(row.failures["vulkan"])
        return timed(lambda: row._step(row.calls["vulkan"], "serving"), options["runs"])


def by_ncnn(name, precision, options):
    import ncnn
    import numpy as np

    folder, half = Path(options["ncnn"]), precision == "fp16"
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = half
    if net.load_param(str(folder / f"{file_name(name)}.param")) != 0:
        raise RuntimeError("ncnn cannot load what pnnx wrote")
    with tempfile.NamedTemporaryFile() as weights:
        weights.truncate(int((folder / f"{file_name(name)}.size").read_text()))
        if net.load_model(weights.name) != 0:
            raise RuntimeError("ncnn cannot load weights of that size")
    image = np.random.default_rng(0).standard_normal((3, 224, 224), dtype=np.float32)

    def call():
        with net.create_extractor() as extractor:
            extractor.input(net.input_names()[0], ncnn.Mat(image))
            return np.array(extractor.extract(net.output_names()[0])[1])

    return timed(call, options["runs"])


def by_webgpu(name, precision, options):
    import onnxruntime
    import onnxruntime_ep_webgpu as webgpu
    import torch

    module, x = module_and_input(name)
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        path = Path(work) / "net.onnx"
        torch.onnx.export(module, (x,), path, dynamo=True, verbose=False, input_names=["x"],
                          output_names=["y"])
        onnxruntime.register_execution_provider_library("webgpu", webgpu.get_library_path())
        devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == webgpu.get_ep_name()]
        if not devices:
            raise RuntimeError("ONNX Runtime's WebGPU finds no device")
        session_options = onnxruntime.SessionOptions()
        session_options.add_provider_for_devices(devices[:1], {})
        session = onnxruntime.InferenceSession(str(path), session_options)
        given = {"x": x.numpy()}
        return timed(lambda: session.run(None, given), options["runs"])


def work(name, way, options, queue):
    """One cell, in a process of its own."""
    warnings.filterwarnings("ignore")
    product, precision = way.split()
    run = {"vulkan": by_vulkan, "ncnn": by_ncnn, "webgpu": by_webgpu}[product]
    try:
        queue.put(run(name, precision, options))
    except Exception as error:  # the other cells are worth a table
        queue.put(f"{type(error).__name__}: {error}"[:300])


def cell(name, way, options):
    """{"median", "min"} of one network one way, or {"failure"}."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(name, way, options, queue))
    process.start()
    try:
        result = queue.get(timeout=options["timeout"])
    except Exception:
        result = f"no answer within {options['timeout']} s or a crash"
        process.kill()
    process.join()
    if isinstance(result, str):
        return {"failure": result}
    return {"median": statistics.median(result), "min": min(result)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convert", type=Path, help="write ncnn's networks here and end")
    parser.add_argument("--ncnn", type=Path, help="the folder that --convert wrote")
    parser.add_argument("--device", default="cpu", help="where torch_vulkan's tensors live")
    parser.add_argument("--only", nargs="*", help="networks whose name contains one of these")
    parser.add_argument("--ways", nargs="*", default=WAYS, help=f"of {', '.join(WAYS)}")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--level", type=int, default=3, help="optimization_level of the engines")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one cell")
    parser.add_argument("--json", type=Path, help="write the results here too")
    options = parser.parse_args()
    names = [n for n in NAMES if not options.only or any(part.lower() in n.lower()
                                                         for part in options.only)]
    if options.convert:
        options.convert.mkdir(parents=True, exist_ok=True)
        for name in names:
            convert(name, options.convert)
        return
    ways = [w for w in options.ways if options.ncnn or not w.startswith("ncnn")]
    rows = []
    for name in names:
        row = {"network": name}
        for way in ways:
            row[way] = cell(name, way, vars(options) | {"ncnn": str(options.ncnn)})
            print(f"{name:14}{way:14}" + "  ".join(
                f"{key} {value:.3f}" if isinstance(value, float) else f"{key}: {value}"
                for key, value in row[way].items()), flush=True)
        rows.append(row)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1, default=str))
    for row in rows:
        for way in (w for w in ways if not w.startswith("vulkan")):
            ours = row.get(f"vulkan {way.split()[1]}", {}).get("median")
            theirs = row[way].get("median")
            if ours and theirs:
                print(f"{row['network']:14}{way} / vulkan: {theirs / ours:.1f}")


if __name__ == "__main__":
    main()
