"""Integers at the edges of their types: shifts by any amount, numbers that wrap."""

import pytest
import torch

from marks import slow_but
from parity import check

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def edges(dtype):
    info = torch.iinfo(dtype)
    return torch.tensor([info.max, info.min, 0, 5, info.max // 2 + 3, 1, info.max - 1], dtype=dtype)


def amounts(dtype):
    """About every width, below 0, and the ends of the type."""
    info = torch.iinfo(dtype)
    some = {-1, -5, 200, info.min, info.max, *(w + d for w in (0, 8, 16, 32, 64) for d in (-1, 0, 1))}
    return sorted(n for n in some if info.min <= n <= info.max)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_any_amount(dtype):
    values, numbers = edges(dtype), amounts(dtype)
    a = values.repeat(len(numbers))
    n = torch.tensor(numbers, dtype=dtype).repeat_interleave(len(values))
    check(lambda a, n: (a << n, a >> n, torch.bitwise_left_shift(7, n), torch.bitwise_right_shift(-7, n),
                        a << numbers[-1], a >> numbers[-1], a >> numbers[0]), a, n)


@pytest.mark.parametrize("dtype", slow_but((torch.uint8,), (torch.int16, torch.int8, torch.uint8)))
def test_numbers_wrap_as_elements_do(dtype):
    def function(a):
        return [f(a, n) for n in (-5, 300, 2**40 + 3) for f in (
            torch.add, torch.eq, torch.lt, torch.remainder, torch.floor_divide, torch.bitwise_xor,
            torch.bitwise_left_shift, torch.bitwise_right_shift)]
    check(function, edges(dtype))


@pytest.mark.parametrize("value", (0.5, -0.5, 1e-50, 2, float("nan"), 0.0, True))
def test_numbers_are_true_in_tensors_of_truths(value):
    """As bool(value) is: 0.5 is true, though the integer of it is 0."""
    at, chosen = torch.tensor([0, 2]), torch.tensor([True, False, True])

    def function(a):
        return (torch.nn.functional.pad(a, (1, 1), value=value), a.scatter(0, at, value),
                a.index_fill(0, at, value), a.masked_fill(chosen, value),
                torch.full_like(a, value) ^ a, a.new_full((3,), value) ^ a)
    check(function, torch.tensor([True, False, False]))
