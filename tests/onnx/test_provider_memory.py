"""Memory of ONNX Runtime's provider: results that a caller puts into that of inputs, and what a
session holds."""

import numpy
import onnx
import provider_tests
import pytest
from onnx import TensorProto, helper
from provider_tests import session
from test_provider import in_process, random

import torch_vulkan as tv

from onnx_models import linear, model, tensor, weight

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")
BOOL = TensorProto.BOOL


@pytest.mark.parametrize("offset", [0, 64, -64])
def test_a_result_in_the_memory_of_an_input(offset):
    """Calls would read what they have written."""
    w = random(16, 16)
    made = model([helper.make_node("MatMul", ["x", "w"], ["h"]),
                  helper.make_node("Tanh", ["h"], ["y"])],
                 [tensor("x", [40, 16])], [tensor("y", [40, 16])], [weight("w", w)])
    opened = session(made)
    memory = numpy.zeros(42 * 16, numpy.float32)
    x = memory[16:-16].reshape(40, 16)
    x[:] = random(40, 16, seed=1)
    want = numpy.tanh(x @ w)
    start = 16 + offset // 4
    y = memory[start:start + 640].reshape(40, 16)
    binding = opened.io_binding()
    for bind, name, array in ((binding.bind_input, "x", x), (binding.bind_output, "y", y)):
        bind(name, "cpu", 0, numpy.float32, array.shape, array.ctypes.data)
    opened.run_with_iobinding(binding)
    numpy.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


def test_results_in_the_memory_of_each_others_inputs():
    made = model([helper.make_node("Identity", ["a"], ["p"]),
                  helper.make_node("Identity", ["b"], ["q"]),
                  helper.make_node("Add", ["a", "b"], ["h"]),
                  helper.make_node("Exp", ["h"], ["y"])],
                 [tensor("a", [6]), tensor("b", [6])],
                 [tensor("p", [6]), tensor("q", [6]), tensor("y", [6])])
    opened = session(made, level="ORT_DISABLE_ALL")
    a, b, y = random(6), random(6, seed=1), random(6)
    was = a.copy(), b.copy()
    binding = opened.io_binding()
    for bind, name, array in ((binding.bind_input, "a", a), (binding.bind_input, "b", b),
                              (binding.bind_output, "p", b), (binding.bind_output, "q", a),
                              (binding.bind_output, "y", y)):
        bind(name, "cpu", 0, numpy.float32, array.shape, array.ctypes.data)
    opened.run_with_iobinding(binding)
    numpy.testing.assert_array_equal([b, a], was)
    numpy.testing.assert_allclose(y, numpy.exp(was[0] + was[1]), rtol=1e-5)


@pytest.mark.skipif(tv.devices()[0].type != "cpu", reason="this device has memory of its own")
def test_bound_memory_is_not_copied(tmp_path):
    """128 MiB go in and as many out; what the process held most is what it held before."""
    made = model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", ["n", 1 << 15])],
                 [tensor("y", ["n", 1 << 15])])
    onnx.save(made, tmp_path / "net.onnx")
    printed = in_process("""
register()
opened = session(sys.argv[1])
def run(rows):
    x = numpy.full((rows, 1 << 15), -1, numpy.float32)
    x[:, ::2] = 2
    y = numpy.full_like(x, -3)
    binding = opened.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, numpy.float32, y.shape, y.ctypes.data)
    def kib(key):
        return next(int(line.split()[1]) for line in open("/proc/self/status")
                    if line.startswith(key))
    before = kib("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")  # the most so far is what there is now
    opened.run_with_iobinding(binding)
    most = kib("VmHWM")
    assert y[:, ::2].min() == y.max() == 2 and y[:, 1::2].max() == y.min() == 0
    return most - before
run(2)
print(run(1 << 10))
""", tmp_path / "net.onnx")
    assert int(printed) < 32 << 10, printed  # KiB


def test_what_was_imported_goes_when_it_is_compiled(tmp_path):
    """A body's weights are part of it: 128 MiB that the runtime holds itself."""
    then = helper.make_graph([helper.make_node("Add", ["x", "t0"], ["t"])], "then", [],
                             [tensor("t", [1 << 25])],
                             [weight("t0", random(1 << 25))])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "other", [],
                              [tensor("o", None)])
    made = model([helper.make_node("If", ["c"], ["b"], then_branch=then, else_branch=other),
                  helper.make_node("Exp", ["x"], ["y"])],
                 [tensor("x", [1]), tensor("c", [], BOOL)], [tensor("y", [1]), tensor("b", None)])
    onnx.save(made, tmp_path / "large.onnx")
    onnx.save(linear()[0], tmp_path / "small.onnx")
    printed = in_process("""
import ctypes
register()
def held():
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps for later is not held
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
first = session(sys.argv[1])
before = held()
second = onnxruntime.InferenceSession(sys.argv[2], providers=["CPUExecutionProvider"])
between = held()
third = session(sys.argv[2])
print((held() - between) - (between - before))
""", tmp_path / "small.onnx", tmp_path / "large.onnx")
    assert int(printed) < 64, printed  # MiB


def test_weights_are_held_once(tmp_path):
    """Packed for the kernels: what they were packed of is the runtime's, and goes."""
    rows = 1 << 12  # 64 MiB a matrix
    names = ["a", "b", "c"]
    made = model([helper.make_node("MatMul", [x, w], [y])
                  for x, w, y in zip(["x", "h0", "h1"], names, ["h0", "h1", "y"], strict=True)],
                 [tensor("x", [64, rows])], [tensor("y", [64, rows])],
                 [weight(name, random(rows, rows, seed=i)) for i, name in enumerate(names)])
    onnx.save(made, tmp_path / "large.onnx")
    printed = in_process("""
import ctypes
register()
def held():
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps for later is not held
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
session(sys.argv[1])  # the driver keeps what it has compiled
before = held()
opened = session(sys.argv[1])
print(held() - before)
""", tmp_path / "large.onnx")
    assert int(printed) < 300, printed  # MiB; 192 of weights
