"""How long a program may take that a test starts."""

import os


def patience(seconds: float) -> float:
    """That many seconds for each process of pytest-xdist, up to four: they share the machine, and
    lavapipe's compiler and kernels take as many times longer. To tell a program that hangs, not a
    slow one."""
    return seconds * min(4, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))
