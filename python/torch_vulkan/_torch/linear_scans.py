"""Linear recurrences, y[t] = factor[t] · y[t - 1] + x[t], as one operator. Models write them with
PyTorch's associative_scan, which Dynamo takes apart into steps whose number and sizes depend on the
length: a graph for each length. Here the length stays a symbol, and the graph is small.
"""

import contextlib
import types
from dataclasses import dataclass
from unittest import mock

import torch
from torch._higher_order_ops.associative_scan import associative_scan, generic_associative_scan
from torch.autograd import forward_ad

from . import compat


@torch.library.custom_op("torch_vulkan::linear_recurrence", mutates_args=())
def linear_recurrence(self: torch.Tensor, factor: torch.Tensor, dim: int) -> torch.Tensor:
    """y[t] = factor[t] · y[t - 1] + self[t] along `dim`, the first being self[0].

    Args:
        self: of any shape, floats.
        factor: of the same shape and dtype; its first elements count for nothing.
    """
    return computed(self, factor, dim).clone(memory_format=torch.contiguous_format)


OPERATOR = torch.ops.torch_vulkan.linear_recurrence.default


def computed(self: torch.Tensor, factor: torch.Tensor, dim: int) -> torch.Tensor:
    """The same by operators that have derivatives."""
    both = [t.movedim(dim, 0) for t in (factor, self)]
    _, y = generic_associative_scan(_joined, both)
    return y.movedim(0, dim)


@linear_recurrence.register_fake
def _(self, factor, dim):
    return self.new_empty(self.shape)


def _joined(factor, x, later_factor, later_x):
    return factor * later_factor, later_factor * x + later_x


def _traced(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """In place of associative_scan, for a linear recurrence of (factor, x)."""
    factor, x = xs
    if reverse:
        factor, x = factor.flip(dim), x.flip(dim)
    y = torch.ops.torch_vulkan.linear_recurrence(x, factor, dim)
    products = factor.cumprod(dim)  # goes where nobody reads it
    if reverse:
        products, y = products.flip(dim), y.flip(dim)
    return products, y


@dataclass(frozen=True)
class _Term:
    """A sum or product of two values, in either order."""

    kind: str
    of: frozenset

    def __add__(self, other):
        return _Term("+", frozenset((self, other)))

    def __mul__(self, other):
        return _Term("·", frozenset((self, other)))


def _is_linear(function) -> bool:
    """Whether a function joins (factor, x) to a later pair as a linear recurrence does. It is
    called with symbols if it is arithmetic on its arguments alone."""
    code = getattr(function, "__code__", None)
    if not isinstance(function, types.FunctionType) or code.co_names or code.co_freevars:
        return False
    factor, x, later_factor, later_x = (_Term(name, frozenset()) for name in "abcd")
    try:
        result = function((factor, x), (later_factor, later_x))
    except Exception:  # it wants tensors, another structure, or compares
        return False
    return isinstance(result, (tuple, list)) and list(result) == [
        factor * later_factor, later_factor * x + later_x]


def _takes(arguments) -> bool:
    """Of Dynamo's variables for the arguments of associative_scan."""
    combine, xs, dim = (arguments.get(name) for name in ("combine_fn", "xs", "dim"))
    if dim is None or xs is None or xs.python_type() is not tuple or len(xs.items) != 2:
        return False
    factor, x = (item.as_proxy().node.meta["example_value"] for item in xs.items)
    if torch.is_grad_enabled() and (factor.requires_grad or x.requires_grad):
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0:
        return False  # the operator has no rules for transforms
    mode = arguments["combine_mode"].as_python_constant() if "combine_mode" in arguments else (
        "pointwise")
    if mode != "generic" and not (
            mode == "pointwise" and (x.is_cuda or compat.scans_are_pointwise_on_cpus())):
        return False  # PyTorch refuses it
    alike = factor.dtype == x.dtype and x.is_floating_point() and factor.device == x.device
    # What this finds of sizes that are symbols is a guard, last.
    return (alike and _is_linear(combine.as_python_constant()) and factor.shape == x.shape
            and x.shape[dim.as_python_constant()] > 0)


@contextlib.contextmanager
def traced():
    """While it lasts, Dynamo traces linear recurrences as the operator above."""
    from torch._dynamo.variables import functions, lazy

    call = functions.UserFunctionVariable.call_function
    names = ("combine_fn", "xs", "dim", "reverse", "combine_mode")

    def call_function(self, tx, args, kwargs):
        if self.fn is associative_scan:
            args, kwargs = lazy.LazyVariableTracker.realize_all((args, kwargs))
            with contextlib.suppress(Exception):  # what it does not know PyTorch traces
                if _takes({**dict(zip(names, args, strict=False)), **kwargs}):
                    self = functions.UserFunctionVariable(_traced)
        return call(self, tx, args, kwargs)

    with mock.patch.object(functions.UserFunctionVariable, "call_function", call_function):
        yield
