"""What ONNX Runtime and the Vulkan provider add to an engine's call, in ms: the same small network
called by vkexec and through a session, inputs and results bound to host memory.

    python benchmarks/onnxruntime_call.py [--calls N] [--runs N] [--json]

Of each run the shortest and the median call are taken; runs of both take turns.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[1]
VKEXEC = ROOT / "python" / "torch_vulkan" / "bin" / "vkexec"

# Without torch, as an application that deploys a file would be.
CALLS = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import numpy, onnxruntime
import onnxruntime_ep_vulkan as vulkan
NAME = vulkan.get_ep_name()
onnxruntime.register_execution_provider_library(NAME, vulkan.get_library_path())
settings = onnxruntime.SessionOptions()
settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")  # an engine, or an error
options = {"builder_optimization_level": 0, "min_subgraph_size": 1}
session = onnxruntime.InferenceSession(sys.argv[2], settings, providers=[(NAME, options)],
                                       enable_fallback=0)
x, y = numpy.ones((2, 8), numpy.float32), numpy.empty((2, 5), numpy.float32)
binding = session.io_binding()
binding.bind_cpu_input("x", x)
binding.bind_output("y", "cpu", 0, numpy.float32, y.shape, y.ctypes.data)
times = []
for _ in range(int(sys.argv[3])):
    start = time.perf_counter()
    session.run_with_iobinding(binding)
    times.append(1e3 * (time.perf_counter() - start))
print(json.dumps(times))
"""


def write(path: Path) -> None:
    """A linear layer of 8 to 5 features."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [8, 5], [0.01 * i for i in range(40)])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5])], [weight])
    opset = helper.make_opsetid("", 21)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)


def by_vkexec(path: Path, calls: int) -> list[float]:
    """ms of each call by vkexec."""
    times = path.with_name("times.json")
    subprocess.run([VKEXEC, f"--onnx={path}", "--builderOptimizationLevel=0",
                    f"--iterations={calls}", "--duration=0", f"--exportTimes={times}"],
                   check=True, stdout=subprocess.DEVNULL)
    return [call["hostMs"] for call in json.loads(times.read_text())]


def by_provider(path: Path, calls: int) -> list[float]:
    """ms of each call through a session."""
    package = ROOT / "integrations" / "onnxruntime" / "python"
    done = subprocess.run([sys.executable, "-c", CALLS, package, path, str(calls)], text=True,
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Prints both and their difference."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ways = {"vkexec": by_vkexec, "provider": by_provider}
    found = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "linear.onnx"
        write(path)
        for _ in range(arguments.runs):
            for way, call in ways.items():
                found[way].append(call(path, arguments.calls))
    rows = {way: {"min": min(map(min, runs)), "median": min(map(statistics.median, runs))}
            for way, runs in found.items()}
    rows["added"] = {of: rows["provider"][of] - rows["vkexec"][of] for of in ("min", "median")}
    if arguments.json:
        print(json.dumps(rows))
        return
    for way, row in rows.items():
        print(f"{way:10} min {row['min']:.4f} ms, median {row['median']:.4f} ms")


if __name__ == "__main__":
    main()
