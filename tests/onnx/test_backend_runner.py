"""The onnx package's own runner of backend tests drives torch_vulkan.onnx_backend.Backend: its node
tests and its models of old exporters. A share of them, another for each seed; `make test-all` runs
all. Refused are those that refused_cases.txt lists and no other: models of exporters all run."""

import unittest
import warnings

import numpy
import onnx.backend.test
import pytest
from onnx import TensorProto

import torch_vulkan as tv
from torch_vulkan.onnx_backend import Backend

import node_tests
from onnx_models import model, tensor, unary
from seeds import share_of


class Untuned(Backend):
    """Kernels are tuned elsewhere. `ran` counts the runs that were not refused."""

    ran = 0

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        rep = super().prepare(model, device, optimization_level=0, **kwargs)
        run = rep.run

        def counted(inputs, **options):
            results = run(inputs, **options)
            Untuned.ran += 1
            return results

        rep.run = counted
        return rep


def tolerances():
    """Of the cases whose tolerances are for float32 while their results are not, by name."""
    found = {}
    for name, case in node_tests.cases().items():
        floats = [want for _, outputs in case.data_sets for want in map(node_tests._array, outputs)
                  if isinstance(want, numpy.ndarray) and want.dtype.name in
                  ("float16", "bfloat16", "float32") and want.size]
        if not floats:
            continue
        limits = [node_tests.tolerances(case, want) for want in floats]
        found[name] = {key: max(limit[key] for limit in limits) for key in ("rtol", "atol")}
    return found


@pytest.fixture(scope="module")
def runner():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnx.backend.test.BackendTest(Untuned, __name__, tolerances())


REAL = "OnnxBackendRealModelTest"  # whole networks, which it would fetch


def expect(runner, shares):
    """Runs a share of the cases on the CPU device: all pass but those that are listed."""
    cases = [case(name) for kind, case in sorted(runner.test_cases.items()) if kind != REAL
             for name in sorted(dir(case)) if name.startswith("test_") and name.endswith("_cpu")]
    assert len(cases) > 1500
    result, refused = unittest.TestResult(), set()
    for case in share_of(cases, shares):
        ran = Untuned.ran
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.run(result)
        if Untuned.ran == ran:  # the runner lets a refused case pass
            refused.add(name_of(case))
    assert not result.failures + result.errors, (result.failures + result.errors)[0][1]
    if onnx.__version__ == node_tests.listed_cases()[1]:
        listed = {name_of(case) for case in share_of(cases, shares)} & node_tests.listed().keys()
        assert refused == listed


def name_of(case) -> str:
    return case.id().split(".")[-1].removesuffix("_cpu")


def test_a_part(runner):
    expect(runner, 10)


@pytest.mark.slow
def test_all(runner):
    expect(runner, 1)


def test_a_refusal_is_a_skipped_case():
    made = unary("Nonsense")
    with pytest.raises(unittest.SkipTest, match="Nonsense") as refused:
        Backend.run_model(made, [numpy.zeros(4, "float32")])
    assert isinstance(refused.value, tv.UnsupportedError)


def test_an_older_file_is_converted():
    """Broadcasting had an attribute before opset 7."""
    made = model([onnx.helper.make_node("Add", ["x", "z"], ["y"], broadcast=1, axis=0)],
                 [tensor("x", [2, 3]), tensor("z", [2])], [tensor("y", [2, 3])], opset=6)
    x, z = numpy.ones((2, 3), "float32"), numpy.array([1, 2], "float32")
    (y,) = Backend.run_model(made, [x, z])
    numpy.testing.assert_array_equal(y, x + z[:, None])


def test_devices():
    assert Backend.supports_device("CPU") and not Backend.supports_device("TPU")
    made = model([onnx.helper.make_node("Neg", ["x"], ["y"])],
                 [tensor("x", [2], TensorProto.INT32)], [tensor("y", [2], TensorProto.INT32)])
    (y,) = Backend.run_model(made, numpy.array([1, -2], "int32"), device="CPU")
    assert y.tolist() == [-1, 2]
