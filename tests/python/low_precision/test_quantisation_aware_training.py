"""Quantisation-aware training: observers and fake quantisation in engines, with eager's numbers."""

import copy
import warnings

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from marks import turns

OPTIONS = {"min_block_size": 1, "optimization_level": 0}
STRICT = {**OPTIONS, "require_full_compilation": True, "pass_through_build_failures": True}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), (
            nn.Linear(8, 4))

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))


def batch(seed=0):
    return torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def prepared():
    pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_qat=True))
    module = torch.export.export(Net().train(), (batch(),), strict=True).module()
    return pt2e.prepare_qat_pt2e(module, quantizer)


def train(model, function, steps=4):
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for step in range(steps):
        optimizer.zero_grad()
        loss = function(batch(step)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_prepared_model_trains_as_in_eager_mode():
    """Its first step gives observers their sizes, and runs natively; later ones are in engines."""
    torch._dynamo.reset()
    model = prepared()
    reference = copy.deepcopy(model)
    want = train(reference, reference)
    with pytest.warns(UserWarning, match="observer gets its size from the first batch"):
        compilations.clear()
        got = train(model, torch.compile(model, backend="vulkan", options=OPTIONS))
    torch.testing.assert_close(torch.tensor(got), torch.tensor(want), rtol=1e-3, atol=1e-5)
    for (name, a), b in zip(model.state_dict().items(), reference.state_dict().values(),
                            strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=2e-3, msg=lambda m, name=name: name + m)
    kinds = [c.kind for c in compilations.compilations() if c.covered_nodes]
    assert "forward" in kinds and "backward" in kinds, kinds


def test_the_dry_run_says_why():
    model = prepared()
    before = copy.deepcopy(model.state_dict())
    report = str(tv.dry_run(model, [batch()], min_block_size=1))
    assert "observer gets its size from the first batch" in " ".join(report.split())
    for (name, kept), now in zip(before.items(), model.state_dict().values(), strict=True):
        assert torch.equal(kept, now), name


def test_ahead_of_time_observers_must_have_sizes():
    with pytest.raises(tv.UnsupportedError, match="observer gets its size from the first batch"):
        tv.compile(prepared(), inputs=[batch()], **OPTIONS)


def test_once_observers_have_sizes_all_is_in_engines():
    torch._dynamo.reset()
    model = prepared()
    train(model, model, steps=1)
    report = tv.dry_run(model, [batch()], **OPTIONS)
    text = str(report)
    assert "100.0%" in text and "_fused_moving_avg" not in text, text


def observed(x, observes, rounds, low, high, scale, zero, first, last, axis, rows, symmetric):
    y = torch.fused_moving_avg_obs_fake_quant(
        x, observes, rounds, low, high, scale, zero, 0.1, first, last, axis, rows, symmetric)
    return y, low, high, scale, zero


@turns(3, each=("rows", "symmetric"))
@pytest.mark.parametrize("grid", [(0, 255), (-128, 127), (-127, 127)])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("rows", [True, False])
def test_observers(rows, symmetric, grid):
    """With flags on and off, ranges on both sides of 0 and on one, and next to nothing."""
    torch._dynamo.reset()
    compiled = torch.compile(observed, backend="vulkan", fullgraph=True, options=STRICT)
    torch.manual_seed(0)
    shape = (4,) if rows else ()
    x = torch.randn(4, 3, 5)
    for given in (x, x.abs() + 1, -x.abs() - 1, x * 1e-4, x * 0):
        for seen in (torch.inf, 2.0):
            for flags in ((1, 1), (1, 0), (0, 1)):
                if seen == torch.inf and not flags[0]:
                    continue  # a scale of an infinite range
                made = [*(torch.tensor([f]) for f in flags), torch.full(shape, seen),
                        torch.full(shape, -seen if seen == torch.inf else 3.0),
                        torch.full(shape or (1,), 0.5),
                        torch.full(shape or (1,), 1, dtype=torch.int32)]
                want_state, got_state = copy.deepcopy(made), copy.deepcopy(made)
                want_x, got_x = (given.clone().requires_grad_() for _ in range(2))
                want = observed(want_x, *want_state, *grid, 0, rows, symmetric)
                got = compiled(got_x, *got_state, *grid, 0, rows, symmetric)
                for a, b in zip(got_state, want_state, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-6, atol=0)
                torch.testing.assert_close(got[0], want[0], rtol=1e-5, atol=1e-6)
                for result, leaf in ((want, want_x), (got, got_x)):
                    result[0].backward(torch.ones_like(leaf))
                assert torch.equal(got_x.grad, want_x.grad)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_fake_quantisation_by_channel(axis, dtype):
    torch._dynamo.reset()

    def function(x, scale, zero):
        return torch.fake_quantize_per_channel_affine(x, scale, zero, axis, -8, 7)

    torch.manual_seed(0)
    x = (torch.randn(3, 4, 5) * 2).to(dtype)
    x[0, 0, 0] = float("inf")
    scale = torch.rand(x.shape[axis]) / 2 + 0.1
    zero = torch.arange(x.shape[axis], dtype=torch.int32) - 1
    want_x, got_x = (x.clone().requires_grad_() for _ in range(2))
    compiled = torch.compile(function, backend="vulkan", fullgraph=True, options=STRICT)
    want, got = function(want_x, scale, zero), compiled(got_x, scale, zero)
    finite = x.isfinite()
    assert torch.equal(got[finite], want[finite])
    for result in (want, got):
        result.backward(torch.ones_like(x))
    assert torch.equal(got_x.grad, want_x.grad)


def test_zero_points_that_are_floats_stay_native():
    def function(x):
        return torch.fake_quantize_per_channel_affine(x, torch.ones(4), torch.zeros(4), 0, -8, 7)

    report = tv.dry_run(function, [torch.randn(4, 3)], **OPTIONS)
    assert "zero points that are floats" in str(report)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.randn(4, 3)
        fast = torch.compile(function, backend="vulkan", options={"min_block_size": 1})
        assert torch.equal(fast(x), function(x))
