"""Random graphs give eager's results. A failure shrinks to the smallest graph and prints it.

Each run draws others; TV_TEST_SEED, which pytest's header prints, draws the same again."""

import time

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from random_arguments import Chooser
from random_graphs import HALVES, check_program, draw_program, leaves_order_open, operators

from marks import slow_but
from seeds import SEED

BASE = dict(deadline=None, database=None, suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink), print_blob=False)


LEAST = 6  # graphs, however slow the machine is


def run(seconds: float, examples: int, dtype=torch.float32) -> int:
    """Checks random graphs; the number of those that held a call. What fails goes on shrinking."""
    end, checked = time.monotonic() + seconds, 0

    @seed(SEED)
    @settings(max_examples=examples, **BASE)
    @given(st.data())
    def property_holds(data):
        nonlocal end, checked
        # Drawn in any case: hypothesis takes one that draws less than before for flaky.
        program = draw_program(Chooser(data.draw), dtype=dtype)
        if not program.calls or checked >= LEAST and time.monotonic() > end:
            return
        checked += 1
        try:
            check_program(program)
        except AssertionError:
            end = time.monotonic() + 60  # for what is left of shrinking
            raise

    property_holds()
    return checked


def test_most_of_the_registry_can_be_drawn():
    assert len(operators()) > 200


@pytest.mark.parametrize("order, is_open", [((), False), ((True,), False), ((False,), True)])
def test_results_of_open_order_are_left_out(order, is_open):
    x, topk = torch.randn(4), torch.ops.aten.topk.default
    assert leaves_order_open(topk, [x, 3, -1, True, *order], {}) == is_open
    given = dict(zip(["sorted"], order, strict=False))
    assert leaves_order_open(topk, [x, 3], given) == is_open


def test_random_graphs():
    assert run(seconds=40, examples=30) > 5


@pytest.mark.parametrize("dtype", slow_but([torch.float16], HALVES), ids=str)
def test_random_graphs_of_16_bit_floats(dtype):
    assert run(seconds=10, examples=14, dtype=dtype) > 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_many_random_graphs(dtype):
    assert run(seconds=300, examples=1000, dtype=dtype)
