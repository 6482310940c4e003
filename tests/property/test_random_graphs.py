"""Random graphs give eager's results. A failure shrinks to the smallest graph and prints it."""

import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_arguments import Chooser
from random_graphs import check_program, draw_program, operators

BASE = dict(deadline=None, database=None, suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink), print_blob=False)


def run(seconds: float, examples: int, derandomize: bool) -> int:
    """Checks random graphs; the number of those that held a call. What fails goes on shrinking."""
    end, checked = time.monotonic() + seconds, 0

    @settings(max_examples=examples, derandomize=derandomize, **BASE)
    @given(st.data())
    def property_holds(data):
        nonlocal end, checked
        if time.monotonic() > end:
            return
        program = draw_program(Chooser(data.draw))
        if not program.calls:
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


def test_random_graphs():
    assert run(seconds=40, examples=40, derandomize=True) > 5


@pytest.mark.slow
def test_many_random_graphs():
    assert run(seconds=600, examples=2000, derandomize=False) > 50
