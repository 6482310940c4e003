"""What a module calls the parameters and buffers that a captured graph is given."""

import contextlib
import re
from contextvars import ContextVar

from torch import fx

NAME = "torch_vulkan_parameter"
# Of the arguments of the graph that is being compiled, as Dynamo captured it.
_captured: ContextVar[tuple[str, ...]] = ContextVar("captured", default=())


def path_of(source: str) -> str:
    """"layer1.0.conv1" for what Dynamo calls L['self']._modules['layer1']._modules['0']...."""
    path = re.sub(r"\['?([^'\]]+)'?\]", r".\1", source)
    path = re.sub(r"^L__self__[._]?|^L\.?(?:(?:self|__self__|fn)\b)?\.?", "", path)
    return re.sub(r"\b_(modules|parameters|buffers)\.", "", path).strip(".")


@contextlib.contextmanager
def known_from(module: fx.GraphModule):
    """Within it `give` knows the arguments of what Dynamo captured."""
    sources = [getattr(node, "_dynamo_source", None)
               for node in module.graph.find_nodes(op="placeholder")]
    names = [getattr(source, "name", "") for source in sources]
    token = _captured.set(tuple(path_of(name if isinstance(name, str) else name())
                                for name in names))
    try:
        yield
    finally:
        _captured.reset(token)


def give(node: fx.Node) -> None:
    """Writes the name of a placeholder that AOTAutograd has made of such an argument into its
    meta, where it is known."""
    described, names = node.meta.get("desc"), _captured.get()
    at, target = getattr(described, "idx", None), getattr(described, "target", None)
    name = names[at] if isinstance(at, int) and at < len(names) else target
    if isinstance(name, str) and name:
        node.meta[NAME] = name
