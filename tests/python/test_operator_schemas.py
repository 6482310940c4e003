"""The compiler's schemas are those of PyTorch (csrc/operators/schemas.inc)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_schemas_are_what_pytorch_says():
    for library in ("torchao", "transformers"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import operator_schemas
    finally:
        sys.path.pop(0)
    kept = operator_schemas.PATH.read_text()
    if not kept.startswith(operator_schemas.HEAD):
        pytest.skip("schemas.inc is of another version of PyTorch")
    wanted = operator_schemas.page()
    assert kept.splitlines() == wanted.splitlines(), "run scripts/operator_schemas.py"
