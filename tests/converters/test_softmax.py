"""softmax and log_softmax along any dimension, and their gradients."""

import pytest
import torch

from parity import FLOATS, check, check_gradients, tensor


@pytest.mark.parametrize("shape, dim", [((5, 7), 0), ((5, 7), 1), ((3, 5, 7), 1), ((2, 3, 5, 257),
    -1),
                                        ((3, 1031), 1), ((300, 41), -1), ((89,), 0), ((), 0)])
def test_shapes(shape, dim):
    check(lambda x: (x.softmax(dim), x.log_softmax(dim)), tensor(*shape))


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_16_bit_floats(dtype):
    check(lambda x: (x.softmax(1), x.log_softmax(0)), tensor(37, 113, dtype=dtype), double=True)


def test_types_change():
    check(lambda x: x.softmax(-1, dtype=torch.float32), tensor(5, 37, dtype=torch.float16))


def test_extremes():
    x = tensor(7, 29) * 50
    x[0, 3], x[1, 4], x[2] = float("nan"), float("inf"), float("-inf")
    x[3, 5] = float("-inf")
    check(lambda x: (x.softmax(1), x.log_softmax(1)), x)


def test_empty():
    check(lambda x: x.softmax(1) + 1, tensor(0, 5))


def test_masked_scores():
    def function(scores, mask):
        return (scores * 0.125).masked_fill(mask, float("-inf")).softmax(-1) * 2
    check(function, tensor(2, 3, 29, 37), tensor(1, 1, 1, 37, dtype=torch.bool))


def test_views():
    check(lambda x: (x.transpose(0, 1).softmax(-1), x[:, 1:].softmax(0)), tensor(7, 11))


def test_gradients():
    check_gradients(lambda x: (x.softmax(-1), x.log_softmax(0)), tensor(11, 37), length=37)


def test_dynamic_shapes():
    check(lambda x: x.softmax(-1), tensor(5, 7), more=[(tensor(3, 300),), (tensor(113, 2),)],
          dynamic=True)
