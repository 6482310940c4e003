"""Views that are results: AOTAutograd makes them anew behind the graph."""

import pytest
import torch

REAL = torch.arange(1.0, 13).view(3, 4)
COMPLEX = torch.complex(REAL, REAL + 1)

# Each with sizes that vary, in what makes the view; name → (function, argument).
VIEWS = {
    "negated": (lambda y: torch._neg_view(y).expand(y.shape), REAL),
    "negated before": (lambda y: torch._neg_view(y.view(y.shape)), REAL),
    "negated, of a value": (lambda y: torch._neg_view(y * 2)[1:y.shape[0]], REAL),
    "negated, of what is written": (lambda y: torch._neg_view(y.add_(1))[1:y.shape[0]], REAL),
    "negated, of a part": (lambda y: torch._neg_view(y.chunk(2)[0]), REAL),
    "negated, beside the part": (
        lambda y: (lambda part: (torch._neg_view(part), part))(y.split(y.shape[0] // 2)[0]), REAL),
    "of what is negated": (lambda y: y[1:y.shape[0]], torch._neg_view(REAL)),
    "conjugated": (lambda y: y.conj()[1:y.shape[0]], COMPLEX),
    "imaginary part of a conjugated one": (lambda y: y.conj().imag[1:y.shape[0]], COMPLEX),
    "imaginary part, of what is conjugated": (lambda y: y.imag[1:y.shape[0]], COMPLEX.conj()),
    "real part": (lambda y: y.real[1:y.shape[0]], COMPLEX),
    "two parts": (lambda y: torch.view_as_real(y)[1:y.shape[0]], COMPLEX),
    "complex of parts": (
        lambda y: torch.view_as_complex(y.view(y.shape[0], -1, 2))[1:y.shape[0]], REAL),
    "smaller elements": (lambda y: y.view(torch.int16)[1:y.shape[0]], REAL),
    "larger elements": (lambda y: y.view(y.shape).view(torch.int64), REAL),
    "beside an engine's result": (
        lambda y: ((y @ y.mT).relu().sum(), torch._neg_view(y)[1:y.shape[0]]), REAL),
}


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", VIEWS)
def test_view(name, dynamic, context):
    function, argument = VIEWS[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="vulkan", dynamic=dynamic,
                             options={"min_block_size": 1})
    with context():
        x, y = _like(argument), _like(argument)
        expected, actual = _list(function(x)), _list(compiled(y))
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)
        assert (one.is_neg(), one.is_conj()) == (other.is_neg(), other.is_conj())
        assert one.stride() == other.stride()
        assert _shares(one, y) == _shares(other, x)


def _like(argument):
    """The same in memory of its own, with its flags."""
    if argument.is_conj():
        return argument.conj().clone().conj()
    return torch._neg_view(torch._neg_view(argument).clone()) if argument.is_neg() else (
        argument.clone())


def _list(results):
    return results if isinstance(results, tuple) else (results,)


def _shares(view, of):
    return view.untyped_storage().data_ptr() == of.untyped_storage().data_ptr()
