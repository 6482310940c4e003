"""tv.quantize(sparsity="2:4"): which weights stay, and what compiles."""

import pytest
import torch
from test_quantise import network
from torch import nn

import torch_vulkan as tv


def is_two_four(weight):
    return int((weight.reshape(-1, 4) != 0).sum(dim=1).max()) <= 2


def test_pruning_keeps_the_two_largest_of_four():
    model = nn.Linear(8, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(
            [[1., -3, 2, 0.5, 1, 1, 1, -1], [0, 0, 0, 7, -2, 0, -4, 3]]))
    sparse = tv.quantize(model, sparsity="2:4")
    assert type(sparse) is nn.Linear and not is_two_four(model.weight)
    assert torch.equal(sparse.weight, torch.tensor(
        [[0., -3, 2, 0, 1, 1, 0, 0], [0, 0, 0, 7, 0, 0, -4, 3]]))
    assert tv.quantize(model, sparsity="2:4", inplace=True) is model and is_two_four(model.weight)


def test_pruning_leaves_what_else_reads_a_weight():
    model = nn.ModuleDict({"table": nn.Embedding(12, 16), "head": nn.Linear(16, 12, bias=False),
                           "again": nn.Linear(16, 12), "dense": nn.Linear(16, 12)})
    model["head"].weight = model["again"].weight = model["table"].weight
    sparse = tv.quantize(model, sparsity="2:4", exclude=["dense"])
    assert is_two_four(sparse["head"].weight) and sparse["head"].weight is sparse["again"].weight
    for name in ("table", "dense"):
        assert torch.equal(sparse[name].weight, model[name].weight)


@pytest.mark.parametrize("weights", [None, "int8", "int4", "nvfp4"])
def test_pruned_networks_compile(weights):
    model, x = network(64, 96, 32), torch.randn(3, 64)
    sparse = tv.quantize(model, weights, sparsity="2:4")
    for layer in sparse:
        if (bias := getattr(layer, "bias", None)) is not None:
            layer.bias = None
            columns = 64 if layer is sparse[0] else 96
            assert is_two_four(layer(torch.eye(columns)).T)
            layer.bias = bias
    fast = torch.compile(sparse, backend="vulkan", options={
        "min_block_size": 1, "require_full_compilation": True, "sparse_weights": True})
    with torch.no_grad():
        torch.testing.assert_close(fast(x), sparse(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arguments, message", [
    ({"sparsity": "1:2"}, "sparsity='1:2', want one of"),
    ({"sparsity": "2:4", "group_size": 32}, "quantises nothing: leave out group_size="),
    ({"sparsity": "2:4", "checkpoint": {}}, "sparsity= says how to quantise"),
    ({"sparsity": "2:4"}, "does not divide the 6 columns of '1.weight'")])
def test_bad_sparsity(arguments, message):
    with pytest.raises(ValueError, match=message):
        tv.quantize(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 4)), **arguments)
