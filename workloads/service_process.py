"""A compile service in a process of its own, and small models for it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from torch_vulkan._service.running.sandbox import bubblewrap, why_not

from workloads.patience import patience

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "python" / "torch_vulkan_service.py"
# Packages of clusters, object stores and PostgreSQL are in an environment of their own.
OWN_PYTHON = ROOT / ".venv-service" / "bin" / "python"
NO_ENVIRONMENT = "" if (OWN_PYTHON.parents[1] / "complete").exists() else (
    "there is no .venv-service, or not all of it: scripts/service_environment.sh makes it")
SECONDS = patience(120)  # more than anything here takes on a busy machine
# Containers may have bwrap and no namespaces.
SANDBOX = ("--no-sandbox",) if why_not(bubblewrap()) else ()


class Service:
    """A service on a folder. `kill` is kill -9; `start` again takes the same folder.

    Args:
        python: what it is run by; variables: of its environment, more; within: a command that
            runs it.
    """

    def __init__(self, folder: Path, *arguments: str, python: Path | str = sys.executable,
                 variables: dict[str, str] | None = None, within: tuple[str, ...] = ()):
        self.within = within
        self.folder, self.arguments = folder, arguments
        self.python, self.variables = python, variables or {}
        self.log = folder.with_suffix(".log")
        self.url = self.process = None

    def start(self) -> "Service":
        output = open(self.log, "ab")
        self.process = subprocess.Popen(
            [*self.within, self.python, SCRIPT, "serve", "--data", self.folder, "--port", "0",
             *self.arguments],
            stdout=subprocess.PIPE, stderr=output, text=True,
            env=environment(**self.variables))
        line = self.process.stdout.readline()
        found = re.search(r"https?://127\.0\.0\.1:\d+", line)
        assert found, f"no service: {self.log.read_text()[-2000:]}"
        self.url = found[0]
        return self

    @property
    def key(self) -> str:
        return (self.folder / "admin.key").read_text().strip()

    def client(self, key: str | None = None):
        from torch_vulkan.service import Client

        return Client(self.url, key or self.key)

    def children(self) -> list[int]:
        """The processes that run tasks."""
        found = []
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            found += [int(pid) for pid in path.read_text().split()]
        return found

    def kill(self) -> None:
        self.process.kill()
        self._gone()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self._gone()
        return self.process.returncode

    def _gone(self) -> None:
        self.process.wait(timeout=SECONDS)
        self.process.stdout.close()


def environment(**more: str) -> dict[str, str]:
    """Of the service and the command: without the environment's own key and URL."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("TORCH_VULKAN_API_KEY", "TORCH_VULKAN_SERVICE")}
    return kept | more


def until(condition, what: str, seconds: float = SECONDS):
    """Waits for a true value and returns it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)
    return value


def layers(widths, seed=0):
    """relu(x w + b) for each width: the bytes of an ONNX file, and the function in NumPy."""
    rng = numpy.random.default_rng(seed)
    nodes, weights, arrays = [], [], []
    for i, (rows, columns) in enumerate(zip(widths, widths[1:], strict=False)):
        w = (rng.standard_normal((rows, columns)) / rows ** 0.5).astype(numpy.float32)
        b = rng.standard_normal(columns).astype(numpy.float32)
        arrays.append((w, b))
        weights += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        out = "y" if i == len(widths) - 2 else f"r{i}"
        nodes += [helper.make_node("Gemm", [f"r{i - 1}" if i else "x", f"w{i}", f"b{i}"],
                                   [f"g{i}"]),
                  helper.make_node("Relu", [f"g{i}"], [out])]

    def value(name, width):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])

    graph = helper.make_graph(nodes, "layers", [value("x", widths[0])], [value("y", widths[-1])],
                              weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(made)

    def expected(x):
        for w, b in arrays:
            x = numpy.maximum(x @ w + b, 0)
        return x

    return made.SerializeToString(), expected


def one_node(op: str) -> bytes:
    """A model of one operator that takes and gives a vector."""
    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])

    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], name="the_node")], "one",
                              [value("x")], [value("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)],
                             ir_version=10).SerializeToString()


def long_model() -> bytes:
    """Takes seconds to tune: no two layers are alike."""
    return layers([16 + 7 * i for i in range(60)])[0]
