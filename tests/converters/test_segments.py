"""segment_reduce, and renorm of an embedding's rows, against eager."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from parity import check, check_gradients, tensor

LENGTHS = torch.tensor([3, 0, 5, 1, 2])


@pytest.mark.parametrize("kind", ["sum", "mean", "prod", "max", "min"])
def test_segments(kind):
    def function(x, n, o):
        return (torch.segment_reduce(x, kind, lengths=n, axis=0), torch.segment_reduce(x, kind, lengths=n, axis=0, initial=2.0),
                torch.segment_reduce(x, kind, offsets=o), torch.segment_reduce(x[:, 0], kind, lengths=n))
    check(function, tensor(11, 7), LENGTHS, F.pad(LENGTHS.cumsum(0), (1, 0)), length=8)
    check(function, tensor(11, 7), LENGTHS.int(), F.pad(LENGTHS.cumsum(0), (1, 0)).int(), length=8)


def test_segments_of_rows():
    check(lambda x, n: (torch.segment_reduce(x, "sum", lengths=n, axis=1), torch.segment_reduce(x, "max", lengths=n, axis=1)),
          tensor(2, 7, 3), torch.tensor([[4, 3], [1, 6]]), length=8)


def test_rows_behind_the_last_segment():
    """They are no reason for PyTorch to run a call where it is told that lengths may fall short."""
    check(lambda x, n: torch.segment_reduce(x, "max", lengths=n, axis=0, unsafe=True), tensor(12, 7), LENGTHS)


def test_a_call_that_is_left_to_pytorch_fails_here():
    with pytest.raises(UserWarning, match="natively"):
        warnings.warn("torch_vulkan: engine_0 runs natively: [check_indices] …", stacklevel=1)


@pytest.mark.parametrize("kind", ["sum", "mean", "prod", "max", "min"])
def test_gradients_of_segments(kind):
    """Zeros, NaN and equal values among them, and rows behind the last segment."""
    x = tensor(11, 7)
    x[1] = x[2]
    x[4], x[9, 3] = 0.0, float("nan")
    for n in (LENGTHS, LENGTHS.int()):
        check_gradients(lambda x, n=n: torch.segment_reduce(x, kind, lengths=n, axis=0, unsafe=True), x, length=8)
    check_gradients(lambda x: torch.segment_reduce(x, kind, offsets=torch.tensor([0, 3, 3, 9]), initial=2.0),
                    x[:9], length=8)
    check_gradients(lambda x: torch.segment_reduce(x, kind, lengths=torch.tensor([[4, 3], [1, 6]]), axis=1),
                    tensor(2, 7, 3), length=8)


@pytest.mark.parametrize("p", [2.0, 1.0, float("inf")])
def test_embedding_renorm(p):
    check(lambda w, i: F.embedding(i, w.clone(), max_norm=1.0, norm_type=p), tensor(11, 7), torch.tensor([[1, 2], [9, 1]]))
    check(lambda w, i: F.embedding(i, w, max_norm=2.5, norm_type=p), tensor(11, 7), torch.tensor([0, 10]))
