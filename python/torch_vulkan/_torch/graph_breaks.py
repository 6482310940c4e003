"""require_full_compilation: a graph break is an error. Dynamo is told to raise at the first one,
which it does where no graph reaches the backend, too; the backend looks again at what it is given.
"""

import contextlib
import functools
import os
import sys

import torch
from torch import fx

from . import fused_optimizers, linear_scans
from .captures import Breaks, GraphBreak, break_of

_TITLE = "require_full_compilation: a graph break leaves part of the model to Python"


def watch() -> None:
    """From now on Dynamo raises at graph breaks of functions compiled with the setting, and traces
    fused steps of optimizers and linear recurrences for this backend, also after
    torch._dynamo.reset()."""
    handler = torch._dynamo.callback_handler
    if _callback() not in handler.start_callbacks:
        handler.register_start_callback(_callback())
    if "clear" not in vars(handler):
        handler.clear = _cleared(handler, handler.clear)


def _cleared(handler, clear):
    def clear_others():
        clear()
        handler.register_start_callback(_callback())

    return clear_others


@functools.cache
def _callback():
    """`_begin`, which Dynamo does not trace itself: it would where a compiled function calls
    backward(), whose graph is compiled then, and wait for the lock that it holds."""
    return torch._dynamo.disable(_begin)


def message(cause: str) -> str:
    """What is said of a break."""
    return f"{_TITLE}\n  {cause}\ntv.dry_run(model, inputs) lists all of them"


def _begin(_) -> None:
    """Called when a compilation starts; not while another runs, where the backend alone looks."""
    stack = _local("stack", contextlib.ExitStack)  # Dynamo unwinds it when this compilation ends
    options = _own_options()
    if stack is None or options is None:
        return
    stack.enter_context(fused_optimizers.traced())
    stack.enter_context(linear_scans.traced())
    if options.get("require_full_compilation") is True and not options.get("dryrun"):
        stack.enter_context(torch._dynamo.error_on_graph_break(True))
        stack.push(_name_the_setting)


def _name_the_setting(kind, error, traceback) -> None:
    if kind is torch._dynamo.exc.Unsupported:
        error.args = (message(str(error)), *error.args[1:])
        error.__class__ = _unsupported()


@functools.cache
def _unsupported() -> type:
    """Dynamo's error of a graph break, and a ValueError as what else this setting refuses."""
    return type("Unsupported", (torch._dynamo.exc.Unsupported, ValueError), {})


def _own_options() -> dict | None:
    """The options of what Dynamo compiles now; None where that is not for this backend."""
    # Of fullgraph=True, too, where nothing is around it.
    convert = _local("self", torch._dynamo.convert_frame.ConvertFrameAssert)
    if convert is None:
        return None
    backend = torch._dynamo.eval_frame.innermost_backend(convert)
    function = getattr(backend, "compiler_fn", None)
    if not getattr(function, "__module__", "").startswith("torch_vulkan."):
        return None
    return getattr(backend, "kwargs", {}).get("options") or {}


def _local(name: str, kind: type):
    """A local variable of the function of Dynamo's that compiles now; None if there is none."""
    frame, converting = sys._getframe(), _file("convert_frame.py")
    while frame:
        if frame.f_code.co_filename == converting and isinstance(frame.f_locals.get(name), kind):
            return frame.f_locals[name]
        frame = frame.f_back
    return None


def cause_of_several_graphs(module: fx.GraphModule) -> str:
    """Why a captured graph is not all of the function that the user compiled, and where; "" where
    it is. Called in the backend, while Dynamo compiles `module`."""
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break:
        return _sentence(break_of(reason))
    if (frame := _frame_outside()) is None:
        return ""
    breaks = [r for r in Breaks.all() if any(f.filename == frame.f_code.co_filename
                                             for f in r.user_stack)]
    if breaks:
        return _sentence(break_of(breaks[-1]))
    path = os.path.basename(frame.f_code.co_filename)
    return (f"{path}:{frame.f_lineno}: Dynamo captures parts of {frame.f_code.co_name} only; "
            "torch.compile(…, fullgraph=True) says why")


def _sentence(broken: GraphBreak) -> str:
    code = f" ({broken.code})" if broken.code else ""
    return f"{broken.source or 'somewhere'}: {broken.reason}{code}"


def _file(name: str) -> str:
    return os.path.join(os.path.dirname(torch._dynamo.__file__), name)


def _frame_outside():
    """The user's function that runs between torch.compile's wrapper and what is compiled now: a
    graph break has left its code to Python. None if there is none."""
    dynamo, frame = os.path.dirname(torch._dynamo.__file__), sys._getframe()
    converting, wrapper = _file("convert_frame.py"), _file("eval_frame.py")
    while frame and frame.f_code.co_filename != converting:
        frame = frame.f_back
    while frame and frame.f_code.co_filename.startswith(dynamo) and (
            frame.f_code.co_filename != wrapper):
        frame = frame.f_back
    while frame and frame.f_code.co_filename != wrapper:
        if not torch._dynamo.trace_rules.check(frame.f_code):
            return frame
        frame = frame.f_back
    return None
