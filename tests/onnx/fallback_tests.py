"""The cases of node_tests.py that engines do not take as a whole, with ONNX Runtime for the rest;
and the list of those that do not pass, fallback_cases.txt, which

    python tests/onnx/fallback_tests.py --write

writes anew. What it leaves out passes.
"""

import argparse
import warnings
from pathlib import Path

import numpy
import onnx
from onnx import numpy_helper

import torch_vulkan as tv

import node_tests
from node_tests import Result

LIST = Path(__file__).parent / "fallback_cases.txt"
# Expected results of random operators are one draw of onnx's own generator.
RANDOM = ("test_bernoulli", "test_training_dropout")


def run(name: str) -> Result:
    """Runs one case at the lowest optimisation level."""
    case = node_tests.cases()[name]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch_vulkan: ")
            model = tv.onnx.compile(case.model, fallback="onnxruntime", optimization_level=0)
            for inputs, outputs in data_of(name, case):
                feed = {arg.name: value for arg, value in
                        zip(model.get_inputs(), inputs, strict=True)}
                for got, want in zip(model.run(None, feed), outputs, strict=True):
                    if name.startswith(RANDOM) and not numpy.array_equal(got, want):
                        assert got.shape == want.shape and got.dtype == want.dtype
                        return Result(name, "random", "a draw of onnx's own generator is expected")
                    check(got, want, case)
    except tv.UnsupportedError as refusal:
        return Result(name, "refused", str(refusal))
    except AssertionError as error:
        return Result(name, "wrong", str(error))
    except (ValueError, RuntimeError) as error:
        return Result(name, "failed", f"{type(error).__name__}: {error}")
    return Result(name, "pass")


def data_of(name, case):
    """(inputs, outputs) of each data set, as arrays, lists and None."""
    for inputs, outputs in case.data_sets:
        yield [*map(_value, inputs)], [*map(_value, outputs)]


def _value(given):
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, onnx.SequenceProto):
        return numpy_helper.to_list(given)
    if isinstance(given, onnx.OptionalProto):
        return numpy_helper.to_optional(given)
    return given if given is None or isinstance(given, list) else numpy.asarray(given)


def check(got, want, case):
    if want is None:
        assert got is None, f"got {got}, want nothing"
    elif isinstance(want, list):
        assert len(got) == len(want), f"{len(got)} items, want {len(want)}"
        for a, b in zip(got, want, strict=True):
            check(a, b, case)
    elif want.dtype.kind in "OUS":
        assert got.shape == want.shape, f"shape {got.shape}, want {want.shape}"
        assert got.astype(str).tolist() == want.astype(str).tolist()
    else:
        node_tests._check(got, want, case)


def text_of(results: list[Result]) -> str:
    """The list as it is in the file."""
    node = {name for name, case in node_tests.cases().items() if case.kind == "node"}
    bad = [r for r in results if r.status != "pass"]
    count = len(node) - sum(r.name in node for r in bad)
    lines = [f"# With ONNX Runtime for the rest {count} of the {len(node)} node tests of onnx "
             f"{onnx.__version__} pass, and\n# all other cases but these. Written by "
             "`tests/onnx/fallback_tests.py --write`.\n"]
    by_reason: dict[str, list[str]] = {}
    for r in bad:
        by_reason.setdefault(f"{r.status}: {short(r.reason)}", []).append(r.name)
    for reason, names in sorted(by_reason.items()):
        lines.append(f"\n[{reason}]\n" + "".join(f"{name}\n" for name in sorted(names)))
    return "".join(lines)


def short(reason: str) -> str:
    line = reason.strip().splitlines()[0]
    return line if len(line) < 160 else line[:157] + "..."


def listed() -> dict[str, str]:
    """name → status, as the file has it."""
    return statuses(LIST)


def statuses(path: Path) -> dict[str, str]:
    """name → status of a list in which names follow "[status: reason]"."""
    found, status = {}, ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            status = line[1:].partition(":")[0]
        elif line and not line.startswith("#"):
            found[line] = status
    return found


def main():
    parser = argparse.ArgumentParser(description="The list of cases that do not pass.")
    parser.add_argument("--write", action="store_true", help=f"write {LIST.name} anew")
    text = text_of([run(name) for name in node_tests.listed()])
    if parser.parse_args().write:
        LIST.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
