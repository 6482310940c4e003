"""What counts as equal to eager: torch.testing's defaults, widened by what the entry's own tests
allow. Results outside of that, 16-bit ones and sums of many terms above all, are compared with
float64: their error is at most twice eager's, and in float32 small whatever eager's is: a
thousandth of the largest, or the entry's absolute tolerance. Where eager's is not finite, those of
the reference count."""

import math

import torch
from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride

_SUITES = {None, "TestCommon", "TestUnaryUfuncs", "TestBinaryUfuncs", "TestReductions",
           "TestDecomp", "TestInductorOpInfo"}


# Entries that say where values stand: among equal ones eager promises none.
_TIES = {"topk", "kthvalue", "median", "nanmedian", "mode", "sort", "msort", "argsort"}
# torch decomposes these; eager's own 8-bit form rounds the weights to fixed point.
_FIXED_POINT = {"nn_functional_interpolate_bilinear", "nn_functional_interpolate_bicubic",
                "nn_functional_upsample_bilinear", "_upsample_bilinear2d_aa"}

# torch.polygamma(1, x) divides by sin(pi x)^2, where float32's pi x misses the pole at each whole
# number below 0: eager's result there is what rounding left, 1.3e15 at -1 and 5.6e12 at -7
# (float64: 6.6e32, 1.3e31). The limit is infinity. Other orders' are NaN or infinite in eager, too.
_POLES = {"special_polygamma_special_polygamma_n_0",
          *(f"polygamma_polygamma_n_{n}" for n in range(5))}

_SMALLEST = 2.0**-126  # below it results may be 0
_LARGEST = 1e-3  # error of a float32 result, relative to the largest, however wrong eager is


def tolerances(op, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol) for results of `dtype` of an entry."""
    rtol, atol = tolerances_of_type(dtype)
    if dtype == torch.uint8 and op.formatted_name in _FIXED_POINT:
        atol = 1.0
    for info in op.decorators:
        if getattr(info, "cls_name", None) not in _SUITES or (
                getattr(info, "device_type", None) not in (None, "cpu")):
            continue
        for override in getattr(info, "decorators", [info]):
            if isinstance(override, toleranceOverride) and dtype in override.d:
                atol = max(atol, override.d[dtype].atol)
                rtol = max(rtol, override.d[dtype].rtol)
            elif isinstance(override, precisionOverride) and dtype in override.d:
                atol = max(atol, override.d[dtype])
    return rtol, atol


def difference(op, actual, expected, case, values=True, gradient=False) -> str:
    """Why results differ from eager's, or "". `case.in_double()`: those of float64, or None;
    `values`: whether values count, or shapes and dtypes alone; `gradient`: whether the results are
    gradients of the tensors given."""
    given = case.tensors[0] if case.tensors else None
    if len(actual) != len(expected):
        return f"{len(actual)} results for {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if (a.dtype, a.shape) != (e.dtype, e.shape):
            return f"result {i}: {a.dtype} {tuple(a.shape)} for {e.dtype} {tuple(e.shape)}"
        if not values:
            continue
        if op.formatted_name in _POLES:
            e = _at_poles(given, a, e)
        if op.formatted_name in _TIES and i == len(expected) - 1 and (
                _same_places(given, actual, expected)):
            continue
        rtol, atol = tolerances(op, e.dtype)
        if op.formatted_name in _TIES and gradient and (
                _same_of_equal_values(given, a, e, rtol, atol)):
            continue
        try:
            torch.testing.assert_close(a, e, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            reference = case.in_double()
            if reference is None or not _as_good(a, e, reference[i], rtol, atol):
                return f"result {i}: " + " ".join(str(error).split())
    return ""


def _at_poles(given, actual, expected):
    """What eager gives, infinity at the whole numbers below 0 where the result is that."""
    if given.dtype == torch.bool:  # none is below 0
        return expected
    pole = (given < 0) & (given == given.trunc()) & (actual == math.inf) & expected.isfinite()
    return torch.where(pole, actual, expected)


def _named(given, dim, indices):
    if indices.dim() == given.dim():
        return given.gather(dim, indices)
    return given.gather(dim, indices.unsqueeze(dim)).squeeze(dim)


def _same_places(given, actual, expected) -> bool:
    """Whether indices, the last results, name equal values along some dimension: the first results
    where there are two, those of a sorted order where there are indices alone."""
    for dim in range(max(given.dim(), 1)):
        try:
            named = [_named(given, dim, results[-1]) for results in (actual, expected)]
        except (RuntimeError, IndexError):
            continue
        if len(expected) == 1:  # an order: each index once
            indices = [results[0].sort(dim).values for results in (actual, expected)]
            if _equal(*named) and _equal(*indices):
                return True
        elif named[1].shape == expected[0].shape and _equal(named[1], expected[0]):
            return _equal(*named)
    return False


def _same_of_equal_values(given, actual, expected, rtol, atol) -> bool:
    """Whether gradients are the same but for their order among equal values given along some
    dimension: which of them a result was taken from is not promised."""
    if given is None or given.shape != expected.shape or not given.dim():
        return False
    for dim in range(given.dim()):
        in_order = []
        for gradient in (actual, expected):
            by_gradient = gradient.argsort(dim=dim)
            by_value = given.gather(dim, by_gradient).argsort(dim=dim, stable=True)
            in_order.append(gradient.gather(dim, by_gradient).gather(dim, by_value))
        if torch.allclose(*in_order, rtol=rtol, atol=atol, equal_nan=True):
            return True
    return False


def _equal(a, b) -> bool:
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _as_good(actual, expected, reference, rtol, atol) -> bool:
    """Whether results are close to eager's, or at most twice as far from the reference as eager's
    are anywhere, or one unit in the last place."""
    if actual.is_complex() and reference.is_complex():
        actual, expected, reference = (torch.view_as_real(t.resolve_conj())
                                       for t in (actual, expected, reference))
    if not actual.is_floating_point() or (
            reference.dtype != torch.float64 or reference.shape != actual.shape):
        return False
    rounded = reference.to(actual.dtype)
    same = torch.isclose(actual, expected, rtol, atol) | (actual == rounded)
    same |= actual.isnan() & (expected.isnan() | rounded.isnan())
    a, e, r = (t.double() for t in (actual, expected, reference))
    same |= ~e.isfinite() & torch.isclose(a, r, rtol, atol)  # eager passed the type's range
    errors = (e - r).abs()
    errors = errors[errors.isfinite()]  # eager may pass the type's range on the way
    bound = 2 * errors.max() if errors.numel() else torch.zeros((), dtype=torch.float64)
    if actual.dtype == torch.float32:  # eager may cancel what the engine need not
        finite = r[r.isfinite()]
        largest = _LARGEST * finite.abs().max() if finite.numel() else bound
        bound = bound.clamp(max=max(float(largest), atol))
    unit = torch.finfo(actual.dtype).eps * r.abs().clamp(min=torch.finfo(actual.dtype).tiny)
    unit = unit.clamp(min=_SMALLEST)
    near = (a - r).abs() <= torch.maximum(unit, bound)
    return bool((same | (near & a.isfinite())).all())


def tolerances_of_type(dtype: torch.dtype) -> tuple[float, float]:
    """torch.testing's (rtol, atol)."""
    return torch.testing._comparison.default_tolerances(dtype)
