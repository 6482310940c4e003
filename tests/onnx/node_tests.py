"""The node tests of the onnx package, one at a time: passed, skipped for a reason, or wrong."""

import functools
import hashlib
import warnings
from dataclasses import dataclass

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import torch_vulkan as tv
from torch_vulkan.onnx_backend import Backend

# The cases' own tolerances (rtol 1e-3) are meant for float32. Results of 16 bits were rounded after
# every step where the expected ones were made, and not here: two units in the last place.
_RTOL = {"float16": 2 * 2**-10, "bfloat16": 2 * 2**-7}
# What cancels is as near as the largest result allows: expected zeros are sums of rounding errors.
_OF_LARGEST = 1e-6


@dataclass(frozen=True)
class Result:
    """What became of a case: "pass", "skip" or "wrong"; `reason` for the latter two."""

    name: str
    status: str
    reason: str = ""


@functools.cache
def cases() -> dict:
    """name → case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def in_share(name: str, share: float) -> bool:
    """Whether a name is in a part of all that is chosen by hash."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") < share * 2**32


def chosen(share: float) -> list[str]:
    """Names of a part of the cases."""
    return [name for name in cases() if in_share(name, share)]


def tolerances(case, want) -> dict[str, float]:
    """rtol and atol of a result of a case."""
    exact = numpy.asarray(want).astype(numpy.float64)
    finite = numpy.abs(exact[numpy.isfinite(exact)])
    largest = finite.max() if finite.size else 0.0
    return {"rtol": max(case.rtol, _RTOL.get(want.dtype.name, 0)),
            "atol": max(case.atol, _OF_LARGEST * largest)}


def _array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _check(got, want, case):
    want = numpy.asarray(want)
    assert got.dtype == want.dtype, f"dtype {got.dtype}, want {want.dtype}"
    assert got.shape == want.shape, f"shape {got.shape}, want {want.shape}"
    if want.dtype.kind in "iub":
        numpy.testing.assert_array_equal(got, want)
        return
    numpy.testing.assert_allclose(got.astype(numpy.float64), want.astype(numpy.float64),
                                  **tolerances(case, want))


def run(name: str) -> Result:
    """Runs one case at the lowest optimisation level: kernels are tuned elsewhere."""
    case = cases()[name]
    try:
        rep = Backend.prepare(case.model, optimization_level=0)
        for inputs, outputs in case.data_sets:
            results = rep.run([_array(value) for value in inputs])
            for got, want in zip(results, outputs, strict=True):
                _check(got, _array(want), case)
    except tv.UnsupportedError as refusal:
        return Result(name, "skip", str(refusal))
    except AssertionError as error:
        return Result(name, "wrong", str(error))
    except (ValueError, RuntimeError) as error:
        return Result(name, "wrong", f"{type(error).__name__}: {error}")
    return Result(name, "pass")
