"""AMD's compiler takes every kernel, without the hardware: Mesa's RADV builds pipelines for a GPU
that is not there."""

import os
import subprocess
from pathlib import Path

import pytest

from marks import slow_but, turns

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "build/tests/cpp/shader_stats"
DRIVER = next(iter(Path("/usr/share/vulkan/icd.d").glob("radeon_icd*.json")), None)

pytestmark = [
    pytest.mark.skipif(DRIVER is None, reason="RADV is not installed (mesa-vulkan-drivers)"),
    pytest.mark.skipif(not TOOL.exists(), reason="build/tests/cpp/shader_stats is not built"),
]


@pytest.fixture(scope="module")
def kernel_cache(tmp_path_factory):
    """The families share what is the same for all: GLSL to SPIR-V."""
    return tmp_path_factory.mktemp("kernels")


def compile_kernels(family, seconds, cache):
    environment = os.environ | {"RADV_FORCE_FAMILY": family, "VK_ICD_FILENAMES": str(DRIVER),
                                "MESA_SHADER_CACHE_DISABLE": "1"}
    return subprocess.run([TOOL, "--spills", "--seconds", str(seconds), "--cache", cache],
                          env=environment, text=True, capture_output=True)


@turns(2)
@pytest.mark.parametrize("family", slow_but(("vega10", "navi21"), ["vega10", "navi10", "navi21"]))
def test_default_tactics_compile_without_a_spill(family, kernel_cache):
    done = compile_kernels(family, 4, kernel_cache)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "default tactics" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("family", ["vega10", "navi10", "navi21"])
def test_other_tactics_compile(family, kernel_cache):
    done = compile_kernels(family, 90, kernel_cache)
    assert done.returncode == 0, done.stdout + done.stderr
