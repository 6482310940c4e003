"""LSTM, GRU and RNN, which PyTorch takes apart into their steps while a graph is traced: here they
stay one operator, so that the graph does not grow with the sequence and its length may be dynamic.
"""

import functools
from unittest import mock

import torch
from torch._C import DispatchKey
from torch._decomp import decompositions

aten = torch.ops.aten

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Units whose state fits every device's shared memory; what is larger is unrolled where it can be.
_MOST_UNITS = 1344


def _shapes(input, state, num_layers, bidirectional, batch_first):
    """Of the results."""
    steps, batch = input.shape[:2] if not batch_first else (input.shape[1], input.shape[0])
    directions = 2 if bidirectional else 1
    width = state.shape[-1] * directions
    y = (batch, steps, width) if batch_first else (steps, batch, width)
    return y, (num_layers * directions, batch, state.shape[-1])


@torch.library.custom_op("torch_vulkan::lstm", mutates_args=())
def lstm(input: torch.Tensor, hx: list[torch.Tensor], params: list[torch.Tensor],
         has_biases: bool, num_layers: int, bidirectional: bool, batch_first: bool,
         ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """aten::lstm.input without dropout and projections."""
    results = aten.lstm.input(input, hx, params, has_biases, num_layers, 0.0, False,
                              bidirectional, batch_first)
    return tuple(t.clone(memory_format=torch.contiguous_format) for t in results)


@lstm.register_fake
def _(input, hx, params, has_biases, num_layers, bidirectional, batch_first):
    y, state = _shapes(input, hx[0], num_layers, bidirectional, batch_first)
    return input.new_empty(y), input.new_empty(state), input.new_empty(state)


def _one_state(name: str):
    """The same of a network without cells: its operator."""
    def network(input: torch.Tensor, hx: torch.Tensor, params: list[torch.Tensor],
                has_biases: bool, num_layers: int, bidirectional: bool, batch_first: bool,
                ) -> tuple[torch.Tensor, torch.Tensor]:
        results = getattr(aten, name).input(input, hx, params, has_biases, num_layers, 0.0, False,
                                            bidirectional, batch_first)
        return tuple(t.clone(memory_format=torch.contiguous_format) for t in results)

    operator = torch.library.custom_op(f"torch_vulkan::{name}", network, mutates_args=())

    def fake(input, hx, params, has_biases, num_layers, bidirectional, batch_first):
        y, state = _shapes(input, hx, num_layers, bidirectional, batch_first)
        return input.new_empty(y), input.new_empty(state)

    operator.register_fake(fake)
    return operator


_NETWORKS = {aten.lstm.input: lstm,
             **{getattr(aten, name).input: _one_state(name)
                for name in ("gru", "rnn_tanh", "rnn_relu")}}
# As PyTorch takes them apart.
_UNROLLED = {op: op.py_kernels.get(DispatchKey.CompositeImplicitAutograd) for op in _NETWORKS}


def _stays(input, states, params, has_biases, num_layers, dropout, train, bidirectional) -> bool:
    tensors = [input, *states, *params]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return False
    if torch.is_autocast_enabled(input.device.type):
        return False  # of products, each of which it lowers
    each = (4 if has_biases else 2) * (2 if bidirectional else 1)
    units = states[0].shape[-1]
    whole = input.dim() == 3 and len(params) == each * num_layers and not (dropout and train)
    if not whole or not all(t.dtype == input.dtype in _DTYPES for t in tensors):
        return False
    if any(isinstance(n, int) and n == 0 for n in input.shape):
        return False
    return isinstance(units, int) and (
        units <= _MOST_UNITS or not all(isinstance(n, int) for n in input.shape))


def _traced(op, input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first):
    """In place of `op` while a graph is traced."""
    states = hx if isinstance(hx, (tuple, list)) else [hx]
    if not _stays(input, states, params, has_biases, num_layers, dropout, train, bidirectional):
        unrolled = _UNROLLED[op] or functools.partial(
            op._op_dk, DispatchKey.CompositeImplicitAutograd)
        # Not oneDNN's layer: the gradient of that is not traced (torch 2.13).
        with mock.patch.object(decompositions, "select_one_layer_lstm_function",
                               lambda *_: decompositions.one_layer_lstm):
            return unrolled(input, hx, params, has_biases, num_layers, dropout, train,
                            bidirectional, batch_first)
    return _NETWORKS[op](input, hx, params, has_biases, num_layers, bidirectional, batch_first)


TRACED = {op: functools.partial(_traced, op) for op in _NETWORKS}


def plain(node: torch.fx.Node):
    """(operator, arguments) of PyTorch's own that a node's operator stands for; None for others."""
    for op, own in _NETWORKS.items():
        if node.target is own._opoverload:
            *first, bidirectional, batch_first = node.args
            return op, (*first, 0.0, False, bidirectional, batch_first)
    return None
