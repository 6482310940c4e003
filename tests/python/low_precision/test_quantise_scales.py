"""Scales of quantised weights: those that are refused, and unusual ones that are not."""

import copy

import pytest
import torch
from test_quantise import OPTIONS, network
from torch import nn

import torch_vulkan as tv


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_scales(bad):
    """Named where their values are at hand: when compiled, and when loaded."""
    made = tv.quantize(network(64, 32, 16))
    state = copy.deepcopy(made.state_dict())
    made[2].weight_scale[3] = bad
    x = torch.randn(2, 64)
    message = rf"2\.weight_scale': 1 of 16 are not finite.*{bad} at \[3, 0\]"
    with pytest.raises(ValueError, match=message):
        tv.compile(made, inputs=[x])
    with pytest.raises(Exception, match=message):
        torch.compile(made, backend="vulkan")(x)
    state["2.weight_scale"][3] = bad
    with pytest.raises(ValueError, match=message):
        tv.quantize(network(64, 32, 16)).load_state_dict(state)


def test_a_bad_scale_of_a_library():
    import torch.ao.quantization.fx._decomposed  # noqa: F401

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("q", torch.ones(8, 8, dtype=torch.int8))
            self.register_buffer("w", torch.ones(8, 8))
            self.register_buffer("s", torch.tensor([1.0] * 7 + [-1.0]))

        def forward(self, x):
            q = self.q
            if quantised:
                q = torch.ops.quantized_decomposed.quantize_per_channel(
                    self.w, self.s, torch.zeros(8, dtype=torch.int32), 0, -128, 127, torch.int8)
            return x @ torch.ops.quantized_decomposed.dequantize_per_channel(
                q, self.s, None, 0, -128, 127, torch.int8)

    quantised, x, model = True, torch.randn(2, 8), Scaled()
    with pytest.raises(ValueError, match=r"scale 's': 1 of 8 .*positive.*-1.0 at \[7\]"):
        tv.compile(model, inputs=[x])
    quantised = False
    with torch.no_grad():  # what was quantised by it elsewhere is what it says
        torch.testing.assert_close(tv.compile(model, inputs=[x], **OPTIONS)(x), model(x))
    model.s[7] = float("nan")
    with pytest.raises(ValueError, match=r"scale 's': 1 of 8 are not finite.*nan at \[7\]"):
        tv.compile(model, inputs=[x])


@pytest.mark.parametrize("weights", ["int8", "int4"])
@torch.no_grad()
def test_scales_below_zero_and_zero(weights):
    """ONNX Runtime's and GPTQ's quantisers write them; they are numbers like others."""
    made = tv.quantize(network(64, 32, 16), weights, group_size=32)
    for layer in (made[0], made[2]):
        layer.weight_scale[::2] *= -1
        layer.weight_scale[1] = 0
    x = torch.randn(3, 64)
    program = tv.compile(made, inputs=[x], **OPTIONS)
    torch.testing.assert_close(program(x), made(x))
    state = {name: t.clone() for name, t in made.state_dict().items()}
    state["0.weight_scale"] *= -1
    tv.refit(program, state)
    made.load_state_dict(state)
    torch.testing.assert_close(program(x), made(x))
