"""Settings: what stays native and why, float16 engines for a float32 model."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.Softmax(-1)).eval()
x = torch.randn(8, 64)

with torch.no_grad():
    # Builds nothing: prints what would be in engines, and the reason for what would not.
    torch.compile(model, backend="vulkan",
                  options={"dryrun": True, "torch_executed_ops": {"aten::_softmax"}})(x)
    torch._dynamo.reset()

    # float16 storage with float32 sums; inputs and outputs stay float32.
    half = torch.compile(model, backend="vulkan", options={
        "min_block_size": 1,
        "enabled_precisions": {torch.float32, torch.float16},
    })
    error = (half(x) - model(x)).abs().max().item()
print(f"largest error in float16: {error:.1e}")

try:
    torch.compile(model, backend="vulkan", options={"min_blok_size": 1})(x)
except Exception as error:
    print("a typing mistake:", str(error).splitlines()[0])
