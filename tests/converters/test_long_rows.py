"""Rows longer than the loops of a CPU driver, which ends all loops of an invocation after 65,535
iterations: static lengths, and lengths that are known only when the engine is called."""

import json
import warnings

import pytest
import torch.nn.functional as F

import torch_vulkan as tv

from parity import check, tensor

# What may be short is walked by a subgroup, whose limit grows with its size; what is long by more.
LANES = json.loads(tv.devices()[0].profile())["subgroup_size"]
LENGTHS = (4400 * LANES + 1, 12500 * LANES + 3)
STATIC_LENGTH = 400003
ROW_FUNCTIONS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x[None], 3),
    "argmax": lambda x: (x.argmax(-1), x.argmin(), x.max(-1)),
    "argmax_int64": lambda x: (x * 100).long().argmax(-1),
    "sum": lambda x: (x.sum(-1), x.sum(0), x.sum()),
    "mean_var": lambda x: (x.mean(-1), x.var(-1)),
    "product": lambda x: x.sign().prod(-1),
    "extremes": lambda x: (x.amax(-1), x.amin((0, 1)), (x > 4.5).any(-1)),
    "integers": lambda x: (x * 100).long().sum(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "cumsum_int64": lambda x: (x * 100).long().cumsum(-1),
}
TOO_LONG = {name: ROW_FUNCTIONS[name] for name in ("softmax", "layer_norm", "argmax")}
TOO_LONG["product_of_matrices"] = lambda x: x @ x.t()


def rows(length):
    return tensor(3, length)


def run_with(function, *more):
    """Messages of engines that ran natively where `function` got rows of each length."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(function, rows(300), more=[(rows(n),) for n in more], dynamic=True,
              length=more[-1])
    return [str(w.message) for w in caught if "runs natively" in str(w.message)]


@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_dynamic_lengths(name):
    assert not run_with(ROW_FUNCTIONS[name], *LENGTHS)


@pytest.mark.parametrize("name", TOO_LONG)
def test_what_is_too_long_for_a_cpu_driver_runs_natively(name):
    """A result is right or there is an error; here it is right, and a warning says why it is slow."""
    messages = run_with(TOO_LONG[name], 1000003)
    if tv.devices()[0].type == "cpu":
        assert len(messages) == 1 and "loop iterations at this shape" in messages[0]
    else:
        assert not messages


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "argmax", "sum", "cumsum"])
def test_static_lengths(name):
    check(ROW_FUNCTIONS[name], rows(STATIC_LENGTH), length=STATIC_LENGTH)
