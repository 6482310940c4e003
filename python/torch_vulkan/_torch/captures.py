"""What Dynamo says of the graphs that it hands over: why one ends, and why it was traced again."""

import os
import re
from dataclasses import dataclass, field

import torch
from torch import fx


@dataclass(frozen=True)
class GraphBreak:
    """A place where capturing stopped, and Python goes on without the compiler.

    Attributes:
        reason: what Dynamo could not trace.
        hints: what to change, in Dynamo's words.
        source: "model.py:42".
        code: the text of that line.
    """

    reason: str
    hints: tuple[str, ...] = ()
    source: str = ""
    code: str = ""


@dataclass(frozen=True)
class Recompilation:
    """A function that was traced again, and the guard that failed."""

    function: str
    source: str
    reason: str


@dataclass
class Capture:
    """Where one captured graph comes from."""

    function: str = ""
    source: str = ""
    graph_break: GraphBreak | None = None
    recompilation: Recompilation | None = None
    taken: bool = field(default=False, compare=False)  # its break and recompilation are reported


def capture_of(module: fx.GraphModule) -> Capture:
    """Called in the backend, while Dynamo compiles `module`."""
    function, source = _place(module)
    reason = getattr(module, "compile_subgraph_reason", None)
    broken = break_of(reason) if reason is not None and reason.graph_break else None
    cause = torch._dynamo.utils.get_metrics_context()._metrics.get("recompile_reason")
    again = None
    if cause:
        again = Recompilation(function, source, re.sub(r"^\d+/\d+: ", "", str(cause)))
    return Capture(function, source, broken, again)


def break_of(reason) -> GraphBreak:
    """Of Dynamo's record of a break."""
    frame = reason.user_stack[-1] if reason.user_stack else None
    source = f"{os.path.basename(frame.filename)}:{frame.lineno}" if frame else ""
    text, hints = _sentences(reason.reason)
    if frame and frame.name == "_detect_is_causal_mask":  # of nn.TransformerEncoder and Decoder
        hints = ("Pass is_causal=True or is_causal=False beside the mask: without it PyTorch looks "
                 "at the mask's values.",)
    return GraphBreak(text, hints, source, (frame.line or "").strip() if frame else "")


_BRANCH = ("the code branches on the value of a tensor, which is not known while it is captured",
           ("Compute both sides and choose with torch.where, or use torch.cond.",))


def _sentences(reason: str) -> tuple[str, tuple[str, ...]]:
    """The explanation and the hints in Dynamo's text."""
    if reason.startswith("generic_jump"):
        return _BRANCH
    reason = reason.split("\n  Developer debug context")[0].split("\n\n For more")[0]
    what, *hints = re.split(r"\n\s*Hint: ", reason)
    title, *explained = re.split(r"\n\s*Explanation: ", what)
    text = " ".join(f"{title.strip()}: {' '.join(explained)}".split()) if explained else (
        " ".join(title.split()))
    useful = [" ".join(hint.split()) for hint in hints]
    return text, tuple(h for h in useful if h and "report an issue to PyTorch" not in h)


def _place(module: fx.GraphModule) -> tuple[str, str]:
    """The function that was traced and its first line in the graph."""
    for node in module.graph.nodes:
        frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)',
                            node.meta.get("stack_trace") or "")
        if frames:
            path, line, function = frames[0]
            return function, f"{os.path.basename(path)}:{line}"
    return "", ""


class Breaks:
    """The graph breaks from its making on, those of frames without any graph included."""

    def __init__(self):
        self._from = len(self.all())

    @staticmethod
    def all() -> list:
        """Dynamo's records of all breaks so far."""
        from torch._dynamo import output_graph

        return getattr(output_graph, "graph_break_reasons", [])

    def found(self) -> list[GraphBreak]:
        """Each place once, in the order in which they came up."""
        return list(dict.fromkeys(break_of(reason) for reason in self.all()[self._from:]))
