"""docs/dry_run.md: its Python blocks run as they stand."""

import re
from pathlib import Path

from torch import nn

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_dry_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "dry_run.md").read_text(), re.S)
    names = {"model": nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Softmax(-1)).eval()}
    for block in blocks:
        exec(block, names)
    assert names["report"].coverage == 0 and len(names["worst"]) == 3
    assert (tmp_path / "report.html").is_file() and (tmp_path / "report.json").is_file()
