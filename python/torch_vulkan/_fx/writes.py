"""What becomes of the inputs that a graph writes to, for the dry run: an engine makes the new value
where the input lies, or it is copied there, for a reason."""

import copy

from torch import fx

from .._base.settings import Settings
from .._native import C
from . import parameter_names
from .complex_values import real_at_border
from .engine_graph import EngineGraph
from .importer import name_of
from .mutation import attach_writes
from .native_writes import write_natively
from .small_floats import codes_at_border
from .splitting import split


def described(module: fx.GraphModule, kind: str, names: list[str], weights: set[str],
              settings: Settings, profile) -> list[dict]:
    """Entries of the report (_dry_run/report.schema.json, "write").

    Args:
        module: a graph whose last results are written over the inputs `names`
            (mutation.detach_writes); it stays as it is.
        kind: of the graph. Of an inference graph that no engine takes a part of PyTorch runs what
            was captured, which writes in place.
        weights: as for split.
    """
    if not names:
        return []
    twin = fx.GraphModule(module, copy.deepcopy(module.graph))
    parts = split(twin, weights, settings.replaced(dryrun=False), profile, warns=False)
    writes = attach_writes(twin, names, parts.engines, settings.truncate_long_and_double)
    natively = write_natively(twin)
    for write in writes:
        if write.target.name in natively:
            write.reason = ""
    copied = {name: _reasons(twin, name, parts, settings, profile)
              for name in {write.engine for write in writes if write.engine}}
    entries = [_entry(write, copied.get(write.engine, {})) for write in writes]
    if kind == "inference" and not parts.engines:
        entries = [entry | {"in_place": True, "reason": ""} for entry in entries]
    return entries


def _reasons(module, name: str, parts, settings: Settings, profile) -> dict[str, str]:
    """Of what an engine writes: input → why it copies the new value there, or ""."""
    real_at_border(module, name)
    codes_at_border(module, name)
    graph = EngineGraph(module, name, parts.plan, parts.block_of[name], parts.imported).graphs[-1]
    return dict(C.plan(graph, settings.compiler_json(), profile, whole=True).written())


def _entry(write, reasons: dict[str, str]) -> dict:
    tensor = write.target.meta["val"]
    reason = write.reason or reasons.get(name_of(write.target), "")
    numel = tensor.numel()
    size = int(numel) * tensor.element_size() if isinstance(numel, int) else None
    return {"input": parameter_names.known(write.target) or name_of(write.target),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": [n if isinstance(n, int) else str(n) for n in tensor.shape],
            "bytes": size, "engine": write.engine, "in_place": not reason, "reason": reason}
