"""Layer, group, RMS and batch norm, in inference and training, with their gradients."""

import pytest
import torch
import torch.nn.functional as F

from parity import FLOATS, check, check_gradients, check_tactic, on_cpu, tensor


@pytest.mark.parametrize("shape, count", [((7, 37), 1), ((3, 5, 768), 1), ((2, 3, 5, 7), 2),
                                          ((1, 2053), 1), ((300, 11), 1)])
def test_layer_norm(shape, count):
    normalized = shape[-count:]
    check(lambda x, w, b: (F.layer_norm(x, normalized, w, b), F.layer_norm(x, normalized),
                           F.layer_norm(x, normalized, w, None, 1e-3)),
          tensor(*shape), tensor(*normalized, seed=1), tensor(*normalized, seed=2), length=64)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_16_bit_floats(dtype):
    check(lambda x, w: (F.layer_norm(x, (113,), w), F.rms_norm(x, (113,), w, 1e-5)),
          tensor(7, 113, dtype=dtype), tensor(113, dtype=dtype, seed=1), double=True)


def test_rms_norm():
    check(lambda x, w: (F.rms_norm(x, (37,), w), F.rms_norm(x, (37,), eps=1e-5)), tensor(5, 7, 37),
          tensor(37, seed=1))


def test_a_constant_row():
    check(lambda x: F.layer_norm(x, (37,)), torch.full((3, 37), 1000.25))


def test_a_far_mean():
    check(lambda x: F.layer_norm(x, (113,)), tensor(5, 113) + 100, length=1 << 14)


@pytest.mark.parametrize("shape, groups", [((2, 6, 5, 7), 3), ((3, 4, 11), 1), ((2, 5, 3, 3), 5)])
def test_group_norm(shape, groups):
    channels = shape[1]
    check(lambda x, w, b: (F.group_norm(x, groups, w, b), F.group_norm(x, groups)), tensor(*shape),
          tensor(channels, seed=1), tensor(channels, seed=2), length=64)


def test_instance_norm():
    check(lambda x: F.instance_norm(x), tensor(2, 3, 5, 7), length=35)


def _statistics(channels):
    return (tensor(channels, seed=3), tensor(channels, seed=4).abs() + 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_batch_norm_inference(dtype):
    mean, var = _statistics(5)
    check(lambda x, m, v, w: (F.batch_norm(x, m, v, w, m), F.batch_norm(x, m, v)),
          tensor(3, 5, 7, 11, dtype=dtype), mean.to(dtype), var.to(dtype), tensor(5, dtype=dtype),
          double=dtype != torch.float32, length=8)


def test_batch_norm_training():
    def function(x, m, v, w, b):
        y = F.batch_norm(x, m, v, w, b, training=True, momentum=0.3)
        return y, m * 1, v * 1
    mean, var = _statistics(5)
    check(function, tensor(3, 5, 7, 11), mean, var, tensor(5), tensor(5, seed=1), length=300)


def test_statistics_that_are_kept():
    check(lambda x: torch.ops.aten.native_layer_norm(x, (37,), None, None, 1e-5), tensor(5, 37),
          length=37)
    check(lambda x: torch.ops.aten.native_group_norm(x, None, None, 2, 6, 35, 3, 1e-5),
          tensor(2, 6, 5, 7), length=70)


def test_layer_norm_gradients():
    check_gradients(lambda x, w, b: F.layer_norm(x, (37,), w, b), tensor(5, 7, 37), tensor(37,
        seed=1),
                    tensor(37, seed=2), length=64)


def test_group_norm_gradients():
    check_gradients(lambda x, w, b: F.group_norm(x, 3, w, b), tensor(2, 6, 5, 7), tensor(6, seed=1),
                    tensor(6, seed=2), length=100)


def test_batch_norm_gradients():
    check_gradients(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
                    tensor(3, 5, 7, 11), tensor(5, seed=1), tensor(5, seed=2), length=300)


def test_dynamic_shapes():
    check(lambda x: (F.layer_norm(x, (37,)), F.rms_norm(x, (37,))), tensor(5, 7, 37),
          more=[(tensor(3, 29, 37),), (tensor(2, 113, 37),)], dynamic=True, length=37)


BLOCKS = "row_norm_simd_blocks"
@on_cpu
@pytest.mark.parametrize("rows, count", [(1, 32), (7, 37), (0, 64), (41, 1031), (3, 4099), (2, 20011)])
def test_blocks_of_rows(rows, count):
    check_tactic(BLOCKS, lambda x, w, b: (F.gelu(F.layer_norm(x * 2, (count,), w, b)),
                                          F.layer_norm(x, (count,), w), F.layer_norm(x, (count,))),
                 tensor(rows, count), tensor(count, seed=1), tensor(count, seed=2), length=64)
    torch._dynamo.reset()
    check_tactic(BLOCKS, lambda x, w: (F.rms_norm(x, (count,), w), F.rms_norm(x, (count,))),
                 tensor(rows, count), tensor(count, seed=1), length=64)


@on_cpu
@pytest.mark.parametrize("shape, groups", [((2, 6, 37), 3), ((1, 5, 32), 5), ((3, 8, 29, 41), 2),
                                           ((2, 2, 7, 11, 13), 1), ((1, 3, 5003), 3)])
def test_blocks_of_groups(shape, groups):
    w, b = tensor(shape[1], seed=1), tensor(shape[1], seed=2)
    check_tactic(BLOCKS, lambda x, w, b: (F.relu(F.group_norm(x, groups, w, b)) + x,
                                          F.group_norm(x + 1, groups)), tensor(*shape), w, b,
                 length=64)


@on_cpu
def test_blocks_far_from_zero():
    check_tactic(BLOCKS, lambda x: F.layer_norm(x, (2053,)), tensor(5, 2053) + 100, length=1 << 14)
    torch._dynamo.reset()
    check_tactic(BLOCKS, lambda x: F.layer_norm(x, (1031,)), torch.full((3, 1031), 1000.25))


@on_cpu
@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_blocks_of_16_bits(dtype):
    check_tactic(BLOCKS, lambda x, w, g: (F.layer_norm(x, (557,), w), F.group_norm(g, 2)),
                 tensor(7, 557, dtype=dtype), tensor(557, dtype=dtype, seed=1),
                 tensor(2, 4, 113, dtype=dtype), double=True)


@on_cpu
def test_blocks_of_any_length():
    def norms(x):
        return F.layer_norm(x, x.shape[-1:]), F.group_norm(x, 2)

    cases = [(tensor(rows, 4, count),) for rows, count in ((3, 700), (2, 33), (5, 4099), (1, 512))]
    check(norms, *cases[0], length=64, dynamic=True, more=cases[1:])


def test_gradients_of_long_rows():
    check_gradients(lambda x, w, b: F.layer_norm(x, (1553,), w, b), tensor(5, 1553),
                    tensor(1553, seed=1), tensor(1553, seed=2), length=1553)
    check_gradients(lambda x, w, b: F.group_norm(x, 2, w, b), tensor(2, 6, 311), tensor(6, seed=1),
                    tensor(6, seed=2), length=933)
