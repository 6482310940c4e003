"""Reduced sizes of the networks of docs/models.md: coverage, engines, parity, gradients.

`benchmarks/models.py --check` runs the full sizes.
"""


import pytest
import torch

from marks import slow_but, turns
from seeds import TURN, share_of
from workloads.checks import check_gradients, check_inference
from workloads.networks import NETWORKS


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


QUICK_GRADIENTS = ("Llama",)


def small(name):
    """True for the networks of workloads/small_networks.py."""
    return list(NETWORKS).index(name) >= list(NETWORKS).index("Llama")


ROWS = [(name, dtype) for name in NETWORKS for dtype in ("float32", "float16")]
# Each network is in each run, the larger ones in one type and in the next run in the other.
DRAWN = [(name, dtype) for place, name in enumerate(NETWORKS) for dtype in (
    ("float32",) if small(name) else share_of(("float32", "float16"), 2, TURN + place))]


@pytest.mark.parametrize("name,dtype", slow_but(DRAWN, ROWS, rows=True))
def test_inference(name, dtype):
    batch = 2 if dtype == "float32" else 1
    row = check_inference(NETWORKS[name], batch, True, "cpu", dtype)
    assert row["ok"], row


@turns(4)
@pytest.mark.parametrize("name", slow_but(
    [name for name in NETWORKS if not small(name) or name in QUICK_GRADIENTS], NETWORKS))
def test_gradients(name):
    row = check_gradients(NETWORKS[name], 1, True, "cpu")
    assert row["ok"] and row["switches"] == 0, row  # these inputs lie beside none
