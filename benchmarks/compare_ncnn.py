"""Networks on the Vulkan device through torch_vulkan and through ncnn, in one run.

    pip install ncnn pnnx
    python benchmarks/compare_ncnn.py [--network ResNet-50]... [--runs 10] [--json FILE]

pnnx converts the same module; ncnn runs it with `use_vulkan_compute` in fp32, so that both compute
the same. Inputs and outputs are host tensors on both sides. In alternation; minimum and median in
ms, and the largest difference of each from eager, relative to the largest output.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch_vulkan  # noqa: E402, F401  sets what drivers read before another program does

from workloads.networks import NETWORKS  # noqa: E402


class _Plain(torch.nn.Module):
    """One tensor in, one out: what tracing takes."""

    def __init__(self, model, key):
        super().__init__()
        self.model, self.key = model, key

    def forward(self, x):
        return self.model(**{self.key: x})[0]


def ncnn_net(module, x, directory):
    """The network in ncnn and the names of its blobs."""
    import ncnn
    import pnnx

    here = os.getcwd()
    os.chdir(directory)  # pnnx writes beside the file that it is given and where it runs
    try:
        pnnx.export(module, str(Path(directory) / "net.pt"), (x,))
    finally:
        os.chdir(here)
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.num_threads = os.cpu_count()
    if net.load_param(str(Path(directory) / "net.ncnn.param")) != 0:
        raise RuntimeError("ncnn cannot load what pnnx wrote")
    net.load_model(str(Path(directory) / "net.ncnn.bin"))
    return net


def measure(name, runs):
    import ncnn

    network = NETWORKS[name]
    given = network.inputs(1, False, 0)
    (key, x), = given.items()
    module = _Plain(network.make(False), key).eval()
    fast = torch.compile(module, backend="vulkan")
    with tempfile.TemporaryDirectory() as directory, torch.no_grad():
        fast(x)  # first: the package sets what the driver reads when it starts
        net = ncnn_net(module, x, directory)
        image = x[0].numpy().copy()

        def by_ncnn():
            with net.create_extractor() as extractor:
                extractor.input(net.input_names()[0], ncnn.Mat(image).clone())
                return np.array(extractor.extract(net.output_names()[0])[1])

        calls = {"eager": lambda: module(x).numpy(), "vulkan": lambda: fast(x).numpy(),
                 "ncnn": by_ncnn}
        times = {key: [] for key in calls}
        outputs = {key: call().reshape(-1) for key, call in calls.items()}
        for _ in range(runs):
            for key, call in calls.items():
                start = time.perf_counter()
                call()
                times[key].append((time.perf_counter() - start) * 1e3)
    row = {"network": name}
    for key, values in times.items():
        row[f"{key}_min_ms"], row[f"{key}_median_ms"] = min(values), statistics.median(values)
        row[f"{key}_difference"] = float(np.abs(outputs[key] - outputs["eager"]).max() /
                                         np.abs(outputs["eager"]).max())
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", action="append")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", help="where the results go")
    args = parser.parse_args()
    rows = []
    print(f"{'network':18} {'eager ms':>18} {'vulkan ms':>18} {'ncnn ms':>18} {'ncnn/vulkan':>12} "
          f"{'difference':>20}")
    for name in args.network or ["ResNet-50"]:
        row = measure(name, args.runs)
        rows.append(row)
        cells = [f"{row[k + '_min_ms']:8.1f} {row[k + '_median_ms']:8.1f}".rjust(18)
                 for k in ("eager", "vulkan", "ncnn")]
        print(f"{name:18} {' '.join(cells)} "
              f"{row['ncnn_median_ms'] / row['vulkan_median_ms']:12.2f} "
              f"{row['vulkan_difference']:10.1e}{row['ncnn_difference']:10.1e}")
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
