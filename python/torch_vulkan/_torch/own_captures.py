"""Captures of a module that are ours alone: they use up no limit of the user's, and go afterwards.
"""

import contextlib
import inspect
from collections.abc import Callable

import torch
from torch import nn

LIMIT = 256  # graphs of one function


@contextlib.contextmanager
def captured(model: nn.Module, backend: Callable):
    """Within it: the module as torch.compile has it with this backend. It raises ValueError where
    a function would be captured too often, rather than leave the backend out."""
    from torch._dynamo.exc import FailOnRecompileLimitHit

    fn = model  # as PyTorch calls it, and names of parameters begin

    def called(*args, **kwargs):
        return fn(*args, **kwargs)

    isolated = "isolate_recompiles" in inspect.signature(torch.compile).parameters  # from 2.13 on
    compiled = torch.compile(called, backend=backend,
                             **({"isolate_recompiles": True} if isolated else {}))
    limits = {"recompile_limit": LIMIT, "accumulated_recompile_limit": 1 << 20,
              "fail_on_recompile_limit_hit": True, "suppress_errors": False}

    def run(*args, **kwargs):
        try:
            with torch._dynamo.config.patch(limits):
                return compiled(*args, **kwargs)
        except FailOnRecompileLimitHit as error:
            raise ValueError(f"the module was captured {LIMIT} times, for other arguments each "
                             "time: pass numbers that change as tensors") from error

    try:
        yield run
    finally:
        _forget(backend)


def _forget(backend: Callable) -> None:
    """Drops what was captured for a backend, of functions of which nobody else has captures."""
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list, reset_code
    from torch._dynamo import convert_frame

    for reference in [*convert_frame.input_codes.seen]:
        code = reference()
        entries = [] if code is None else _debug_get_cache_entry_list(code)
        backends = [getattr(entry.backend, "compiler_fn", entry.backend) for entry in entries]
        if backends and all(own is backend for own in backends):
            reset_code(code)
