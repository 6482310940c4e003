"""docs/operators.md lists what the registry has (its counts are of the runs that it names)."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "operators_page.py"


def test_the_page_lists_the_registry():
    """`scripts/operators_page.py --registry` writes it. A process of its own: other tests register
    operators."""
    page = (SCRIPT.parents[1] / "docs" / "operators.md").read_text()
    written = subprocess.run([sys.executable, SCRIPT, "--registry", "--print"], text=True,
                             capture_output=True, check=True).stdout
    assert page == written, "run scripts/operators_page.py --registry"
