"""Scripted modules with arguments, results and control flow of every kind."""

import copy
import warnings
from typing import Dict, List, Optional, Tuple  # noqa: UP035  torch.jit.script reads these

import pytest
import torch
from test_modules import engines
from torch import nn

import torch_vulkan as tv


class MayBeNone(nn.Module):
    def forward(self, x, mask: Optional[torch.Tensor] = None):  # noqa: UP045
        y = torch.relu(x) + 1
        if mask is not None:
            y = y * mask + 2
        return y.exp()


class Named(nn.Module):
    def forward(self, d: Dict[str, torch.Tensor]):  # noqa: UP006
        a = torch.relu(d["a"]) * 2
        return {"r": a + d["b"], "s": a.sum()}


class Listed(nn.Module):
    def forward(self, xs: List[torch.Tensor]):  # noqa: UP006
        y = torch.cat([t.relu() * 2 for t in xs])
        return torch.stack(xs).sum(0) + y[:3], torch.cat(xs, 1) * 2


class Paired(nn.Module):
    def forward(self, p: Tuple[torch.Tensor, torch.Tensor]):  # noqa: UP006
        a, b = p
        parts = torch.split(a, 2, 1)
        return a * b + 1, parts, [part + 1 for part in parts]


class Early(nn.Module):
    def forward(self, x):
        y = x * 2
        if bool(y.sum() > 0):
            return y + 1
        for _ in range(10):
            y = torch.tanh(y) + 0.1
            if bool(y.mean() > 0):
                break
        return y * 3


class Until(nn.Module):
    def forward(self, x):
        n = 0
        while bool(x.abs().max() > 1e-1):
            x = torch.sin(x) * 0.5
            n += 1
        return x, n


class Inner(nn.Module):
    def forward(self, x, n: int):
        out = torch.zeros_like(x)
        for i in range(n):
            for j in range(2):
                if (i + j) % 2 == 0:
                    out = out + torch.relu(x) * 2
                else:
                    out = out - torch.exp(-x.abs())
        return out


class Indexed(nn.Module):
    def forward(self, x, i):
        m = x > 0
        return (x[i] + 1, x[:, None, ::2] * 2, x[m].sum(), torch.where(m, x, -x),
                torch.einsum("ij,kj->ik", x, x))


class Flags(nn.Module):
    def forward(self, x, flag: bool, mode: str):
        y = x.relu() if flag else x.tanh()
        if mode == "a":
            y = y * 2
        return y.div(3, rounding_mode="floor" if flag else "trunc")


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm = nn.Embedding(10, 4), nn.LSTM(4, 5, batch_first=True)

    def forward(self, words):
        rows, (h, _) = self.lstm(self.words(words) * 2)
        return rows + 1, h


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x))).permute(0, 2, 3, 1)


class Drawn(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1 + torch.rand_like(x), x.shape[0] * 2, float(x.shape[1])


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
POSITIVE = X.abs()
PICTURE = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
CASES = {  # module, the example's arguments, engines, arguments of other calls
    "a tensor that may be None": (MayBeNone, (X, POSITIVE), 3, [(X, None), (X,)]),
    "None": (MayBeNone, (X, None), 2, [(X, POSITIVE)]),
    "dict": (Named, ({"a": X, "b": X + 1},), 1, []),
    "list": (Listed, ([X, X + 1],), 2, [([X, X + 1, X + 2],)]),
    "tuple": (Paired, ((X, X * 2),), 2, []),
    "return": (Early, (POSITIVE,), 2, [(-POSITIVE,), (-9 * POSITIVE,)]),
    "break": (Early, (-POSITIVE,), 3, [(POSITIVE,)]),
    "while": (Until, (X,), 2, [(100 * X,), (0 * X,)]),
    "loops": (Inner, (X, 3), 3, [(X, 1), (X, 0), (X, 4)]),
    "index": (Indexed, (X, torch.tensor([0, 2])), 2, [(X + 1, torch.tensor([1, 1]))]),
    "flags": (Flags, (X, True, "a"), 3, [(X, False, "b"), (X, True, "b")]),
    "lstm": (Recurrent, (torch.tensor([[1, 2, 3]]),), 3, [(torch.tensor([[4, 5], [6, 7]]),)]),
    "strides": (Image, (PICTURE.to(memory_format=torch.channels_last),), 1, [(PICTURE,)]),
    "random numbers": (Drawn, (X,), 2, []),
}


def flat(value):
    """The leaves of a nested result."""
    values = value.values() if isinstance(value, dict) else value
    return [leaf for item in values for leaf in flat(item)] if isinstance(
        value, (tuple, list, dict)) else [value]


@pytest.mark.parametrize("name", CASES)
def test_call(name):
    kind, example, count, others = CASES[name]
    torch.manual_seed(0)
    source = torch.jit.script(kind().eval())
    made = tv.compile(source, inputs=[*example], min_block_size=1, optimization_level=0)
    assert engines(made) == count
    for given in (example, *others):
        results = []
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in (made, source):
                torch.manual_seed(1)
                results.append(flat(module(*copy.deepcopy(given))))
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want)
            if isinstance(want, torch.Tensor):
                where = [d for d, size in enumerate(want.shape) if size > 1]
                assert [got.stride(d) for d in where] == [want.stride(d) for d in where]


class Minus(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 - True


class FromTrue(nn.Module):
    def forward(self, x):
        return True - torch.relu(x) * 2


class Powers(nn.Module):
    def forward(self, x):
        return (torch.relu(x) * 2) ** -1


class Largest(nn.Module):
    def forward(self, x):
        return (torch.relu(x) > 1).argmax()


@pytest.mark.parametrize("kind", [FromTrue, Powers, Largest])
def test_what_pytorch_refuses_is_refused(kind):
    source, x = torch.jit.script(kind()), torch.arange(4)
    with pytest.raises(RuntimeError):
        source(x)
    with pytest.raises(RuntimeError):
        tv.compile(source, inputs=[x], min_block_size=1)


def test_a_bool_that_torchscript_takes_is_taken():
    """Of a scripted `x - True` TorchScript makes x - 1, which eager mode refuses."""
    source, x = torch.jit.script(Minus()), torch.arange(4)
    made = tv.compile(source, inputs=[x], min_block_size=1)
    assert engines(made) == 1
    assert torch.equal(made(x), source(x))
