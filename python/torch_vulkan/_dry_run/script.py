"""TorchScript modules in the dry-run report: each stretch of straight-line code is a graph. What is
said of one is made of the compiler's own report."""

import json

import torch

from .._fx.graph_details import GraphDetails
from .._native import C
from .._script import programs
from .._torch.captures import Capture
from . import sessions
from .report import Graph


def describe(module, arguments, settings, session=None) -> None:
    """Tells the session what would be built of the module; without one, that of the settings."""
    session = session or sessions.session_for(settings)
    settings = sessions.described(settings)
    tensors = [*module.parameters(), *module.buffers()]
    profile = session.profile_for(next((t.device for t in tensors), torch.device("cpu")))
    for found in programs.reports(module, arguments, settings.replaced(dryrun=True),
                                profile.to_json()):
        if not found["nodes"]:
            continue
        session.add(Graph("torchscript", details_of(found), Capture(found["place"],
                                                                  found["source"])))


def details_of(found: dict) -> GraphDetails:
    """The entry of a graph that is reported by its nodes: `nodes` and counts of them, `engines`,
    `native`, `work` (csrc/report/dry_run.h) and `sizes`, compute nodes of each block that there
    could be, of `sized_nodes` in all where that is another plan's."""
    work = found["work"]
    engines = [{**engine, "name": f"engine_{i}",
                "flops": sum(w["flops"] for w in work if w["engine"] == i),
                "modules": [*dict.fromkeys(w["module_path"] for w in work
                                           if w["engine"] == i and w["module_path"])]}
               for i, engine in enumerate(found["engines"])]
    native = [{key: node[key] for key in ("operator", "reason", "source", "module_path",
                                          "does_work")} for node in found["native"]]
    sized_nodes = found.get("sized_nodes", found["compute_nodes"])
    data = {
        "nodes": found["nodes"], "compute_nodes": found["compute_nodes"],
        "covered_nodes": found["covered_nodes"], "coverage": found["coverage"],
        "flops": sum(w["flops"] for w in work), "engines": engines, "native": native,
        "modules": _modules(work),
        **json.loads(C.block_sizes_report(found["sizes"], sized_nodes)),
    }
    state = len(engines), found["covered_nodes"]
    return GraphDetails(data, found["sizes"], sized_nodes, set(), lambda operators: state)


def _modules(work: list[dict]) -> list[dict]:
    rows: dict[str, dict] = {}
    for node in work:
        row = rows.setdefault(node["module_path"], {
            "path": node["module_path"], "compute_nodes": 0, "covered_nodes": 0, "flops": 0,
            "engines": []})
        row["compute_nodes"] += 1
        row["flops"] += node["flops"]
        name = f"engine_{node['engine']}"
        if node["engine"] >= 0:
            row["covered_nodes"] += 1
            row["engines"] += [] if name in row["engines"] else [name]
    return [*rows.values()]
