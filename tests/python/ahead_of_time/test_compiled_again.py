"""torch.compile of a program that tv.compile made."""

from aot_helpers import python

AGAIN = """
import torch, torch_vulkan as tv
from torch import nn
model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval().requires_grad_(False), torch.randn(2, 8)
program = tv.compile(model, [x], min_block_size=1)
again = torch.compile(program, backend="vulkan", options={"min_block_size": 1})
torch.testing.assert_close(again(x), model(x))
print("done")
"""


TRANSFORMED = """
import torch, torch_vulkan as tv
from torch import nn
model, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).eval().requires_grad_(False), torch.randn(2, 8)
program, xs = tv.compile(model, [x], min_block_size=1), torch.randn(3, 2, 8)
vmapped = torch.compile(torch.func.vmap(program), backend="vulkan")
torch.testing.assert_close(vmapped(xs), model(xs))
def slope(module):
    return torch.func.grad(lambda x: module(x).sum())
torch.testing.assert_close(torch.compile(slope(program), backend="vulkan")(x), slope(model)(x))
print("done")
"""


def test_transforms_that_are_traced():
    assert python(TRANSFORMED).startswith("done\n")


def test_nothing_is_said():
    """PyTorch warned, at each trace, of every method that engines have and traced ones had not."""
    assert python(AGAIN) == "done\n"
