"""The compiler's schemas are those of PyTorch (csrc/operators/schemas.inc); what operators' names
begin with is written down."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from workloads.patience import patience

ROOT = Path(__file__).parents[3]


def test_schemas_are_what_pytorch_says():
    for library in ("torchao", "transformers"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    kept = (ROOT / "csrc" / "operators" / "schemas.inc").read_text()
    if f"Of PyTorch {torch.__version__.rpartition('.')[0]}." not in kept:
        pytest.skip("schemas.inc is of another version of PyTorch")
    # A process of its own: here other tests have registered operators.
    ran = subprocess.run([sys.executable, ROOT / "scripts" / "operator_schemas.py", "--check"],
                         capture_output=True, text=True, timeout=patience(300))
    assert ran.returncode == 0, "run scripts/operator_schemas.py\n" + ran.stderr


def test_the_prefixes_of_operators_are_named():
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    (entry,) = re.findall(r"^- The Graph's operators .*?(?=^- )", page, re.M | re.S)
    program = ("import torch_vulkan as tv\n"
               "print(*{row['op'].partition('::')[0] for row in tv.supported_ops()})")
    # A process of its own, as above.
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         check=True, timeout=patience(120))
    assert set(re.findall(r"`(\w+)::`", entry)) == set(ran.stdout.split())
