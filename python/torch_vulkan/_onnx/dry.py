"""ONNX files in the dry-run report."""

import importlib.util
import json
import os
import warnings

from .._base.errors import UnsupportedError
from .._dry_run.report import Graph
from .._dry_run.script import details_of
from .._native import C
from .._torch.captures import Capture
from .files import imported, ranges

# Of whose operators ONNX Runtime or the onnx package knows all.
_STANDARD = ("", "ai.onnx", "ai.onnx.ml")


def is_model(model) -> bool:
    """Whether it is a path, bytes or a ModelProto."""
    return isinstance(model, (str, os.PathLike, bytes)) or hasattr(model, "SerializeToString")


def describe(model, inputs, session) -> None:
    """Tells the session what tv.onnx.compile would build.

    Raises:
        UnsupportedError: with require_full_compilation, or without the onnx package, where the
            model is not one engine: all that is in the way.
    """
    settings, profile = session.settings, session.profile
    compiler = settings.compiler_json()
    given = {"inputs": ranges(model, inputs), "constants": {}}
    findings = session.findings
    findings.model = os.path.basename(model) if isinstance(model, (str, os.PathLike)) else "model"
    try:
        whole = C.plan(imported(model, given, compiler).graph, compiler, profile, whole=True)
        if not whole.is_whole:
            raise UnsupportedError("\n  ".join(["[onnx] nodes cannot run:", *whole.refusals]))
        report, by_size = json.loads(whole.report()), whole
    except UnsupportedError:
        if settings.require_full_compilation or importlib.util.find_spec("onnx") is None:
            raise
        report, by_size = _divided(model, given, settings, profile)
    native = [{**node, "operator": node["operator"].removeprefix("onnx::")}
              for node in report["native"]]
    details = details_of({**report, "native": native, "sizes": list(by_size.candidate_sizes),
                          "sized_nodes": by_size.compute_nodes})
    session.add(Graph("onnx", details, Capture(
        "", os.fspath(model) if isinstance(model, (str, os.PathLike)) else "")))
    findings.exportable = not native
    findings.export_reason = "" if not native else (
        "a .vke file holds an engine, and the rest runs natively")


def _divided(model, given, settings, profile):
    """The report, and the plan of blocks of any size. What is left out with a small block counts
    once in the former, and in the latter as the nodes that it would be."""
    # Only here: they need the onnx package, which gives the types of what is native.
    from .division import Division, divide
    from .native import Source

    planned = Division(Source(model), given, settings, profile)
    report = json.loads(planned.plan.report())
    nobodys = _nobodys(planned)
    for node in report["native"]:
        if why := nobodys.get(node["source"]):
            node["reason"] += f"; nor does anything else run it: {why}"
    return report, divide(planned.source, given, settings.replaced(min_block_size=1),
                          profile).plan


def _nobodys(planned) -> dict[str, str]:
    """Label of a node of a domain that is not the standard's → why it would be refused."""
    if importlib.util.find_spec("onnxruntime") is None:
        return {}
    from .native import Part, reads

    found = {}
    for number, (label, *_, reason) in enumerate(planned.model.nodes):
        node = planned.source.nodes[number]
        if not reason or node.domain in _STANDARD:
            continue
        try:
            with warnings.catch_warnings(action="ignore"):
                Part(planned.source, [number], sorted(reads(node) - set(
                    planned.source.initializers)), [name for name in node.output if name])
        except UnsupportedError as error:
            found[label] = str(error).removeprefix("[onnx] ")
    return found
