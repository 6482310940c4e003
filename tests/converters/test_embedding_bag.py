"""embedding_bag against eager."""

import pytest
import torch
import torch.nn.functional as F

from parity import check, check_gradients, tensor

INDICES = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9, 0, 0, 10])
OFFSETS = torch.tensor([0, 4, 4, 7])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_modes(mode):
    def function(w, i, o):
        return (F.embedding_bag(i, w, o, mode=mode), F.embedding_bag(i, w, o, mode=mode, padding_idx=4),
                F.embedding_bag(i, w, F.pad(o, (0, 1), value=11), mode=mode, include_last_offset=True),
                F.embedding_bag(i[:8].view(2, 4), w, mode=mode))
    check(function, tensor(11, 7), INDICES, OFFSETS, length=8)
    check(function, tensor(11, 7), INDICES.int(), OFFSETS.int(), length=8)


def test_weights_of_samples():
    check(lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
          tensor(11, 7), INDICES, OFFSETS, tensor(11, seed=2), length=8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit(dtype):
    check(lambda w, i, o: (F.embedding_bag(i, w, o, mode="sum"), F.embedding_bag(i, w, o, mode="max")),
          tensor(11, 7, dtype=dtype), INDICES, OFFSETS, double=True)


def test_views_nothing_and_dynamic_sizes():
    check(lambda w, i, o: F.embedding_bag(i, w.t(), o, mode="mean"), tensor(7, 11), INDICES, OFFSETS, length=8)
    check(lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"), tensor(11, 7), INDICES[:0], torch.tensor([0, 0, 0]))
    check(lambda w, i, o: F.embedding_bag(i, w, o, mode="mean"), tensor(11, 7), INDICES, OFFSETS, length=8,
          more=[(tensor(13, 7), INDICES[:9], OFFSETS[:3])], dynamic=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients(mode):
    def function(w, i, o):
        return (F.embedding_bag(i, w, o, mode=mode), F.embedding_bag(i, w, o, mode=mode, padding_idx=4),
                F.embedding_bag(i, w, F.pad(o, (0, 1), value=11), mode=mode, include_last_offset=True))
    check_gradients(function, tensor(11, 7), INDICES, OFFSETS, length=16)
    check_gradients(function, tensor(11, 7), INDICES.int(), OFFSETS.int(), length=16)


def test_gradients_of_weights_of_samples():
    check_gradients(lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s, padding_idx=2),
                    tensor(11, 7), INDICES, OFFSETS, tensor(11, seed=2), length=16)


def test_what_the_backward_pass_reads():
    """The same as eager's, so that a native backward pass can read it."""
    check(lambda w, i, o: [torch.ops.aten._embedding_bag(w, i, o, False, mode, False, None, False, 4) for mode in range(3)],
          tensor(11, 7), INDICES, OFFSETS, length=8)
