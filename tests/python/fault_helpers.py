"""The libraries of tests/faults, which make calls fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FAULTS = Path(__file__).parents[1] / "faults"
LAYER = """{"file_format_version": "1.2.0", "layer": {
"name": "VK_LAYER_TV_faults", "type": "GLOBAL", "library_path": "%s", "api_version": "1.3.0",
"implementation_version": "1", "description": "faults"}}"""


def shared_library(name: str, folder: Path) -> Path:
    """One of tests/faults, compiled."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler")
    library = folder / f"{name}.so"
    subprocess.run([compiler, "-std=c++20", "-O1", "-shared", "-fPIC", FAULTS / f"{name}.cpp",
                    "-o", library, "-ldl"], check=True)
    return library
