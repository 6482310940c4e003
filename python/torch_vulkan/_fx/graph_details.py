"""What compiling one captured graph would do: its entry in the dry-run report."""

import json
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from torch import fx

from .._native import C
from . import flops, fx_nodes


@dataclass
class GraphDetails:
    """One graph of a dry run.

    Attributes:
        data: its entry in the report (_dry_run/report.schema.json, "graph").
        block_sizes: compute nodes of each block that min_block_size = 1 would make.
        sized_nodes: compute nodes that there are then: an operator may be several in an engine.
        missing: operators that could be in an engine if they had a converter that took them.
        if_supported: operators → (engines, covered nodes), were they supported.
    """

    data: dict
    block_sizes: list[int]
    sized_nodes: int
    missing: set[str]
    if_supported: Callable[[Collection[str]], tuple[int, int]]


def describe(nodes: list[fx.Node], plan, native) -> GraphDetails:
    """Args:
        nodes: by the index of a node's origin.
        plan: of the graph.
        native: records of what stays with PyTorch, views included.
    """
    dry, counted = json.loads(plan.report()), plan.flops
    blocks = [[nodes[i] for i in block] for block in plan.blocks]
    # Work → its floating-point operations: where no registration counts them, torch may.
    work = {nodes[i]: counted.get(i) or flops.flops_of(nodes[i]) for i in plan.work}
    block_of = {node: i for i, block in enumerate(blocks) for node in block}
    covered = sum(node in block_of for node in work)
    engines = [_engine(f"engine_{i}", engine, block, work)
               for i, (engine, block) in enumerate(zip(dry["engines"], blocks, strict=True))]
    data = {
        "nodes": len(nodes),
        "compute_nodes": len(work),
        "covered_nodes": covered,
        "coverage": covered / len(work) if work else 1.0,
        "flops": sum(work.values()),
        "engines": engines,
        "native": [_native(record, counts) for record, counts in native],
        "modules": _modules(work, block_of),
    }
    by_size = json.loads(C.block_sizes_report(plan.candidate_sizes, plan.compute_nodes))
    data |= by_size

    def if_supported(operators):
        blocks = plan.blocks_as_if(set(operators))
        return len(blocks), sum(nodes[i] in work for block in blocks for i in block)

    missing = {fx_nodes.op_name(node.target) for index, _, refused in plan.native
               if refused and index >= 0 and (node := nodes[index]) in work
               and not fx_nodes.has_effect(node)}
    return GraphDetails(data, list(plan.candidate_sizes), plan.compute_nodes, missing, if_supported)


def describe_native(nodes: list[fx.Node], records) -> GraphDetails:
    """Of a graph that stays PyTorch's as a whole, as Dynamo captured it: no converter helps."""
    work = {node: flops.flops_of(node) for node in nodes}
    data = {
        "nodes": len(nodes), "compute_nodes": len(nodes), "covered_nodes": 0,
        "coverage": 0.0 if nodes else 1.0, "flops": sum(work.values()),
        "engines": [],
        "native": [_native(record, True) for record in records],
        "modules": _modules(work, {}),
    }
    data |= json.loads(C.block_sizes_report([], len(nodes)))
    return GraphDetails(data, [], len(nodes), set(), lambda operators: (0, 0))


def _native(record, counts: bool) -> dict:
    return {"operator": record.op, "reason": record.reason, "source": record.source,
            "module_path": record.module_path, "does_work": counts}


def _engine(name: str, dry: dict, block: list[fx.Node], work: dict[fx.Node, int]) -> dict:
    """`work`: flops of the nodes of the graph that do work."""
    working = [node for node in block if node in work]
    operators = Counter(fx_nodes.op_name(node.target) for node in block)
    modules = dict.fromkeys(fx_nodes.module_path_of(node) for node in working)
    return {
        "name": name,
        "nodes": len(block),
        "compute_nodes": len(working),
        "operators": dict(operators.most_common()),
        "inputs": dry["inputs"],
        "outputs": dry["outputs"],
        "flops": sum(work[node] for node in working),
        "weights": dry["weights"],
        "weight_bytes": dry["weight_bytes"],
        "quantised": dry["quantised"],
        "sparse": dry["sparse"],
        "modules": [path for path in modules if path],
    }


def _modules(work: dict[fx.Node, int], block_of: dict[fx.Node, int]) -> list[dict]:
    """By innermost module, in the order of the graph."""
    rows: dict[str, dict] = {}
    for node, count in work.items():
        path = fx_nodes.module_path_of(node)
        row = rows.setdefault(path, {"path": path, "compute_nodes": 0, "covered_nodes": 0,
                                     "flops": 0, "engines": set()})
        row["compute_nodes"] += 1
        row["flops"] += count
        if node in block_of:
            row["covered_nodes"] += 1
            row["engines"].add(block_of[node])
    return [row | {"engines": [f"engine_{i}" for i in sorted(row["engines"])]}
            for row in rows.values()]
