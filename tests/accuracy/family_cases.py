"""What operators with kernels of their own promise, by family: read by scripts/accuracy_page.py,
which writes docs/accuracy.md, and held by test_families.py.

A bound is given the arguments in float64 and the exact result, and says how far a float32 result
may be. U is half a unit in the last place of 1.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

aten = torch.ops.aten
U = 2.0**-24


@dataclass
class Check:
    """A function of `make(n)`'s tensors; `bound(exact, *args)`."""

    function: Callable
    make: Callable
    bound: Callable | None = None
    lengths: tuple[int, ...] = (7, 1031)


@dataclass
class Family:
    """Operators by a pattern of their names (the first family that fits), what they promise, and
    how that is held."""

    title: str
    pattern: str
    promise: str
    checks: list[Check] = field(default_factory=list)
    half: Callable | None = None  # more for 16-bit types: of eps and the arguments in float64


def rand(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)))


def sums(count: int) -> float:
    """What sums of `count` terms in a fixed order promise, relative to the sum of their sizes."""
    return (4 + 2 * math.sqrt(count)) * U


def _product(a, b):
    return sums(a.shape[-1]) * (a.abs() @ b.abs())


def _convolved(x, w):
    return sums(w[0].numel()) * F.conv2d(x.abs(), w.abs(), padding=1)


def _whole(dim=-1):
    def bound(exact, x):
        return sums(x.shape[dim]) * x.abs().sum(dim)
    return bound


def _spread(exact, x, count=None):
    """For means of `count` elements, of a row where it is None, that are not large beside the
    spread."""
    return (16 + sums(count or x.shape[-1]) / U) * U * exact.abs().clamp(min=1)


def _log_sum(exact, x):
    return (8 + sums(x.shape[-1]) / U) * U * exact.abs().clamp(min=1)


def _softmax(exact, x):
    far = (x - x.amax(-1, keepdim=True)).abs()
    return (8 + sums(x.shape[-1]) / U + far) * U * exact + 2.0**-126


def _attention(exact, q, k, v):
    scores = q.abs() @ k.abs().mT / math.sqrt(q.shape[-1])
    spread = sums(q.shape[-1]) * scores.amax(-1, keepdim=True) + 16 * U + sums(k.shape[-2])
    return 2 * spread * (torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v.abs())


def _rounded_weights(eps, q, k, v):
    """Matrix units take the probabilities in the 16-bit type."""
    return eps * (torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v.abs())


def _of_largest(count: float):
    """count units of the largest argument."""
    def bound(exact, x, *rest):
        return count * U * x.abs().max()
    return bound


def _matrices(n):
    return rand(19, n), rand(n, 23, seed=1)


def _images(n):
    return rand(2, 5, 13, 11), rand(7, 5, 3, 3, seed=1)


def _rows(n):
    return (rand(5, n),)


def _lines(n):
    return (rand(3, 5, n),)


EXACT = "exact: the same bits as PyTorch's"
SUM = "(4 + 2 √n) · 2⁻²⁴ · the sum of the terms' sizes, for n terms"
REDUCED = "; matrix units with reduced mantissas only where the settings ask for them"
INDEX = torch.arange(40) * 7 % 11

def _network(n):
    """Two steps of an LSTM of n units, with weights as PyTorch draws them: x, h, c and these."""
    weights = [(rand(*shape, seed=i) / 2).clamp(-1, 1) / math.sqrt(n)
               for i, shape in enumerate([(4 * n, 6), (4 * n, n), (4 * n,), (4 * n,)])]
    return rand(2, 3, 6), rand(1, 3, n, seed=5).tanh(), rand(1, 3, n, seed=6), *weights


def _lstm(x, h, c, *weights):
    return torch.lstm(x, (h, c), weights, True, 1, 0.0, False, False, False)


def _recurrent(exact, x, h, c, w, r, *biases):
    terms = x.abs() @ w.abs().T + r.abs().sum(1) + sum(b.abs() for b in biases)
    return x.shape[0] * sums(r.shape[1] + x.shape[2]) * terms.max()


def _recurrence(x, factor):
    return torch.ops.torch_vulkan.linear_recurrence(x, factor, -1)


FAMILIES = [
    Family("Attention", r"attention",
           "2 · (the scores' error + 16 · 2⁻²⁴ + that of the sums) · the weighted mean of |v|; of "
           "16-bit types a unit of the type more, as matrix units take the probabilities in it",
           [Check(F.scaled_dot_product_attention,
                  lambda n: tuple(rand(1, 2, n, 32, seed=s) for s in range(3)), _attention,
                  (7, 131))], _rounded_weights),
    Family("Recurrent networks", r"lstm|gru|rnn_|recurrent",
           "steps · (4 + 2 √n) · 2⁻²⁴ of the largest Σ|terms| of a gate, of n terms, where weights "
           "are of the size that PyTorch draws; larger ones let it grow from step to step",
           [Check(_lstm, _network, _recurrent, (7, 40))]),
    Family("Resizing and sampling",
           r"upsample(?!_nearest)|grid_sampler",
           "16 · n · 2⁻²⁴ of the largest pixel, for images n pixels wide: positions are float32",
           [Check(lambda x: (F.interpolate(x, size=(23, 5), mode="bilinear"),
                             F.interpolate(x, size=(23, 5), mode="bicubic"),
                             F.interpolate(x, size=(5, 7), mode="bilinear", antialias=True)),
                  lambda n: (rand(2, 3, 17, 13),), _of_largest(16 * 17), (1,)),
            Check(lambda x, g: F.grid_sample(x, g, align_corners=False),
                  lambda n: (rand(2, 3, 17, 13), rand(2, 7, 5, 2, seed=1) / 2),
                  _of_largest(16 * 17), (1,))]),
    Family("Softmax", r"softmax",
           "(12 + 2 √n + |x - largest x|) · 2⁻²⁴ of the result; its logarithm (12 + 2 √n) · 2⁻²⁴ "
           "of the larger of 1 and the result",
           [Check(lambda x: x.softmax(-1), _lines, _softmax),
            Check(lambda x: x.log_softmax(-1), _lines, _log_sum)]),
    Family("Copies, views and joins",
           r"cat$|concat|stack|copy|roll|flip|repeat|pad(\dd|_nd)?$|slice|select|gather"
           r"|scatter\.(src|value)$"
           r"|aten::index\.|_unsafe_index\.|index_select|aten::embedding$|tril$|triu$|tv::(copy|fill)"
           r"|diagonal_scatter|as_strided|arange|eye|iota|masked_scatter|aten::put|aten::index_put$"
           r"|_unsafe_index_put|unfold_copy|unbind",
           EXACT + "; `index_put` and `put` that accumulate are sums",
           [Check(lambda x: (torch.cat([x, x.flip(0)], 1), x.roll(3, 1), x.tril(), x[:, INDEX % 5],
                             F.pad(x, (1, 2), value=0.5), x.gather(1, x.long().abs() % 7)),
                  _rows)]),
    Family("Order and places",
           r"sort|topk|kthvalue|median|mode$|arg(max|min)|aten::(max|min)(\.dim)?$|amax|amin|aminmax"
           r"|cummax|cummin|searchsorted|bucketize|all(\.|$)|any(\.|$)|count_nonzero|histc|max_pool"
           r"|nearest",
           EXACT + "; places of equal values as stable orders have them where PyTorch says so, "
           "else any; the gradients of pools and of nearest resizing are sums",
           [Check(lambda x: (torch.sort(x, stable=True), x.topk(5), x.cummax(-1)[0], x.amax(-1),
                             x.argmin(-1), x.median(-1)[0], F.max_pool1d(x[None], 3)[0]), _rows)]),
    Family("Fake quantisation", r"fake_quantize",
           EXACT + "; the step that is nearest is float32's x · (1 / scale), rounded",
           [Check(lambda x: (torch.fake_quantize_per_tensor_affine(x * 10, 0.3, 3, -128, 127),
                             torch.fake_quantize_per_tensor_affine(
                                 x * 10, x[0, 0].abs().reshape(1),
                                 torch.tensor([7], dtype=torch.int32), 0, 15)), _rows)]),
    Family("Products of integers", r"_int_mm", EXACT,
           [Check(lambda x: torch._int_mm((x * 40).to(torch.int8), (x.t() * 40).to(torch.int8)),
                  _rows)]),
    Family("Linear recurrences", r"linear_recurrence",
           "2 n · 2⁻²⁴ · the same recurrence of absolute values, in its step n",
           [Check(_recurrence, lambda n: (rand(5, n), rand(5, n, seed=1).sigmoid()),
                  lambda exact, x, a: 2 * U * _recurrence(x.abs(), a.abs())
                  * torch.arange(1, 1 + x.shape[-1]))]),
    Family("Matrix products",
           r"mm|matmul|linear|addmv|aten::mv|aten::v?dot",
           SUM + REDUCED,
           [Check(torch.matmul, _matrices, lambda exact, a, b: _product(a, b)),
            Check(torch.matmul, lambda n: (rand(1, n), rand(n, 129, seed=1)),
                  lambda exact, a, b: _product(a, b))]),
    Family("Convolutions", r"conv",
           SUM + REDUCED,
           [Check(lambda x, w: F.conv2d(x, w, padding=1), _images,
                  lambda exact, x, w: _convolved(x, w), (1,)),
            Check(lambda x, w: F.conv1d(x, w), lambda n: (rand(2, 61, 37), rand(5, 61, 3, seed=1)),
                  lambda exact, x, w: sums(183) * F.conv1d(x.abs(), w.abs()), (1,))]),
    Family("Sums and means",
           r"aten::(sum|mean|cumsum)|scatter_add|avg_pool|embedding_bag|embedding_dense_backward"
           r"|tv::reduce|scatter_reduce|index_reduce|scatter\.(reduce|value_reduce)|_backward"
           r"|grid_sampler.*backward",
           SUM + "; products of n factors n · 2⁻²⁴ of the result",
           [Check(lambda x: x.sum(-1), _lines, _whole()),
            Check(lambda x: x.sum(0), lambda n: (rand(n, 37),), _whole(0)),
            Check(lambda x: x.mean(-1), _lines, lambda exact, x: _whole()(exact, x) / x.shape[-1]),
            Check(lambda x: x.cumsum(-1), _lines,
                  lambda exact, x: sums(x.shape[-1]) * x.abs().cumsum(-1)),
            Check(lambda x: F.avg_pool1d(x, 5), _lines,
                  lambda exact, x: sums(5) * F.avg_pool1d(x.abs(), 5), (11, 1031)),
            Check(lambda x: torch.zeros(11, 5, dtype=x.dtype).index_add(0, INDEX, x),
                  lambda n: (rand(40, 5),), lambda exact, x: sums(4) * torch.zeros(
                      11, 5, dtype=x.dtype).index_add(0, INDEX, x.abs()), (1,))]),
    Family("Products", r"prod",
           "(2 + n) · 2⁻²⁴ of the result, for n factors",
           [Check(lambda x: x.prod(-1), lambda n: (rand(5, 19) / 4 + rand(5, 19).sign(),),
                  lambda exact, x: 21 * U * exact.abs(), (1,)),
            Check(lambda x: x.cumprod(-1), lambda n: (rand(5, 37).clamp(-1, 1),),
                  lambda exact, x: 39 * U * exact.abs() + 2.0**-126, (1,))]),
    Family("Variances and normalisations",
           r"var|std|norm(?!al)",
           "(20 + 2 √n) · 2⁻²⁴ of the larger of 1 and the result, for n elements whose mean is no "
           "larger than their spread",
           [Check(lambda x: x.var(-1), _lines, _spread),
            Check(lambda x: F.layer_norm(x, x.shape[-1:]), _lines, _spread),
            Check(lambda x: F.rms_norm(x, x.shape[-1:]), _lines, _spread),
            Check(lambda x: F.group_norm(x, 1), _lines,
                  lambda exact, x: _spread(exact, x, x[0].numel())),
            Check(lambda x: x.norm(dim=-1), _lines, _spread)]),
    Family("Logarithms of sums", r"logcumsumexp|logsumexp",
           "(12 + 2 √n) · 2⁻²⁴ of the larger of 1 and the result",
           [Check(lambda x: x.logsumexp(-1), _lines, _log_sum),
            Check(lambda x: x.logcumsumexp(-1), _lines, _log_sum)]),
    Family("Distances", r"pdist|cdist|aten::dist",
           "(20 + 2 √n) · 2⁻²⁴ of the larger of 1 and the result",
           [Check(lambda x: F.pdist(x), _rows, _spread),
            Check(lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),
                  lambda n: (rand(5, n), rand(9, n, seed=1)), lambda exact, x, y: _spread(exact, x))
            ]),
]


def family_of(op: str) -> Family | None:
    """The family of an operator that is not pointwise; None: only what op_db's run holds."""
    return next((f for f in FAMILIES if re.search(f.pattern, op)), None)
