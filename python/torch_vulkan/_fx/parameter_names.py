"""Names of what a captured graph is given, and of the modules that its nodes come from: paths in
the tree of the module that was called. What the code that calls it names it is no part of them."""

import contextlib
import re
from collections import Counter
from contextvars import ContextVar

from torch import fx
from torch._dynamo.source import NNModuleSource, UnspecializedNNModuleSource

NAME = "torch_vulkan_parameter"
# Of the arguments of the graph that is being compiled, as Dynamo captured it.
_captured: ContextVar[tuple[str, ...]] = ContextVar("captured", default=())


def names(module: fx.GraphModule) -> dict[fx.Node, str]:
    """Each argument of a graph that Dynamo captured → its name, "" where it has none: "0.weight" of
    a parameter of a module, as named_parameters has it, and "args.0" of other tensors.

    Where a function calls several modules, those of the first have such names; to the others' that
    of the module is added. Each name is there once: where one would be there again, a number
    follows it ("b.weight#2").
    """
    root = _root(module)
    texts = {node: _text(_source(node)) for node in _arguments(module)}
    found, given = {}, Counter()
    for node in sorted(texts, key=lambda node: not texts[node].startswith(root)):
        name = path_of(texts[node], root)
        given[name] += 1
        found[node] = f"{name}#{given[name]}" if name and given[name] > 1 else name
    return {node: found[node] for node in texts}


def name_modules(module: fx.GraphModule) -> None:
    """Puts such paths into what Dynamo says of the modules of each node, `nn_module_stack`."""
    root = _root(module)
    for node in module.graph.nodes:
        if stack := node.meta.get("nn_module_stack"):
            node.meta["nn_module_stack"] = {
                key: (path_of(str(path), root), *kind) for key, (path, *kind) in stack.items()}


@contextlib.contextmanager
def known_from(module: fx.GraphModule):
    """Within it `give` knows the arguments of what Dynamo captured."""
    token = _captured.set(tuple(names(module).values()))
    try:
        yield
    finally:
        _captured.reset(token)


def give(node: fx.Node) -> None:
    """Writes the name of a placeholder that AOTAutograd has made of such an argument into its
    meta, where it is known."""
    if name := known(node):
        node.meta[NAME] = name


def known(node: fx.Node) -> str:
    """That name, or ""."""
    described, captured = node.meta.get("desc"), _captured.get()
    at, target = getattr(described, "idx", None), getattr(described, "target", None)
    name = captured[at] if isinstance(at, int) and at < len(captured) else target
    return name if isinstance(name, str) else ""


def _arguments(module: fx.GraphModule) -> list[fx.Node]:
    return module.graph.find_nodes(op="placeholder")


def _source(node: fx.Node):
    """Where Dynamo found an argument: a chain of expressions, each of the one in `base`."""
    return getattr(node, "_dynamo_source", None)


def _text(source) -> str:
    """"L['self']._modules['layer1']._parameters['weight']"."""
    name = getattr(source, "name", "")
    return name() if callable(name) else name


def _root(module: fx.GraphModule) -> str:
    """The expression of the module that a graph is of: the outermost that an argument's source goes
    through. One that is reached from the arguments of the code comes before globals."""
    found = []
    for node in _arguments(module):
        source, root = _source(node), None
        while source is not None:
            if isinstance(source, (NNModuleSource, UnspecializedNNModuleSource)):
                root = source
            source = getattr(source, "base", None)
        if root is not None:
            found.append(_text(root))
    return min(found, key=lambda text: text.startswith("G["), default="")


def path_of(expression: str, root: str = "") -> str:
    """"layer1.0.conv1" of "L['self']._modules['layer1']._modules['0'].conv1".

    Args:
        root: the expression of the module at whose tree's root a path begins; "": what the code was
            given is it.
    """
    at = re.escape(root) or r"[LG]\['\w+'\](\[[^\]]*\])*"
    if root or "." in expression:
        expression = re.sub(rf"^{at}(?=[.\[]|$)", "", expression)
    path = re.sub(r"\['?([^'\]]+)'?\]", r".\1", re.sub(r"^[LG](?=\[)", "", expression))
    return re.sub(r"\b_(modules|parameters|buffers)\.", "", path).strip(".")
