"""Pointwise operators, rows and transpositions: GB/s beside torch's on the same device.

    python benchmarks/pointwise.py [--json FILE] [--tactics N] [--only TEXT]

Bytes are those that must be read and written. Errors are against float64. Vulkan's times are those
of dependent dispatches (benchmarks/native/node_tactics, built here), torch's those of a CUDA graph,
or of the host where there is no CUDA.
"""

import torch
import torch.nn.functional as F
from operators import DTYPES, device, error, run


def problems():
    for dtype in ("float32", "float16"):
        for count in (98304, 1 << 20, 1 << 24, 1 << 25):
            yield f"relu:{count},{dtype}"
            yield f"add:{count},{dtype}"
        for shape in ("128,3072", "32768,1024"):
            yield f"bias:{shape},{dtype}"
            yield f"transpose:{shape},{dtype}"
        for shape in ("1536,128", "32768,1024", "1024,32768"):
            yield f"softmax:{shape},{dtype}"
        for shape in ("128,768", "3152,768", "32768,768"):
            yield f"layer_norm:{shape},{dtype}"
        for shape in ("32768,1024", "16,1048576"):
            yield f"sum:{shape},{dtype}"


def _call(op, x, y, row):
    if op == "relu":
        return torch.relu(x)
    if op == "add":
        return x + y
    if op == "bias":
        return x + row
    if op == "transpose":
        return x.t().contiguous()
    if op == "softmax":
        return x.softmax(-1)
    if op == "sum":
        return x.sum(-1)
    return F.layer_norm(x, x.shape[-1:], row, row)


def beside(problem):
    """torch's call for a problem, and its error."""
    op, fields = problem.split(":")
    *sizes, dtype = fields.split(",")
    shape = [int(size) for size in sizes]
    x, y = (torch.randn(shape, device=device()).to(DTYPES[dtype]) for _ in range(2))
    row = torch.randn(shape[-1:], device=device()).to(DTYPES[dtype])
    exact = _call(op, x.double(), y.double(), row.double())
    return lambda: _call(op, x, y, row), error(_call(op, x, y, row), exact)


if __name__ == "__main__":
    run(__doc__, problems(), beside, "gb_s")
