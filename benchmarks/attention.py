"""Scaled dot-product attention: TFLOP/s beside torch's on the same device, errors against float64.

    python benchmarks/attention.py [--json FILE] [--tactics N] [--only TEXT]

Heads, queries, keys and head size of the networks at batch 1 and 16, and long sequences. Vulkan's
times are of dependent dispatches (benchmarks/native/node_tactics, built here), torch's those of
a CUDA graph, or of the host where there is no CUDA. A causal mask halves the products that count.
"""

import torch
import torch.nn.functional as F
from operators import DTYPES, device, error, run

SHAPES = [("12,128,128,64", ""), ("192,128,128,64", ""), ("12,128,128,64", ",causal"),
          ("12,197,197,64", ""), ("192,197,197,64", ""), ("16,1024,1024,64", ",causal"),
          ("16,4096,4096,64", ",causal"), ("16,4096,4096,64", ""), ("16,4096,4096,128", ",causal"),
          ("32,1,4096,128", "")]


def problems():
    for dtype in ("float16", "bfloat16", "float32"):
        for shape, causal in SHAPES:
            yield f"attention:{shape},{dtype}{causal}"


def beside(problem):
    """torch's call for a problem, and its error on the first 64 queries."""
    heads, queries, keys, d, dtype, *causal = problem.split(":")[1].split(",")
    h, m, n, d = int(heads), int(queries), int(keys), int(d)
    q, k, v = (torch.randn(1, h, size, d, device=device()).to(DTYPES[dtype])
               for size in (m, n, n))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), scale=0.125)
    exact = F.scaled_dot_product_attention(*(t.double() for t in (q[:, :, :64], k, v)),
                                           is_causal=bool(causal), scale=0.125)
    return (lambda: F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), scale=0.125),
            error(out[:, :, :64], exact))


if __name__ == "__main__":
    run(__doc__, problems(), beside, "tflops")
