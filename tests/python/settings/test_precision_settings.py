"""Settings that permit 16 bits, and those that make exceptions."""

import pytest
import torch
from test_settings import run
from torch import nn

from torch_vulkan._base.settings import Settings


def dtypes_inside(call, tmp_path):
    """Text of the graph that kernels are made from."""
    return "".join(p.read_text() for p in sorted(tmp_path.rglob("*lower_precision*")))


@pytest.mark.parametrize("options", [
    {"enabled_precisions": {torch.float32, torch.float16}},
    {"enabled_precisions": {torch.float32, torch.float16}, "use_explicit_typing": False},
    {"enabled_precisions": {torch.bfloat16}},
    {"enable_autocast": True},
    {"enable_autocast": True, "autocast_low_precision_type": torch.bfloat16},
])
@pytest.mark.setting("enabled_precisions", "use_explicit_typing", "enable_autocast",
                     "autocast_low_precision_type")
def test_low_precision(options, tmp_path):
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8)).requires_grad_(False)
    x = torch.randn(16, 64)
    got, _ = run(model, x, min_block_size=1, debug=str(tmp_path), **options)
    want = model(x)
    assert got.dtype == torch.float32
    error = (got - want).abs().max() / want.abs().max()
    bfloat = torch.bfloat16 in (options.get("enabled_precisions") or ()) or (
        options.get("autocast_low_precision_type") == torch.bfloat16)
    assert 1e-6 < error < (3e-2 if bfloat else 4e-3), "computed, but not exactly"
    assert ("bfloat16" if bfloat else "float16") in dtypes_inside(model, tmp_path)


@pytest.mark.parametrize("excluded", [
    {"autocast_excluded_ops": ["aten::addmm", "aten::mm", "aten::relu"]},
    {"autocast_excluded_nodes": [r".*"]},
])
@pytest.mark.setting("autocast_excluded_ops", "autocast_excluded_nodes")
def test_excluded_from_low_precision(excluded, tmp_path):
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8)).requires_grad_(False)
    x = torch.randn(16, 64)
    got, _ = run(model, x, min_block_size=1, enable_autocast=True, **excluded)
    want = model(x)
    if "autocast_excluded_nodes" in excluded:
        torch.testing.assert_close(got, want)
        return
    lowered, _ = run(model, x, min_block_size=1, enable_autocast=True)
    assert (got - want).abs().max() < (lowered - want).abs().max()


def test_low_precision_keeps_types():
    def function(x):
        half = x.half() * 2
        return half, x * 3, torch.exp(half), half.float() + x

    x = torch.randn(4, 8)
    got, _ = run(function, x, min_block_size=1, enable_autocast=True)
    want = function(x)
    assert [t.dtype for t in got] == [t.dtype for t in want]
    torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-2)


def test_pieces_of_attention_may_be_excluded():
    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) * 50, -1) @ v

    torch.manual_seed(0)  # scores times 50: roundings of float32 alone may pass 1e-5
    q, k, v = torch.randn(3, 1, 2, 16, 8).unbind()
    got, _ = run(attention, q, k, v, min_block_size=1, enable_autocast=True,
                 autocast_excluded_nodes=[".*"])
    torch.testing.assert_close(got, attention(q, k, v))
    got, _ = run(attention, q, k, v, min_block_size=1, enable_autocast=True,
                 autocast_excluded_ops=["aten::_softmax"])
    assert (got - attention(q, k, v)).abs().max() > 1e-5, "the products are in float16"


def test_bad_patterns_are_named():
    for pattern in ("a(", "(?i)a", 3):  # the second is one for Python
        with pytest.raises(ValueError, match=r"autocast_excluded_nodes.*regular expression"):
            Settings.from_options({"enable_autocast": True, "autocast_excluded_nodes": [pattern]})


def test_low_precision_keeps_masks_finite():
    def masked(x, keep):
        bias = torch.where(keep, 0.0, torch.finfo(torch.float32).min)
        return torch.softmax(x + bias, -1)

    x, keep = torch.randn(4, 8), torch.zeros(4, 8, dtype=torch.bool)
    got, _ = run(masked, x, keep, min_block_size=1, enable_autocast=True)
    assert torch.isfinite(got).all()
