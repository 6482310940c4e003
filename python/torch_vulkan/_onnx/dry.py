"""ONNX files in the dry-run report."""

import importlib.util
import json
import os

from .._dry_run.report import Graph
from .._dry_run.script import details_of
from .._native import C
from .._torch.captures import Capture
from ..errors import UnsupportedError
from .files import imported, ranges


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
    given = {"inputs": ranges(model, inputs), "constants": {},
             "sparse_weights": settings.sparse_weights}
    findings = session.findings
    findings.model = os.path.basename(model) if isinstance(model, (str, os.PathLike)) else "model"
    try:
        whole = C.plan(imported(model, given).graph, settings.compiler_json(), profile, whole=True)
        if whole.refusals:
            raise UnsupportedError("\n  ".join(["[onnx] nodes cannot run:", *whole.refusals]))
        report, sizes = json.loads(whole.report()), list(whole.candidate_sizes)
    except UnsupportedError:
        if settings.require_full_compilation or importlib.util.find_spec("onnx") is None:
            raise
        report, sizes = _divided(model, given, settings, profile)
    native = [{**node, "operator": node["operator"].removeprefix("onnx::")}
              for node in report["native"]]
    session.add(Graph("onnx", details_of({**report, "native": native, "sizes": sizes}), Capture(
        "", os.fspath(model) if isinstance(model, (str, os.PathLike)) else "")))
    findings.exportable = not native
    findings.export_reason = "" if not native else (
        "a .vke file holds an engine, and the rest runs natively")


def _divided(model, given, settings, profile) -> tuple[dict, list[int]]:
    # Only here: they need the onnx package, which gives the types of what is native.
    from .division import Division
    from .native import Source

    planned = Division(Source(model), given, settings, profile)
    return json.loads(planned.plan.report()), planned.candidate_sizes
