"""tv.build_graph: the engine of a graph file, as tv.export_graph writes it."""

import json
import os

import torch

from .._base.dumps import debug_directory
from .._base.errors import UnsupportedError
from .._base.progress import progress_for
from .._base.settings import Settings
from .._device.device_list import spec_for
from .._dry_run.report import Graph
from .._dry_run.script import details_of
from .._dynamo.backend import device_profile
from .._engines.engine import Engine
from .._native import C
from .._onnx.files import ranges, weights_of
from .._torch.captures import Capture

SUFFIX = ".vkg"


def is_graph_path(model) -> bool:
    """Whether it is the path of a graph file, by its name."""
    return isinstance(model, (str, os.PathLike)) and os.fspath(model).endswith(SUFFIX)


def build_graph(path: str | os.PathLike, inputs=None, *, weights: str | os.PathLike | None = None,
                **settings) -> Engine:
    """Builds the engine of a graph file, or takes it from the cache: the one that tv.compile makes
    of the module. No code of the model is needed.

    Args:
        path: of the file.
        inputs: sizes by name of the input, each a shape, a tensor or a tv.Input, within those that
            the file was exported for; default: these.
        weights: a .safetensors file whose tensors take the place of those of the same names.
        settings: as for tv.compile (docs/settings.md).

    Raises:
        ValueError: the file is no graph file, or a wrong one; the message says where. Sizes that it
            does not take; an invalid setting.
        UnsupportedError: nodes that the device cannot run.
    """
    checked = Settings.from_options(settings, of_file=True, taken_by=build_graph)
    compiler = checked.compiler_json(debug_directory(checked))
    model = _read(path, inputs, weights)
    device = spec_for(checked.device, torch.device("cpu"))
    plan = C.plan(model.graph, compiler, device_profile(device), whole=True)
    if not plan.is_whole:
        raise UnsupportedError("\n  ".join(["[graph file] nodes cannot run on this device:",
                                            *plan.refusals]))
    held = weights_of(model, checked)
    progress = progress_for("graph", checked.progress)
    vke = C.build(plan, 0, progress, checked.keyed_by(held.values()).cache_json())
    if progress:
        progress.close()
    engine = Engine(vke, device or None)
    engine.set_weights({w["name"]: held[w["name"]] for w in engine.info()["weights"]})
    return engine


def describe(path, inputs, session) -> None:
    """Tells the session of a dry run what build_graph would build."""
    settings, findings = session.settings, session.findings
    findings.model = os.path.basename(path)
    given = _read(path, inputs, None).graph, settings.compiler_json(), session.profile
    plan, whole = C.plan(*given), C.plan(*given, whole=True)
    report = json.loads(plan.report())
    if settings.require_full_compilation and not whole.is_whole:
        raise UnsupportedError("\n  ".join(["[graph file] nodes cannot run:", *whole.refusals]))
    details = details_of({**report, "sizes": list(plan.candidate_sizes)})
    session.add(Graph("graph file", details, Capture("", os.fspath(path))))
    findings.exportable = whole.is_whole
    findings.export_reason = "" if findings.exportable else (
        "a .vke file holds an engine, and nothing runs the rest of a graph file")


def _read(path, inputs, weights):
    if inputs is not None and not hasattr(inputs, "items"):
        raise ValueError(f"tv.build_graph: inputs: got {type(inputs).__name__}, want sizes by name")
    return C.read_graph_file(os.fspath(path), ranges(path, inputs),
                             "" if weights is None else os.fspath(weights))
