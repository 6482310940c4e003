"""python -m torch_vulkan.service: the same as `tv-compile serve`."""

import os
import sys

from .._service.running.sandbox import SCRIPT

if __name__ == "__main__":
    # A process anew, without torch, which `python -m` has imported by now.
    os.execv(sys.executable, [sys.executable, str(SCRIPT), "serve", *sys.argv[1:]])
