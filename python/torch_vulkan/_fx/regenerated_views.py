"""Views that AOTAutograd cannot make again behind a graph."""

import torch
from torch import fx

from .fx_nodes import is_getitem
from .refusals import WholeGraph
from .returned_views import chain_of, is_tensor


def refuse_what_sizes_do_not_tell(graph: fx.Graph, user_outputs: int) -> None:
    """A result that is a view of an argument, or of another result, AOTAutograd makes anew behind
    the graph. Where the operators that make it take sizes that vary, it does so by size, strides
    and offset alone (torch 2.13): elements of another type, and views that are conjugated or
    negated, come out as others, or not at all.

    Args:
        user_outputs: how many results of the graph go to the caller.

    Raises:
        WholeGraph: the graph returns such a view.
    """
    for node in graph.output_node().args[0][:user_outputs]:
        if not isinstance(node, fx.Node) or not is_tensor(node):
            continue
        chain = chain_of(node)
        base = chain[-1]
        if not is_tensor(base) or not any(map(_takes_a_size, chain[:-1])):
            continue
        of, view = base.meta["val"], node.meta["val"]
        shows_parts = of.is_complex() and not of.is_conj() and not view.is_complex()
        if (of.is_conj(), of.is_neg()) != (view.is_conj(), view.is_neg()) or (
                of.dtype != view.dtype and not shows_parts):
            raise WholeGraph("a result is a view with elements of another type, conjugated or "
                             "negated, whose size varies")


def _takes_a_size(node: fx.Node) -> bool:
    """Whether a view depends on a number that is known only when the graph runs."""
    call = node.args[0] if is_getitem(node) else node
    return any(isinstance(n.meta.get("val"), torch.SymInt) for n in call.all_input_nodes)
