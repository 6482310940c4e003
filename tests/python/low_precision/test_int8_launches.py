"""What layers in int8 launch, with the tactics of the device and with a GPU's."""

import torch
import torch.nn.functional as F
from torch import nn

import torch_vulkan as tv

HEADS, WIDTH = 4, 64
INT8 = {"enabled_precisions": {torch.float32, torch.int8}, "optimization_level": 0}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return F.gelu(self.up(x))


def test_an_attention(tactics_of):
    """Query, key and value are one product, and what it and others make is not put into another
    order for the products behind it."""
    torch.manual_seed(0)
    model = Attention().eval()
    x = torch.randn(2, 16, WIDTH)
    calibration = tv.calibrate(model, [x], "minmax", progress=False)
    program = tv.compile(model, [x], calibration=calibration, **INT8)
    layers = [layer for engine in tv.engines(program) for layer in engine.info()["layers"]]
    integers = [layer for layer in layers if layer["tactic"].startswith("matmul_integer")]
    products = {layer["name"].split("/")[0] for layer in integers}
    assert len(products) == 3, products
    assert not any("integer_pack" in layer["name"] for layer in layers), integers
    want, got = model(x), program(x)
    assert (got - want).square().mean() < 1e-3 * want.square().mean()
