"""Convolutions and their gradients."""

import pytest
import torch
import torch.nn.functional as F

from marks import slow_but, turns
from parity import FLOATS, OPTIONS, check, check_gradients, check_tactic, on_cpu, tensor


def weight(*shape, dtype=torch.float32):
    """Of a scale that keeps the sums near 1."""
    return tensor(*shape, dtype=dtype, seed=1) / (shape[1] * shape[-1] * shape[-2]) ** 0.5


def conv(x, w, b=None, **kwargs):
    return check(lambda x: F.conv2d(x, w, b, **kwargs), x, length=w[0].numel())


@pytest.mark.parametrize("h,w", [(1, 1), (7, 7), (14, 13), (5, 41)])
@pytest.mark.parametrize("n,ic,oc", [(1, 64, 32), (2, 70, 19), (1, 3, 9)])
def test_one_by_one(n, ic, oc, h, w):
    conv(tensor(n, ic, h, w), weight(oc, ic, 1, 1), tensor(oc, seed=2))


@pytest.mark.parametrize(
    "stride,padding,dilation",
    [(1, 0, 1), (1, 1, 1), (2, 1, 1), (1, 2, 2), (3, 2, 1), (2, 3, 2), ((2, 1), (0, 2), (1, 3))],
)
@pytest.mark.parametrize("ic", [3, 64])
def test_three_by_three(ic, stride, padding, dilation):
    conv(
        tensor(2, ic, 13, 17),
        weight(11, ic, 3, 3),
        tensor(11, seed=2),
        stride=stride,
        padding=padding,
        dilation=dilation,
    )


@pytest.mark.parametrize("disable_tf32,bits", [(True, 20), (False, 10)])
@pytest.mark.parametrize("spread", [0, 12, 40])
def test_error_against_the_sum_of_magnitudes(disable_tf32, bits, spread):
    x, w = tensor(2, 40, 9, 11), tensor(24, 40, 3, 3, seed=1)
    x = torch.ldexp(x, torch.randint(-spread, spread + 1, x.shape))
    w = torch.ldexp(w, torch.randint(-spread, spread + 1, w.shape))
    compiled = torch.compile(lambda x: F.conv2d(x, w, padding=1), backend="vulkan",
                             options={**OPTIONS, "disable_tf32": disable_tf32})
    error = (compiled(x).double() - F.conv2d(x.double(), w.double(), padding=1)).abs()
    sizes = F.conv2d(x.double().abs(), w.double().abs(), padding=1)
    assert (error <= 2.0**-bits * sizes).all()


@pytest.mark.parametrize("kernel", [(7, 7), (1, 5), (4, 2), (16, 16)])
def test_windows(kernel):
    conv(tensor(1, 3, 32, 37), weight(8, 3, *kernel), stride=2, padding=0)


@pytest.mark.parametrize("size", slow_but((8,), [8, 16]))
def test_patches(size):
    conv(tensor(2, 3, 64, 64), weight(24, 3, size, size), tensor(24, seed=2), stride=size)


@pytest.mark.parametrize(
    "groups,ic,oc,n", [(2, 8, 6, 1), (4, 16, 24, 2), (24, 24, 24, 2), (24, 24, 48, 1)]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_groups(groups, ic, oc, n, stride):
    conv(
        tensor(n, ic, 11, 13),
        weight(oc, ic // groups, 3, 3),
        tensor(oc, seed=2),
        stride=stride,
        padding=1,
        groups=groups,
    )


def test_depthwise_five_by_five():
    conv(tensor(2, 24, 11, 13), weight(24, 1, 5, 5), stride=2, padding=2, groups=24)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dtypes(dtype):
    w, b = weight(11, 64, 3, 3, dtype=dtype), tensor(11, dtype=dtype, seed=2)
    check(
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        tensor(1, 64, 9, 9, dtype=dtype),
        w,
        b,
        length=576,
        double=True,
    )


@pytest.mark.parametrize(
    "stride,padding,output_padding,dilation,groups",
    [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (2, 0, 0, 1, 4), (3, 1, 2, 2, 2), (2, 1, 0, 1, 16),
     (2, 2, 1, 1, 2), (3, 0, 2, 1, 1), (4, 1, 3, 1, 1)],
)
def test_transposed(stride, padding, output_padding, dilation, groups):
    w, b = weight(16, 24 // groups if groups < 16 else 1, 3, 3), None
    check(
        lambda x: F.conv_transpose2d(x, w, b, stride, padding, output_padding, groups, dilation),
        tensor(2 if groups == 1 else 1, 16, 5, 7),
        length=144,
    )


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize(
    "kernel,stride,padding,output_padding",
    [(4, 2, 1, 0), (2, 2, 0, 0), (1, 2, 0, 1), (3, 2, 1, 1), (5, 3, 4, 1), (6, 2, 3, 0),
     (3, 4, 0, 2)],
)
def test_phases_of_transposed(dim, kernel, stride, padding, output_padding):
    """Phases with as many taps as others, with one less, and with none, which are the bias."""
    convolve = getattr(F, f"conv_transpose{dim}d")
    w, b = tensor(8, 6, *(kernel,) * dim, seed=1) / 8, tensor(12, seed=2)
    x = tensor(2, 8, *(5, 4, 6)[:dim])
    check(lambda x: F.relu(convolve(x, w, b, stride, padding, output_padding, 2)), x,
          length=4 * kernel**dim)


@turns(2, group="windows")
@on_cpu
@pytest.mark.parametrize("kernel,stride,padding,output_padding", [
    (4, 2, 1, 0), (3, 2, 1, 1), (3, 2, 1, 0), (2, 2, 0, 0), (7, 4, 2, 1), (5, 3, 1, 0),
    ((4, 3), (2, 1), (1, 1), (0, 0)), ((3, 16), (1, 8), (1, 4), 0)])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("width", [5, 37])
def test_phases_joined_in_vectors(kernel, stride, padding, output_padding, groups, width):
    """All in one launch, with what is fused to it; the plain kernel where a tile of 8 lanes does
    not begin at a multiple of the stride."""
    k = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    across = stride[1] if isinstance(stride, tuple) else stride
    w, b = weight(4, 3, *k), tensor(3 * groups, seed=2)
    check_tactic("join_phases_simd" if across != 3 else "join_phases",
                 lambda x: torch.relu(F.conv_transpose2d(x, w, b, stride, padding, output_padding,
                                                         groups)),
                 tensor(2, 4, 7, width), length=4 * k[0] * k[1])


@on_cpu
def test_phases_joined_of_signals_and_16_bits():
    w = weight(4, 3, 1, 8)[:, :, 0]
    check_tactic("join_phases_simd",
                 lambda x: F.conv_transpose1d(x, w, stride=4, padding=2), tensor(2, 4, 41), length=32)
    check_tactic("join_phases", lambda x, w: F.conv_transpose1d(x, w, stride=4, padding=2),
                 tensor(2, 4, 41, dtype=torch.float16), w.half(), double=True)


@on_cpu
@pytest.mark.parametrize("image", [(7, 7), (14, 14), (28, 30), (5, 60), (9, 131)])
@pytest.mark.parametrize("kernel,stride,padding,dilation,groups", [
    (3, 1, 1, 1, 2), (3, 2, 1, 1, 2), (5, 1, 2, 1, 4), (3, 1, 2, 2, 2), ((3, 5), (1, 3), (0, 4), 1, 2),
    (3, 1, 1, 1, 24), (7, 4, 3, 1, 2), (2, 2, 0, 1, 2)])
def test_padded_rows_in_vectors(image, kernel, stride, padding, dilation, groups):
    """Rows of a padded copy that are shorter and longer than vectors, in phases of the stride."""
    k = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if min(image) + 2 < k[0] * dilation:
        pytest.skip("the window is larger than the image")
    w = weight(48, 24 // groups, *k)
    check_tactic("conv_depthwise_simd" if groups == 24 else "conv_simd",
                 lambda x: F.conv2d(x, w, None, stride, padding, dilation, groups),
                 tensor(2, 24, *image), length=w[0].numel())


@on_cpu
def test_padded_rows_of_volumes_in_vectors():
    w = weight(8, 4, 3, 3, 3)
    check_tactic("conv_simd", lambda x: (F.conv3d(x, w, None, 1, 1), F.conv3d(x, w, None, 2, 1),
                                         F.conv3d(x, w, None, (1, 2, 1), (0, 1, 2))),
                 tensor(2, 4, 5, 7, 37), length=108)


def test_transposed_dynamic_image():
    layer = torch.nn.ConvTranspose2d(24, 12, 3, 2, 1, 1)
    check(layer, tensor(2, 24, 7, 6), dynamic=True, length=216,
          more=[(tensor(3, 24, 5, 11),), (tensor(5, 24, 2, 9),)])


def test_one_dimension():
    w = weight(11, 16, 5)
    check(lambda x: F.conv1d(x, w, stride=2, padding=2), tensor(2, 16, 41), length=80)
    wt = weight(16, 11, 4)
    check(lambda x: F.conv_transpose1d(x, wt, stride=2), tensor(2, 16, 13), length=64)


@turns(3)
@pytest.mark.parametrize(
    "ic,oc,kernel,stride,padding,dilation,groups",
    [
        (3, 5, (3, 2, 3), 1, 1, 1, 1),
        (3, 16, (3, 7, 7), (1, 2, 2), (1, 3, 3), 1, 1),
        (70, 9, (1, 3, 3), 1, (0, 1, 1), 1, 1),
        (64, 9, (3, 1, 1), 1, (1, 0, 0), 1, 1),
        (64, 11, 1, 1, 0, 1, 1),
        (24, 11, 1, 2, 0, 1, 1),
        (16, 24, 3, 2, 1, 1, 4),
        (6, 12, (2, 3, 3), 1, (2, 1, 3), (1, 2, 3), 2),
        (8, 16, 3, (2, 1, 2), 1, 1, 8),
        (3, 8, (2, 16, 16), (2, 16, 16), 0, 1, 1),
    ],
)
def test_three_dimensions(ic, oc, kernel, stride, padding, dilation, groups):
    size = kernel if isinstance(kernel, tuple) else (kernel,) * 3
    w, b = weight(oc, ic // groups, *size), tensor(oc, seed=2)
    x = tensor(2, ic, 4, 32, 32) if size[1] == 16 else tensor(2, ic, 5, 7, 9)
    check(lambda x: F.conv3d(x, w, b, stride, padding, dilation, groups), x, length=w[0].numel())


def test_dynamic_volume():
    layer = torch.nn.Conv3d(24, 12, 3, padding=1)
    check(layer, tensor(2, 24, 3, 7, 6), dynamic=True, length=648,
          more=[(tensor(3, 24, 5, 6, 11),), (tensor(5, 24, 2, 9, 7),)])


@turns(2, group="windows")
def test_long_window_of_groups():
    w = weight(24, 6, 65)
    check(lambda x: F.conv1d(x, w, padding=32, groups=4), tensor(2, 24, 41), length=390)


def test_tail_and_residual():
    w, b = weight(32, 64, 3, 3), tensor(32, seed=2)
    check(
        lambda x, r: F.relu(F.conv2d(x, w, b, padding=1) + r),
        tensor(1, 64, 14, 14),
        tensor(1, 32, 14, 14, seed=3),
        length=576,
    )
    w1 = weight(64, 64, 1, 1)
    check(
        lambda x, r: F.silu(F.conv2d(x, w1) * r),
        tensor(2, 64, 14, 14),
        tensor(64, 1, 1, seed=3),
        length=64,
    )


@pytest.mark.parametrize("batch,size", [(1, 14), (3, 9)])
def test_results_between_convolutions(batch, size):
    """Devices with matrix units store what only convolutions read with the channels side by side."""
    expand, depthwise = weight(48, 24, 1, 1), weight(48, 1, 3, 3)
    project, last = weight(24, 48, 1, 1), weight(16, 24, 3, 3)
    bias = tensor(24, seed=2)

    def block(x):
        y = F.relu6(F.conv2d(x, expand))
        y = F.relu6(F.conv2d(y, depthwise, stride=1, padding=1, groups=48))
        return F.conv2d(y, project, bias) + x

    check(
        lambda x: F.conv2d(block(block(x)), last, stride=2, padding=1).mean((2, 3)),
        tensor(batch, 24, size, size),
        length=600,
    )


def test_input_is_a_view():
    w = weight(8, 64, 1, 1)
    check(lambda x: F.conv2d(x.permute(0, 3, 1, 2), w), tensor(2, 7, 7, 64), length=64)
    check(lambda x: F.conv2d(x[:, :, 1:, :-1], w), tensor(2, 64, 8, 9), length=64)


def test_weight_is_an_input():
    check(
        lambda x, w: F.conv2d(x, w, padding=1), tensor(1, 64, 9, 9), weight(8, 64, 3, 3), length=576
    )


@pytest.mark.parametrize(
    "order,groups,ic,oc,kernel",
    [
        ("dense", 1, 96, 5, (3, 3)),
        ("dense", 2, 128, 6, (3, 2)),
        ("dense", 1, 32, 3, (6, 5)),
        ("dense", 1, 6, 9, (4, 4)),
        ("dense", 1, 96, 9, (1, 1)),
        ("dense", 2, 128, 8, (1, 1)),
        ("dense", 24, 24, 48, (3, 3)),
        ("permuted", 1, 64, 8, (3, 3)),
        ("permuted", 2, 128, 8, (1, 1)),
        ("permuted", 16, 16, 16, (1, 5)),
        ("transposed", 1, 64, 8, (3, 3)),
        ("transposed", 1, 6, 8, (2, 3)),
        ("transposed", 16, 16, 32, (3, 2)),
    ],
)
def test_every_order_of_the_weight(order, groups, ic, oc, kernel):
    """Each is used as it is, transposed in blocks or packed element by element."""
    transposed = order == "transposed"
    w = weight(*((ic, oc // groups) if transposed else (oc, ic // groups)), *kernel)
    if order == "permuted":
        w = w.permute(2, 1, 3, 0).contiguous().permute(3, 1, 0, 2)
    convolve = F.conv_transpose2d if transposed else F.conv2d
    check(lambda x: convolve(x, w, groups=groups), tensor(1, ic, 13, 17),
          length=ic // groups * kernel[0] * kernel[1], optimization_level=0)


def test_not_a_number_spreads_no_further_than_the_window():
    x = tensor(1, 70, 9, 9)
    x[0, 69, 4, 4] = float("nan")
    x[0, 0, 0, 0] = float("inf")
    w = weight(8, 70, 3, 3)
    check(lambda x: F.conv2d(x, w, padding=1), x, length=630)


@turns(3)
@pytest.mark.parametrize("kernel,stride", [(1, 1), (3, 1), (3, 2)])
def test_dynamic_batch_and_image(kernel, stride):
    layer = torch.nn.Conv2d(64, 12, kernel, stride, kernel // 2)
    check(
        layer,
        tensor(2, 64, 14, 14),
        dynamic=True,
        length=64 * kernel**2,
        more=[(tensor(3, 64, 9, 11),), (tensor(5, 64, 29, 7),)],
    )


@pytest.mark.parametrize(
    "stride,padding,dilation,groups", [(1, 1, 1, 1), (2, 1, 1, 1), (2, 0, 2, 2), (1, 1, 1, 8)]
)
def test_gradients(stride, padding, dilation, groups):
    check_gradients(
        lambda x, w, b: F.conv2d(x, w, b, stride, padding, dilation, groups),
        tensor(2, 8, 9, 10),
        weight(16, 8 // groups, 3, 3),
        tensor(16, seed=2),
        length=200,
        double=True,
    )


def test_gradients_of_transposed():
    check_gradients(
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1),
        tensor(2, 8, 5, 7),
        weight(8, 6, 3, 3),
        tensor(6, seed=2),
        length=200,
        double=True,
    )
