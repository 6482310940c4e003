"""The onnx package's backend tests, one at a time: passed, refused for a reason, or wrong; and the
list of those that are refused, refused_cases.txt, which

    python tests/onnx/node_tests.py --write

writes anew in seconds, as a refusal needs no engine. What the list leaves out passes.
"""

import argparse
import dataclasses
import functools
import re
import warnings
from pathlib import Path
from unittest import mock

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import torch_vulkan as tv
from torch_vulkan import onnx as tv_onnx
from torch_vulkan._native import C
from torch_vulkan.onnx_backend import Backend

LIST = Path(__file__).parent / "refused_cases.txt"

# The cases' own tolerances (rtol 1e-3) are meant for float32. Results of 16 bits were rounded after
# every step where the expected ones were made, and not here: two units in the last place.
_RTOL = {"float16": 2 * 2**-10, "bfloat16": 2 * 2**-7}
# What cancels is as near as the largest result allows: expected zeros are sums of rounding errors.
_OF_LARGEST = 1e-6


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a case: "pass", "refused" or "wrong"; `reason` for the latter two."""

    name: str
    status: str
    reason: str = ""


# Tests of single operators, and models of old exporters. "real" ones would be fetched.
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


@functools.cache
def cases() -> dict:
    """name → case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: _loaded(case) for kind in KINDS for case in load_model_tests(kind=kind)}


def _loaded(case):
    """A case with its model and data, where it comes as files."""
    if case.model is not None:
        return case
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    data = [([_read(path, value) for path, value in _files(part, "input", model.graph.input)],
             [_read(path, value) for path, value in _files(part, "output", model.graph.output)])
            for part in sorted(folder.glob("test_data_set_*"))]
    return dataclasses.replace(case, model=model, data_sets=data)


def _files(folder: Path, kind: str, values):
    paths = (folder / f"{kind}_{i}.pb" for i in range(len(values)))
    return [(path, value) for path, value in zip(paths, values, strict=True) if path.exists()]


def _read(path: Path, value):
    """A tensor; None for a sequence, which no case that runs has."""
    return onnx.load_tensor(path) if value.type.HasField("tensor_type") else None


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
        return Result(name, "refused", str(refusal))
    except AssertionError as error:
        return Result(name, "wrong", str(error))
    except (ValueError, RuntimeError) as error:
        return Result(name, "wrong", f"{type(error).__name__}: {error}")
    return Result(name, "pass")


class _Accepted(Exception):
    """Raised in place of building what was not refused."""


def refusals() -> dict[str, str]:
    """name → why, of all cases that are refused for the built-in profile, on whatever machine."""
    found = {}
    with (mock.patch.object(C, "build", side_effect=_Accepted),
          mock.patch.object(tv_onnx, "device_profile",
                            lambda device: C.DeviceProfile.builtin_default())):
        for name in cases():
            try:
                result = run(name)
            except _Accepted:
                continue
            assert result.status == "refused", f"{name} was not to run: {result}"
            found[name] = reason_of(result.reason)
    return found


def reason_of(text: str) -> str:
    """A refusal in few words: its first line, without the names of the model."""
    lines = [line.strip() for line in text.splitlines()]
    line = lines[1] if len(lines) > 1 else lines[0]
    line = re.sub(r"^\[onnx\] ", "", line)
    line = re.sub(r'^\[(\w+) "[^"]*"\]', r"\1:", line)
    line = re.sub(r"(input|initializer|output) \"[^\"]*\"", r"\1", line)
    return re.sub(r"'[^']*': ", "", line)


def text_of(refused: dict[str, str]) -> str:
    """The list as it is in the file: names below their reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(name)
    groups = (f"\n[{reason}]\n" + "".join(f"{name}\n" for name in sorted(names))
              for reason, names in sorted(by_reason.items()))
    return (f"# Of the {len(cases())} cases of onnx {onnx.__version__} these are refused, and all "
            "others pass.\n"
            f"# Written by `tests/onnx/node_tests.py --write`.\n{''.join(groups)}")


def listed() -> dict[str, str]:
    """name → why, as the file has it."""
    found, reason = {}, ""
    for line in LIST.read_text().splitlines():
        if line.startswith("["):
            reason = line[1:-1]
        elif line and not line.startswith("#"):
            found[line] = reason
    return found


def listed_cases() -> tuple[int, str]:
    """How many cases there are, of which version of the onnx package."""
    count, version = re.search(r"(\d+) cases of onnx (\S+)", LIST.read_text()).groups()
    return int(count), version


def main():
    parser = argparse.ArgumentParser(description="The list of refused cases.")
    parser.add_argument("--write", action="store_true", help=f"write {LIST.name} anew")
    text = text_of(refusals())
    if parser.parse_args().write:
        LIST.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
