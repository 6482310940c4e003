"""Sessions of ONNX Runtime with the Vulkan provider; and, of the cases of node_tests.py, the list
of those that do not pass by it alone, provider_cases.txt, which

    python tests/onnx/provider_tests.py --write

writes anew. What it leaves out passes, and the provider runs all of it.
"""

import argparse
import collections
import functools
import sys
from pathlib import Path

import fallback_tests
import numpy
import onnx
import onnxruntime

from torch_vulkan._onnx.values import from_runtime, to_runtime

import node_tests
from node_tests import Result

sys.path.insert(0, str(Path(__file__).parents[2] / "integrations" / "onnxruntime" / "python"))
import onnxruntime_ep_vulkan as vulkan  # noqa: E402

NAME = vulkan.get_ep_name()
CPU = "CPUExecutionProvider"
DRAW = "a draw of onnx's own generator is expected"
OTHER = "ONNX Runtime's own CPU provider gives another result"
HELPED = "it passes, and the CPU provider runs a part of it or all"
# They need a locale that the machine has or has not.
OF_A_LOCALE = "test_strnorm"
LIST = Path(__file__).parent / "provider_cases.txt"


def is_built() -> bool:
    try:
        vulkan.get_library_path()
    except FileNotFoundError:
        return False
    return True


@functools.cache
def register() -> None:
    """Once in a process."""
    onnxruntime.register_execution_provider_library(NAME, vulkan.get_library_path())


def session(model, entries=None, alone=False, severity=3, level="ORT_ENABLE_ALL", **options):
    """A session of a path or ModelProto that engines run as far as they can; `entries`: of the
    session's configuration; `alone`: without the CPU provider; `severity`: of its log."""
    register()
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = severity
    settings.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    for key, value in {"session.record_ep_graph_assignment_info": "1", **(entries or {})}.items():
        settings.add_session_config_entry(key, value)
    options = {"builder_optimization_level": 0, "min_subgraph_size": 1, **options}
    source = model if isinstance(model, (str, Path)) else model.SerializeToString()
    providers = [(NAME, options)] if alone else [(NAME, options), CPU]
    return onnxruntime.InferenceSession(source, settings, providers=providers, enable_fallback=0)


def nodes_of(opened) -> dict[str, list[list[str]]]:
    """provider → operators of each part of the graph that it runs."""
    found: dict[str, list[list[str]]] = {}
    for part in opened.get_provider_graph_assignment_info():
        found.setdefault(part.ep_name, []).append([node.op_type for node in part.get_nodes()])
    return found


def results_of(opened, feed) -> list:
    """All outputs, also of types that NumPy lacks."""
    if any(not arg.type.startswith("tensor(") or arg.type == "tensor(string)"
           for arg in (*opened.get_inputs(), *opened.get_outputs())):
        return opened.run(None, feed)
    names = [arg.name for arg in opened.get_outputs()]
    return [from_runtime(value) for value in opened.run_with_ort_values(
        names, {name: to_runtime(array) for name, array in feed.items()})]


def run(name: str) -> Result:
    """A case: "pass" if the provider ran all of it, "helped" if others had a part."""
    case = node_tests.cases()[name]
    try:
        opened = session(case.model)
        found = nodes_of(opened)
        for inputs, outputs in fallback_tests.data_of(name, case):
            feed = {arg.name: value for arg, value in
                    zip(opened.get_inputs(), inputs, strict=True)}
            for got, want in zip(results_of(opened, feed), outputs, strict=True):
                if name.startswith(fallback_tests.RANDOM) and not numpy.array_equal(got, want):
                    assert got.shape == want.shape and got.dtype == want.dtype
                    return Result(name, "random", DRAW)
                fallback_tests.check(got, want, case)
    except AssertionError as error:
        if NAME not in found:
            return Result(name, "cpu", OTHER)
        return Result(name, "wrong", str(error))
    except Exception as error:  # of many types
        return Result(name, "failed", f"{type(error).__name__}: {error}")
    return Result(name, "helped", HELPED) if CPU in found else Result(name, "pass")


def listed() -> dict[str, str]:
    """name → status, as the file has it."""
    return fallback_tests.statuses(LIST)


def text_of(results: list[Result]) -> str:
    """The list as it is in the file."""
    node = {name for name, case in node_tests.cases().items() if case.kind == "node"}
    results = [r for r in results if not r.name.startswith(OF_A_LOCALE)]
    count = collections.Counter(r.status for r in results if r.name in node)
    lines = [f"# {count['pass'] + count['helped']} of the {len(node)} node tests of onnx "
             f"{onnx.__version__} pass with onnxruntime {onnxruntime.__version__},\n# "
             f"{count['pass']} of them by the provider alone, and all other cases but these and "
             f"{OF_A_LOCALE}*.\n# Written by `tests/onnx/provider_tests.py --write`.\n"]
    by_reason: dict[str, list[str]] = {}
    for r in results:
        if r.status != "pass":
            by_reason.setdefault(f"{r.status}: {_short(r)}", []).append(r.name)
    for reason, names in sorted(by_reason.items()):
        lines.append(f"\n[{reason}]\n" + "".join(f"{name}\n" for name in sorted(names)))
    return "".join(lines)


def _short(result: Result) -> str:
    return fallback_tests.short(result.reason.replace(str(LIST.parents[2]), ""))


def main():
    parser = argparse.ArgumentParser(description="The list of cases that do not pass by it alone.")
    parser.add_argument("--write", action="store_true", help=f"write {LIST.name} anew")
    write = parser.parse_args().write
    text = text_of([run(name) for name in node_tests.cases()])
    if write:
        LIST.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
