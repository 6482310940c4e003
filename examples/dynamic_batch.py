"""One engine for a range of batch sizes."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).eval()
fast = torch.compile(model, backend="vulkan", options={"min_block_size": 1})

x = torch.randn(4, 32)
torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
with torch.no_grad():
    fast(x)
    with torch._dynamo.config.patch(error_on_recompile=True):  # shows that nothing is built again
        for batch in (2, 8, 33, 64):
            x = torch.randn(batch, 32)
            torch.testing.assert_close(fast(x), model(x))
            print("batch", batch, "runs in the same engine")
