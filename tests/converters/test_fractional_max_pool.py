"""Fractional max pooling: windows' places by random numbers, indices, special values, views."""

import pytest
import torch
import torch.nn.functional as F

from parity import check, tensor


def samples(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def pool(kernel, size, indices=True):
    return lambda x, s: F.fractional_max_pool2d(x, kernel, size, return_indices=indices,
                                                _random_samples=s)


@pytest.mark.parametrize("kernel, size", [(3, (5, 4)), ((2, 5), (9, 3)), ((1, 13), (11, 1)),
                                          ((11, 2), (1, 12)), (2, (7, 7))])
def test_windows(kernel, size):
    for indices in (True, False):
        check(pool(kernel, size, indices), tensor(2, 3, 11, 13), samples(2, 3, 2))
    check(pool(kernel, size), tensor(3, 11, 13), samples(1, 3, 2))
    check(lambda x, s: pool(kernel, size)(x, s)[1], tensor(2, 3, 11, 13), samples(2, 3, 2))


def test_places_of_many_samples():
    """Each place is torch's, at sizes where products lie at whole numbers, too."""
    x = torch.arange(97 * 103, dtype=torch.float32).reshape(1, 1, 97, 103)
    s = samples(1, 4099, 2)
    s[0, :4] = torch.tensor([[0.0, 0.0], [0.5, 0.25], [1 - 2.0**-24, 1 - 2.0**-24], [0.75, 2.0**-24]])
    for size in ((31, 29), (33, 18), (96, 102), (2, 3)):
        check(lambda x, s, size=size: pool(2, size)(x.expand(1, 4099, 97, 103), s), x, s)


def test_special_values():
    x = tensor(1, 2, 9, 9)
    x[0, 0, 2:6, 3:7] = float("-inf")
    x[0, 1, ::3, ::2], x[0, 1, 7, 7] = float("nan"), float("inf")
    check(pool(3, (5, 4)), x, samples(1, 2, 2))
    check(pool(2, 3), torch.full((1, 1, 9, 9), float("-inf")), samples(1, 1, 2))


def test_samples_outside_of_their_range():
    """Eager reads what lies outside of the picture, or raises an error; engines read the nearest
    window."""
    x = tensor(1, 4, 9, 9)
    s = torch.tensor([float("nan"), float("inf"), -7.0, 1e30])[None, :, None].expand(1, 4, 2)
    y, at = torch.compile(pool(3, 4), backend="vulkan", options={"min_block_size": 1})(x, s)
    assert at.min() >= 0 and at.max() < 81
    torch.testing.assert_close(y.flatten(2), x.flatten(2).gather(2, at.flatten(2)))


def test_views_and_neighbours():
    x, s = tensor(3, 2, 13, 11), samples(2, 2, 5)
    check(lambda x, s: pool(3, (5, 4), False)(x.transpose(0, 1).mT, s.mT[..., 2:4, :].mT.relu()),
          tensor(3, 2, 11, 13), samples(2, 3, 5))
    check(lambda x, s: pool(3, (4, 5), False)((x * 2)[:2], s[..., 1:3]).sigmoid() + 1, x, s)
    # Of samples for a larger batch the first count.
    check(pool(3, (4, 5)), x[:1], samples(3, 2, 2))
    check(pool(2, 3), x.contiguous(memory_format=torch.channels_last), samples(3, 2, 2))


def test_empty():
    check(lambda x, s: (pool(2, 3)(x[:0], s), x + 1), tensor(2, 3, 7, 5), samples(2, 3, 2))
    check(lambda x, s: (pool(2, (0, 3))(x, s), x + 1), tensor(2, 3, 7, 5), samples(2, 3, 2))


def test_dynamic():
    check(pool(3, (5, 4)), tensor(2, 3, 11, 13), samples(2, 3, 2), dynamic=True,
          more=[(tensor(4, 2, 17, 29), samples(4, 2, 2)), (tensor(3, 5, 8, 7), samples(3, 5, 2))])
    check(lambda x, s: pool(2, (x.shape[2] // 2, x.shape[3] - 3))(x, s), tensor(2, 3, 11, 13),
          samples(2, 3, 2), dynamic=True, more=[(tensor(4, 2, 16, 29), samples(4, 2, 2))])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half(dtype):
    """Stored in 16 bits the samples stay float32; samples of 16 bits are PyTorch's."""
    x, s = tensor(2, 3, 11, 13).to(dtype).float(), samples(2, 3, 2)
    check(pool(3, (5, 4)), x, s, enabled_precisions={torch.float32, dtype})
    with pytest.raises(Exception, match="random_samples must be float32"):
        check(pool(3, (5, 4)), x.to(dtype), s.to(dtype))
