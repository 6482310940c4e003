"""Casts between floats and torch's float8 dtypes have eager's bits."""

import pytest
import torch

import torch_vulkan as tv

OPTIONS = {"min_block_size": 1, "require_full_compilation": True,
           "pass_through_build_failures": True}
FORMATS = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz]
CODES = torch.arange(256, dtype=torch.uint8)
WIDE = [torch.float32, torch.bfloat16, torch.float16]


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="vulkan", fullgraph=True,
                         options={**OPTIONS, **options})


def floats(format):
    """Every number of the format, what is halfway between neighbours, their own neighbours, what is
    beyond the range, and special values."""
    numbers = CODES.view(format).float()
    numbers = numbers[numbers.isfinite()].sort().values
    halfway = (numbers[1:] + numbers[:-1]) / 2
    near = [torch.nextafter(x, torch.tensor(side)) for x in (numbers, halfway)
            for side in (float("inf"), float("-inf"))]
    most = numbers.max()
    beyond = torch.tensor([1.03, 1.0357, 1.04, 1.07, 1.0715, 1.1, 2.0, 1e9]) * most
    special = torch.tensor([float("inf"), float("nan"), 1e-30, 1e-42, 3e38])
    torch.manual_seed(0)
    exponents = torch.randint(-40, 40, (2000,)).float().exp2() * torch.randn(2000)
    return torch.cat([numbers, halfway, *near, beyond, -beyond, special, -special, exponents])


def same(a, b):
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


@pytest.mark.parametrize("format", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_to_codes(format, dtype):
    x = floats(format).to(dtype)
    got = compiled(lambda x: x.to(format))(x)
    assert got.dtype == format
    want = x.to(format)
    wrong = got.view(torch.uint8) != want.view(torch.uint8)
    nans = got.float().isnan() & want.float().isnan()  # whose sign is nobody's
    assert not (wrong & ~nans).any(), (x[wrong & ~nans][:5], got[wrong & ~nans][:5].float())


@pytest.mark.parametrize("format", [*FORMATS, torch.float8_e8m0fnu], ids=str)
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_from_codes(format, dtype):
    x = CODES.view(format)
    got = compiled(lambda x: x.to(dtype))(x)
    torch.testing.assert_close(got, x.to(dtype), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_round_trip_through_moves_and_bytes(format):
    """What moves elements keeps them; bytes and codes are views of one another."""
    x = torch.randn(12, 20) * 3

    def function(x):
        y = x.to(format).t().reshape(4, 60).unsqueeze(0)
        return y, y.view(torch.uint8), torch.cat([y, y[:, 1:3]], 1).float() * 2

    got, want = compiled(function)(x), function(x)
    assert got[0].dtype == format and got[1].dtype == torch.uint8
    assert same(got[0], want[0]) and torch.equal(got[1], want[1])
    assert torch.equal(got[2], want[2])


@torch.no_grad()
def test_a_float8_result_is_no_view_of_bytes():
    def function(x):
        return x.to(torch.float8_e4m3fn)

    result = compiled(function)(torch.randn(5, 7))
    assert result._base is None and result.dtype == torch.float8_e4m3fn
    assert result.float().isfinite().all()


def reasons(function, *args):
    report = tv.dry_run(function, list(args), min_block_size=1)
    return [row["reason"] for row in report.data["operators"] if row["reason"]]


@pytest.mark.parametrize("function, message", [
    (lambda x: x.double().to(torch.float8_e4m3fn), "a cast from torch.float64"),
    (lambda x: x.to(torch.float8_e8m0fnu), "to torch.float8_e8m0fnu"),
    (lambda x: torch.zeros_like(x.to(torch.float8_e5m2)), "tensors of float8_e5m2"),
])
def test_what_stays_native(function, message):
    x = torch.randn(4, 6)
    want = function(x)
    found = reasons(function, x)
    assert any(message in reason for reason in found), found
    torch._dynamo.reset()
    got = torch.compile(function, backend="vulkan", options={"min_block_size": 1})(x)
    assert same(got, want)
