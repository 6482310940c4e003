"""Cuts a captured graph into the parts that become engines and the rest that PyTorch runs."""

import heapq
from dataclasses import dataclass, field

import torch
from torch import fx
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from .._base.calibration_use import warn_of_missing, warn_of_unused
from .._base.settings import Settings
from .._native import C
from ..compilations import NativeRecord
from . import fx_nodes, graph_details
from .importer import Imported, Importer

PREFIX = "engine_"


@dataclass
class Split:
    """The partition of one graph.

    Attributes:
        engines: names of the sub-modules that become engines, in order of execution.
        compute: name → number of compute nodes in it.
        plan: of the graph.
        block_of: name → its block of the plan.
        imported: what was planned.
        compute_nodes: nodes of the whole graph that do work.
        native: what stays with PyTorch and why, views included.
        in_the_way: those of `native` that do work.
        details: what the dry-run report says of the graph, where nothing is built.
    """

    engines: list[str] = field(default_factory=list)
    compute: dict[str, int] = field(default_factory=dict)
    plan: object = None
    block_of: dict[str, int] = field(default_factory=dict)
    imported: Imported | None = None
    compute_nodes: int = 0
    native: list[NativeRecord] = field(default_factory=list)
    in_the_way: list[NativeRecord] = field(default_factory=list)
    details: graph_details.GraphDetails | None = None

    @property
    def covered_nodes(self) -> int:
        """Compute nodes inside engines."""
        return sum(self.compute.values())


def split(module: fx.GraphModule, weights: set[str], settings: Settings, profile,
          warns: bool = True) -> Split:
    """Partitions `module` and moves each block into a sub-module `engine_<i>`, in place; where
    nothing is built the module stays as it is. `warns`: of calibrations that are not used."""
    imported = Importer(module, weights, settings.permits_int8).run()
    compiler_settings = settings.compiler_json(on_cuda=_on_cuda(module))
    plan = C.plan(imported.graph, compiler_settings, profile)
    if warns:
        warn_of_missing(plan.calibration)
    result = Split(plan=plan, imported=imported)
    work = set(plan.work)
    result.compute_nodes = len(work)
    native = [(record_of(imported.nodes[index], reason), index in work)
              for index, reason, _ in plan.native if index >= 0]
    result.native = [record for record, _ in native]
    if warns and settings.permits_int8 and not settings.builds_nothing:
        warn_of_unused(plan.calibration)
    result.in_the_way = [record for record, works in native if works]

    blocks, name_of = [], {}
    for number, block in enumerate(plan.blocks):
        nodes = [imported.nodes[index] for index in block]
        if not nodes:
            continue  # numbers that the importer made tensors, and that only native nodes read
        name_of[number] = f"{PREFIX}{len(blocks)}"
        result.compute[name_of[number]] = len(work.intersection(block))
        blocks.append(_with_getitems(nodes))
    result.block_of = {name: number for number, name in name_of.items()}
    if settings.builds_nothing:
        result.details = graph_details.describe(imported.nodes, plan, native)
        result.engines = list(result.compute)
        return result
    if blocks:
        fuse_by_partitions(module, blocks, prefix=PREFIX, always_return_tuple=True)
        follow(module.graph, plan.schedule, imported.nodes, name_of)
        module.graph.lint()
        module.recompile()
    result.engines = [node.target for node in module.graph.nodes if node.op == "call_module"
                      and node.target in result.compute]
    return result


def record_of(node: fx.Node, reason: str) -> NativeRecord:
    """Of a node that PyTorch runs."""
    return NativeRecord(fx_nodes.op_name(node.target), reason, fx_nodes.source_of(node),
                        fx_nodes.module_path_of(node))


def _on_cuda(module: fx.GraphModule) -> bool:
    values = (node.meta.get("val") for node in module.graph.nodes)
    return any(isinstance(v, torch.Tensor) and v.device.type == "cuda" for v in values)


def _with_getitems(nodes) -> dict[fx.Node, int | None]:
    block = {}
    for node in nodes:
        block[node] = None
        block.update((user, None) for user in node.users if fx_nodes.is_getitem(user))
    return block


def follow(graph: fx.Graph, schedule: list[tuple[bool, int]], nodes: list[fx.Node],
           name_of: dict[int, str]) -> None:
    """Puts a graph whose blocks are calls of `engine_<i>` in the order of Plan.schedule, which
    keeps random numbers in the order of the program and mutation behind earlier readers.

    Nodes are found by name: the split has copied the graph.
    """
    by_name = {node.name: node for node in graph.nodes}
    engines = {node.target: node for node in graph.find_nodes(op="call_module")}
    steps = [engines.get(name_of.get(index)) if is_block
             else by_name.get(nodes[index].name) if index >= 0 else None
             for is_block, index in schedule]
    steps = [node for node in steps if node is not None]
    # The compiler does not see what makes a size that another node takes.
    order = _ordered(graph, steps) or _ordered(graph, [n for n in steps if fx_nodes.has_effect(n)])
    last = graph._root
    for node in order:
        last.append(node)
        last = node


def _ordered(graph: fx.Graph, steps: list[fx.Node]) -> list[fx.Node]:
    """The nodes in topological order, `steps` in theirs; empty if that cannot be."""
    position = {node: i for i, node in enumerate(graph.nodes)}
    after = {node: set(node.users) for node in graph.nodes}
    for first, second in zip(steps, [*steps[1:], graph.output_node()]):
        after[first].add(second)
    waiting = dict.fromkeys(graph.nodes, 0)
    for node in graph.nodes:
        for user in after[node]:
            waiting[user] += 1
    ready = [(position[node], node) for node, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for user in after[node]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, (position[user], user))
    return order if len(order) == len(position) else []
