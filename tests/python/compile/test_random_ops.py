"""What draws random numbers cuts no engine in two, and draws what it draws in eager."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_vulkan import compilations

from helpers import check, engines, vulkan


def natives(records):
    return sorted(native.op for record in records for native in record.native)


@pytest.mark.parametrize("layout", ["row_major", "permuted", "channels_last"])
def test_a_dropout_between_two_layers(layout):
    def function(x, w):
        x = torch.tanh(x)
        return torch.native_dropout(x, 0.3, True)[0] @ w

    x = torch.randn(2, 7, 5, 11)
    if layout == "permuted":
        x = torch.randn(5, 2, 11, 7).permute(1, 3, 0, 2)
    elif layout == "channels_last":
        x = x.to(memory_format=torch.channels_last)
    records = check(function, x, torch.randn(11, 3))
    assert engines(records) == 1
    assert natives(records) == ["aten::native_dropout"]


def test_the_mask_of_a_dropout():
    def function(x):
        y, mask = torch.native_dropout(torch.tanh(x), 0.7, True)
        return y.exp(), mask, mask.sum()

    assert engines(check(function, torch.randn(13, 17))) == 1


@pytest.mark.parametrize("p, train", [(0.0, True), (1.0, True), (0.5, False), (0.5, None)])
def test_dropouts_of_all_and_of_nothing(p, train):
    check(lambda x: torch.native_dropout(torch.tanh(x), p, train), torch.randn(5, 7))


@pytest.mark.parametrize("draw", [
    lambda x: torch.randn_like(x),
    lambda x: torch.rand_like(x, dtype=torch.float32),
    lambda x: torch.randint_like(x, 3, 11),
    lambda x: torch.empty_like(x).uniform_(-1, 2),
    lambda x: torch.empty_like(x).exponential_(2.0),
    lambda x: torch.empty_like(x).normal_(1.0, 2.0),
    lambda x: x.new_empty(x.shape[0], 1).bernoulli_(0.6),
    lambda x: torch.zeros_like(x).log_normal_(),
    lambda x: torch.randn_like(x.expand(3, *x.shape)).sum(0),
])
def test_a_draw_that_looks_like_a_result(draw):
    """As of a variational autoencoder, a path that is dropped, or Gumbel noise."""
    def function(x):
        mean = torch.tanh(x)
        return (mean + draw(mean) * mean).exp()

    assert engines(check(function, torch.randn(7, 13))) == 1


def test_random_ops_stay_in_their_order():
    def function(x):
        y = F.dropout(x.relu(), 0.3) + torch.randn_like(x.sin())
        y = y + F.gumbel_softmax(y)
        y = y * y.new_empty(7, 1).bernoulli_(0.9)
        return torch.native_dropout(y, 0.5, True)

    assert engines(check(function, torch.randn(7, 13))) == 1


def test_what_reads_data_still_waits_for_it():
    def function(x):
        chances = torch.sigmoid(x)
        return torch.bernoulli(chances) + chances.exp()

    assert engines(check(function, torch.randn(7, 13))) == 2


def test_sizes_that_change():
    def function(x, w):
        return F.dropout(torch.tanh(x) @ w, 0.4).exp()

    fast = vulkan(function, dynamic=True)
    w = torch.randn(5, 3)
    compilations.clear()
    with torch.no_grad():
        for rows in (4, 9, 2):
            x = torch.randn(rows, 5)
            torch.manual_seed(1)
            want = function(x, w)
            torch.manual_seed(1)
            torch.testing.assert_close(fast(x, w), want)
    assert engines(compilations.compilations()) == 1


def test_a_network_with_dropouts_is_trained_in_one_engine_each_way():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
    layer.self_attn.dropout = 0.0  # attention's own is drawn inside of its kernel
    ours = copy.deepcopy(layer)
    fast = vulkan(ours)
    x = torch.randn(3, 5, 16)
    compilations.clear()
    for call in (layer, fast):
        torch.manual_seed(7)
        call(x).square().sum().backward()
    for a, b in zip(ours.parameters(), layer.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
    records = compilations.compilations()
    assert [(r.kind, len(r.engines)) for r in records] == [("forward", 1), ("backward", 1)]
    assert natives(records).count("aten::native_dropout") == 3
