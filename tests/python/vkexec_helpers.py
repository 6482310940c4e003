"""vkexec, as the tests call it."""

import os
import subprocess
from pathlib import Path

import torch_vulkan as tv

from workloads.patience import patience

VKEXEC = Path(tv.__file__).parent / "bin" / "vkexec"
ONCE = ("--iterations=1", "--duration=0", "--warmUp=0")


def run(*arguments, code=0, **variables):
    """Standard output of vkexec; of a failure standard error too."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_PRELOAD")}
    done = subprocess.run([VKEXEC, *map(str, arguments)], capture_output=True, text=True,
                          timeout=patience(120), env={**environment, **variables})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr if code else done.stdout
