"""Views: every way to name elements of a tensor, read by arithmetic and by reductions."""

import pytest
import torch

from parity import check, tensor

CASES = {
    "view": lambda x: x.view(7, 15),
    "view_minus_one": lambda x: x.view(3, -1),
    "reshape_of_permuted": lambda x: x.permute(2, 0, 1).reshape(7, 15),
    "reshape_needs_copy": lambda x: x.permute(2, 0, 1).reshape(21, 5),
    "view_splits_permuted": lambda x: x.transpose(0, 2).unflatten(0, (7, 1)),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(-1, 0),
    "t": lambda x: x[0].t(),
    "expand": lambda x: x[:, :1].expand(3, 11, 7),
    "expand_new_dims": lambda x: x.expand(2, 3, 5, 7),
    "slice": lambda x: x[1:, -4:-1, ::3],
    "slice_to_the_end": lambda x: x[:, 2:],
    "slice_past_the_end": lambda x: x[:, 1:100],
    "select": lambda x: x[-1, :, 2],
    "swapaxes": lambda x: (x.swapaxes(0, -1), x.swapdims(1, 2)),
    "unsqueeze": lambda x: x.unsqueeze(1).unsqueeze(-1),
    "squeeze": lambda x: x[:, :1].unsqueeze(0).squeeze(),
    "squeeze_dim": lambda x: x[:, :1].squeeze(1),
    "squeeze_dims": lambda x: x[:, :1, :1].squeeze((0, 1, 2)),
    "split": lambda x: x.split(2, 1),
    "split_sizes": lambda x: x.split((1, 4, 2), 2),
    "chunk": lambda x: x.chunk(2, -1),
    "unbind": lambda x: x.unbind(0),
    "narrow": lambda x: x.narrow(2, 3, 4),
    "diagonal": lambda x: (x.diagonal(1, 0, 2), x.diagonal(-1, 1, 2)),
    "flatten": lambda x: x.flatten(1),
    "alias_chain": lambda x: x.detach().view_as(x).clone().contiguous(),
    "clone_of_permuted": lambda x: x.permute(1, 2, 0).clone(),
    "slice_of_slice": lambda x: x[:, 1:][1:, ::2].transpose(0, 1)[1:],
    "merge_of_sliced": lambda x: x[:, :, 1:5].flatten(0, 1),
}


def _doubled(function):
    def run(x):
        result = function(x)
        return [r * 2 for r in result] if isinstance(result, (tuple, list)) else result * 2
    return run


@pytest.mark.parametrize("name", CASES)
def test_views(name):
    check(_doubled(CASES[name]), tensor(3, 5, 7))


def test_views_of_other_types():
    def function(x):
        return x[:, 1:].transpose(0, 1) + 1, x.flatten()[3:] * 3
    for dtype in (torch.float16, torch.int64, torch.uint8):
        check(function, tensor(5, 7, dtype=dtype))


def test_non_contiguous_inputs():
    check(lambda x, y: (x.view(11, 3) + 1, y.permute(1, 0) * 2),
          tensor(3, 11).t(), tensor(7, 10)[:, ::2])


def test_empty_and_scalar():
    check(lambda x, y: (x[1:1] + 1, x.view(-1) * 2, y.expand(3, 2) * 2, y.view(1, 1) + 1),
          tensor(0, 5), tensor())


def test_whole_rows_of_views():
    check(lambda x: (x.permute(2, 0, 1).sum((0, 2)), x[:, ::2].amax(1), x.transpose(0,
        1).argmax(2)),
          tensor(3, 5, 7))


def test_dynamic_shapes():
    def function(x):
        n, m = x.shape[0], x.shape[1]
        return (x.view(n * m, 6) * 2, x[:, 1:].transpose(0, 1) + 1, x.view(n, m, 2, 3).permute(2,
            0, 1, 3)
                .reshape(2, n, m * 3) * 3, x[-1] + 1, x.flatten() - 1)
    check(function, tensor(5, 7, 6), more=[(tensor(3, 11, 6),), (tensor(29, 2, 6),)], dynamic=True)


def test_views_of_nothing_with_an_offset():
    check(lambda x, y: (x[..., 1] @ y, x[..., 1].sum(1)), tensor(5, 0, 2), tensor(0, 3))
    check(lambda x: x[..., 1].sum(1), tensor(5, 3, 2), more=[(tensor(5, 4, 2),), (tensor(5, 0, 2),)], dynamic=True)


@pytest.mark.parametrize("shape", [(4, 3), (0,), (5, 0, 2), (1, 1), (113,)])
def test_one_number_everywhere(shape):
    """A number that is computed and then copied to all places of a result."""
    check(lambda x, y: ((x * 2).expand(shape).clone(), y.sum().expand(shape).contiguous()),
          torch.tensor(3.0), tensor(11))


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
def test_one_result_joined_with_itself(shape):
    check(lambda x: (torch.cat([x.softmax(-1)] * 2).sum(-1), torch.cat([x * 2] * 3, 1)), tensor(*shape))
