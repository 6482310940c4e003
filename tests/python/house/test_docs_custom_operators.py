"""docs/custom_operators.md: its first Python block runs as it stands."""

import re
from pathlib import Path

import torch

from torch_vulkan import compilations

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_custom_operators():
    block = re.search(r"```python\n(.*?)```", (DOCS / "custom_operators.md").read_text(), re.S)
    names = {}
    exec(block[1], names)
    (record,) = compilations.compilations()
    assert len(record.engines) == 1 and record.coverage == 1
    x = torch.randn(5)
    torch.testing.assert_close(names["swish"](x, 2.0), x * torch.sigmoid(2 * x))
