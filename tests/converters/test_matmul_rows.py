"""Products of few rows that take in the norm before them and the gate behind them."""

import pytest
import torch
import torch.nn.functional as F

import torch_vulkan as tv
from torch_vulkan import compilations

from marks import slow_but
from parity import FLOATS, check, check_against_double, check_tactic, tensor

pytestmark = [pytest.mark.usefixtures("tactics_of"),
              pytest.mark.parametrize("tactics_of", ["gpu"], indirect=True)]

WIDTH, INNER = 96, 41
TACTICS = (*(f"matmul_rows_{rows}{kept}" for rows in (1, 2, 4)
             for kept in ("", "x2_kept4", "x2_kept8", "x4_kept8")), "matmul_rows_reference")


class Norm(torch.nn.Module):
    """As transformers writes it."""

    def __init__(self, width, offset=0.0):
        super().__init__()
        self.weight = torch.nn.Parameter(tensor(width, low=-1, high=2, seed=9))
        self.offset = offset

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        if self.offset:  # Gemma's
            return (wide * (self.offset + self.weight.float())).type_as(x)
        return self.weight * wide.to(x.dtype)


class FeedForward(torch.nn.Module):
    def __init__(self, norm=True, gate=F.silu, swapped=False, offset=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.norm = Norm(WIDTH, offset) if norm else torch.nn.Identity()
        self.gate, self.up = (torch.nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(INNER, WIDTH, bias=False)
        self.act, self.swapped = gate, swapped

    def forward(self, x):
        y = self.norm(x)
        first, second = (self.up, self.gate) if self.swapped else (self.gate, self.up)
        a, b = first(y), second(y)
        return x + self.down(b * self.act(a) if self.swapped else self.act(a) * b)


def rows(m=1, dtype=torch.float32):
    return tensor(1, m, WIDTH, dtype=dtype, seed=3)


def launches():
    (record,) = compilations.compilations()
    (engine,) = record.engines
    return engine.dispatches


PROBLEMS = [(tactic, m) for tactic in TACTICS for m in (1, 3, 5)]
PACKED = [(tactic, *kind) for tactic in TACTICS
          for kind in (("int8", None), ("int8", 32), ("int4", 32))]


@pytest.mark.parametrize(("tactic", "m"), slow_but(PROBLEMS[1::5], PROBLEMS, rows=True))
def test_every_tactic(tactic, m):
    check_tactic(tactic, FeedForward(), rows(m), length=WIDTH)


@pytest.mark.parametrize("options", [
    {"norm": False}, {"swapped": True}, {"gate": F.gelu, "offset": 1.0},
    {"gate": lambda x: F.gelu(x, approximate="tanh")}, {"gate": lambda x: x}])
def test_norms_and_gates(options):
    check(FeedForward(**options), rows(), length=WIDTH)
    assert launches() == 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_types(dtype):
    model = FeedForward().to(dtype)
    if dtype == torch.float32:
        check(model, rows(), length=WIDTH)
    else:
        exact = FeedForward().to(dtype).double()
        x = rows(dtype=dtype)
        fast = torch.compile(model, backend="vulkan", options={"min_block_size": 1})
        with torch.no_grad():
            want, eager = exact(x.double()), model(x)
            limit = 2 * (eager.double() - want).abs().max()
            torch.testing.assert_close(fast(x).double(), want, rtol=0, atol=limit.item())
    assert launches() == 2


@pytest.mark.parametrize(("tactic", "kind", "size"), slow_but(PACKED[2::5], PACKED, rows=True))
def test_packed_weights(tactic, kind, size):
    model = tv.quantize(FeedForward(), kind, group_size=size, exclude=["down"])
    check_tactic(tactic, model, rows(2), length=WIDTH)


def test_a_norm_alone():
    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = Norm(WIDTH), torch.nn.Linear(WIDTH, 37, bias=False)

        def forward(self, x):
            return self.linear(self.norm(x)) * 2 - 1

    check(Head(), rows(), length=WIDTH)
    assert launches() == 1


@pytest.mark.parametrize("case", ["read elsewhere", "many rows", "odd width", "norm of weights"])
def test_what_stays_apart_is_right(case):
    class Model(FeedForward):
        def forward(self, x):
            y = self.norm(x)
            if case == "read elsewhere":
                return self.gate(y).tanh() + y.sum()
            if case == "odd width":
                return F.linear(F.rms_norm(x[..., :37], (37,)), self.gate.weight[:, :37])
            if case == "norm of weights":
                return F.linear(y, self.norm(self.up.weight))
            return F.silu(self.gate(y)) * self.up(y)

    check(Model(), rows(13 if case == "many rows" else 1), length=WIDTH)


def test_zeros_and_large_values():
    x = torch.cat([torch.zeros(1, 1, WIDTH), rows() * 1e15], 1)
    check_against_double(Norm(WIDTH), x)
    check(FeedForward(), x[:, :1], length=WIDTH)
    model = FeedForward()
    check(lambda x: model.gate(model.norm(x)), x, length=WIDTH)
