"""Resizing and its gradients: modes, sizes, scale factors, corners, anti-aliasing, 16-bit floats."""

import math

import pytest
import torch
import torch.nn.functional as F

from torch_vulkan import compilations

from parity import OPTIONS, check, check_gradients, check_operator, check_tactic, on_cpu, tensor

aten = torch.ops.aten
SIZES = [([10, 14], None), (None, [2.0, 2.0]), (None, [1.5, 2.3]), ([3, 5], None), ([5, 7], None)]
IMAGES = {1: (2, 3, 11), 2: (2, 3, 5, 7), 3: (1, 2, 3, 5, 4)}
MODES = [("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 1),
         ("nearest-exact", 2), ("nearest-exact", 3), ("linear", 1), ("bilinear", 2),
         ("trilinear", 3), ("bicubic", 2)]


def forms(mode, dims):
    """Growing, shrinking, to one element, by a factor that does not fit; both kinds of corners."""
    sizes = {1: [(23,), (4,), (1,)], 2: [(11, 13), (3, 5), (1, 9)], 3: [(7, 5, 9), (2, 3, 1)]}[dims]
    given = [dict(size=size) for size in sizes]
    given += [dict(scale_factor=2), dict(scale_factor=(1.5, 2.3, 0.7)[:dims])]
    if "nearest" in mode:
        return given
    return [dict(form, align_corners=align) for form in given for align in (False, True)]


def resized(x, mode, dims):
    return [F.interpolate(x, mode=mode, **form) for form in forms(mode, dims)]


@pytest.mark.parametrize("size, scales", SIZES)
def test_kernels(size, scales):
    x = tensor(2, 3, 5, 7)
    check_operator(aten.upsample_nearest2d.vec, x, size, scales)
    check_operator(aten._upsample_nearest_exact2d.vec, x, size, scales)
    for align in (False, True):
        check_operator(aten.upsample_bilinear2d.vec, x, size, align, scales, length=4)


def test_kernels_without_vec():
    x = tensor(2, 3, 5, 7, dtype=torch.float16)
    check_operator(aten.upsample_nearest2d.default, x, [10, 9])
    check_operator(aten.upsample_nearest2d.default, x, [10, 21], 2.0, 3.0)
    check_operator(aten.upsample_bilinear2d.default, x, [10, 9], True)


@pytest.mark.parametrize("mode, dims", MODES)
def test_modes(mode, dims):
    check(lambda x: resized(x, mode, dims), tensor(*IMAGES[dims]), length=16)


@pytest.mark.parametrize("mode, dims", MODES)
def test_gradients(mode, dims):
    check_gradients(lambda x: resized(x, mode, dims), tensor(*IMAGES[dims]), length=1024)


SAME = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3, "nearest-exact": 2, "antialiased": 2}


@pytest.mark.parametrize("mode, dims", [*SAME.items(), *(("nearest", d) for d in (1, 2, 3))])
def test_scales_that_keep_a_size(mode, dims):
    """floor(1.09 * 10) is 10: some of ATen's operators then take each element as it is, others
    resize by the scale, and the gradients of some do what their operators do not."""
    def resize(x):
        return [F.interpolate(x, scale_factor=scales, mode=mode.replace("antialiased", "bilinear"),
                              **({"antialias": True} if mode == "antialiased" else {}))
                for scales in ((1.09,) * dims, (1.09, 1.7, 0.6)[:dims], (2.05, 1.09, 1.09)[:dims])]

    x = tensor(2, 3, *(10, 7, 5)[:dims])
    check(resize, x, length=16)
    check_gradients(resize, x, length=64)


@pytest.mark.parametrize("ends", [-math.inf, math.nan])
def test_what_keeps_its_size_keeps_what_is_no_number(ends):
    x = tensor(1, 2, 10, 7)
    x[0, 1, 3, 4], x[0, 0, 9, 6] = ends, math.inf
    check(lambda x: (F.interpolate(x, (20, 7), mode="bilinear", antialias=True),
                     F.interpolate(x, (10, 3), mode="bicubic", antialias=True)), x, length=16)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_anti_aliasing(mode):
    def function(x):
        return [F.interpolate(x, mode=mode, antialias=True, **form) for form in forms(mode, 2)]
    check(function, tensor(2, 3, 17, 13), length=256)
    check_gradients(function, tensor(2, 3, 17, 13), length=1024)


@pytest.mark.skipif(not hasattr(aten, "_upsample_lanczos2d_aa"),
                    reason="this version of torch has no aten::_upsample_lanczos2d_aa")
def test_lanczos():
    x = tensor(2, 3, 17, 13)
    for size in ([23, 5], [40, 13]):
        check_operator(aten._upsample_lanczos2d_aa.default, x, size, False, length=256)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_floats(dtype):
    x = tensor(2, 3, 5, 7, dtype=dtype)
    check(lambda x: [F.interpolate(x, size=(11, 4), mode=mode) for mode in
                     ("nearest", "nearest-exact", "bilinear", "bicubic")], x, double=True)


def test_nearest_of_bytes():
    check(lambda x: F.interpolate(x, scale_factor=2), tensor(2, 3, 5, 7, dtype=torch.uint8))


@on_cpu
@pytest.mark.parametrize("mode, dims", MODES)
@pytest.mark.parametrize("width, size", [(67, 71), (40, 113), (41, 83), (6, 60), (3, 200), (113, 41)])
def test_rows_in_vectors(mode, dims, width, size):
    """Rows of several vectors and less than one, that grow, shrink and are only moved."""
    align = {} if "nearest" in mode else {"align_corners": size % 2 == 1}
    shape = (2, 3, *(3, 7)[:dims - 1], width)

    def function(x):
        to = (*(5, 11)[:dims - 1], size)
        return F.interpolate(x, size=to, mode=mode, **align) * x.shape[0]

    check_tactic("upsample_simd", function, tensor(*shape), length=16)


@on_cpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_of_16_bits_in_vectors(dtype):
    check_tactic("upsample_simd", lambda x: [
        F.interpolate(x, size=(9, 83), mode=mode) for mode in ("nearest", "bilinear", "bicubic")],
        tensor(2, 3, 5, 41, dtype=dtype), double=True)


@on_cpu
def test_rows_of_any_length_in_vectors():
    """Also shorter than a vector, and a result that joins another's in its epilogue."""
    cases = [(tensor(2, 3, *image), tensor(3, 1, 1, seed=1)) for image in (
        (5, 70), (3, 4), (9, 33))]
    check_tactic("upsample_simd", lambda x, b: (
        torch.relu(F.interpolate(x, scale_factor=2, mode="bilinear") + b),
        F.interpolate(x, scale_factor=2) * b), *cases[0], dynamic=True, more=cases[1:])


@on_cpu
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_what_is_no_number_stays_in_its_place_in_vectors(mode):
    x = tensor(1, 2, 7, 41)
    x[0, 0, 3, 17], x[0, 1, 0, 0], x[0, 1, 6, 40] = math.inf, math.nan, -math.inf
    check_tactic("upsample_simd", lambda x: F.interpolate(x, scale_factor=3, mode=mode), x)


@on_cpu
def test_more_planes_than_a_grid_has_numbers_for_in_vectors():
    check_tactic("upsample_simd", lambda x: F.interpolate(x, scale_factor=2), tensor(70000, 1, 2, 3))


def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[[[1, nan, -0.0, 3], [inf, 2, -inf, 4], [0, 1, 2, 3]]]])
    check(lambda x: [F.interpolate(x, size=(5, 7), mode=m) for m in ("nearest", "bilinear")], x)


def test_layouts_and_views():
    x = tensor(2, 3, 5, 7).contiguous(memory_format=torch.channels_last)
    check(lambda x: (F.interpolate(x, scale_factor=2, mode="bilinear"),
                     F.interpolate(x[:, 1:, ::2, 1:], scale_factor=2, mode="bicubic"),
                     F.interpolate(x.expand(2, 3, 5, 7), scale_factor=2).sigmoid()), x, length=16)
    check(lambda x: F.interpolate(x * 2, scale_factor=2) + 1, tensor(0, 3, 5, 7))


def test_dynamic_shapes():
    def function(x):
        return (F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, (9, 4)),
                F.interpolate(x, scale_factor=1.5, mode="bicubic"),
                F.interpolate(x, (6, 8), mode="bilinear", antialias=True))
    check(function, tensor(2, 3, 8, 10), more=[(tensor(3, 2, 6, 14),), (tensor(2, 3, 22, 4),)],
          dynamic=True, length=64)


def test_one_operator_a_resize():
    """The kernel is reached through torch.compile, in training as in inference."""
    def function(x):
        return F.interpolate(x, scale_factor=2, mode="bilinear").sum()
    compilations.clear()
    x = tensor(2, 3, 5, 7).requires_grad_()
    torch.compile(function, backend="vulkan", options=OPTIONS)(x).backward()
    assert [c.compute_nodes for c in compilations.compilations()] == [2, 1]
