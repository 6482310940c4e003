"""The graph of one engine: a block of a plan, with the border that a sub-module has."""

from torch import fx

from .._torch import compat, ranges
from .fx_nodes import flat
from .importer import ID, Imported, name_of, promised_strides
from .mutation import is_write
from .prepare import pass_sizes


class EngineGraph:
    """What the engine in place of a sub-module computes.

    Args:
        module: the graph that calls the sub-module; it may be given more sizes here.
        name: of the sub-module.
        plan, block: the block of which the sub-module is a copy.
        imported: what was planned.

    Attributes:
        graphs: the compiler's Graph, once for each shape profile.
        native: the sub-module.
        outputs: its results, nodes of it, in the order of the engine's.
        inputs, weights: positions of arguments of the sub-module, in the order of the engine's.
        numbers: (position, bias) of sizes that are handed over behind the inputs, each, with the
            bias added, as the size of an empty tensor.
    """

    def __init__(self, module: fx.GraphModule, name: str, plan, block: int, imported: Imported):
        self.native = getattr(module, name)
        self._name, self._plan, self._block, self._imported = name, plan, block, imported
        placeholders = self.native.graph.find_nodes(op="placeholder")
        self._positions = {node.meta[ID]: i for i, node in enumerate(placeholders)
                           if ID in node.meta}
        self.outputs = [node for node in flat(self.native.graph.output_node().args[0])
                        if isinstance(node, fx.Node) and ID in node.meta]
        has_symbols = compat.shape_env_of(self.native) is not None
        profiles = ranges.given().profiles if has_symbols else []
        cuts = [self._cut(profile) for profile in profiles or [None]]
        self.graphs = [graph for graph, *_ in cuts]
        _, self.inputs, self.weights, carried = cuts[-1]  # the same for all shape profiles
        where = pass_sizes(module, name, [symbol for symbol, _ in carried])
        self.numbers = [(position, bias)
                        for position, (_, bias) in zip(where, carried, strict=True)]

    def _cut(self, profile: dict | None):
        """(Graph, positions of inputs and of weights, symbols that are numbers) for a shape
        profile; None: for all of them."""
        symbols = self._imported.symbols
        outputs = [(node.meta[ID], name_of(node), promised_strides(node.meta["val"], symbols))
                   for node in self.outputs]
        for write in filter(is_write, self.native.graph.nodes):
            target, value = write.args
            outputs.append((value.meta[ID], name_of(target), None, target.meta[ID]))
        graph, inputs, weights = self._plan.cut(
            self._block, self._name, list(self._positions), outputs, symbols.ranges(profile))
        return (graph, [self._positions[v] for v in inputs],
                [self._positions[v] for v in weights], symbols.carry(graph))
