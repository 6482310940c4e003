"""The networks of docs/models.md as TorchScript, reduced: one engine, eager's results."""


import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from marks import slow_but, turns
from workloads.networks import NETWORKS

QUICK = ["ResNet-50", "ViT-B/16", "BERT-base, mask", "GPT-2"]
NAMES = [*QUICK, "MobileNetV2", "EfficientNet-B0", "BERT-base", "YOLOv5s"]


class Positional(nn.Module):
    """A network of keyword arguments as TorchScript takes it."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *args):
        return self.model(**dict(zip(self.names, args, strict=True)))


def check(source, inputs, engines=1, stays=()):
    """Compiles and compares, on other numbers than those of the example, too. `stays`: operators
    that do; scripted modules have the control flow of torch.nn.functional around some."""
    compilations.clear()
    made = tv.compile(source, inputs=inputs[0], optimization_level=0)
    (record,) = compilations.compilations()
    assert len(record.engines) == engines, record.native
    assert {n.op for n in record.native} == set(stays) if stays else record.coverage == 1
    with torch.no_grad():
        for given in inputs:
            got, want = made(*given), source(*given)
            got, want = (v[0] if isinstance(v, tuple) else v for v in (got, want))
            assert (got - want).abs().max() <= 1e-4 * want.abs().max()
    return made


@turns(2)
@pytest.mark.parametrize("name", slow_but(QUICK, NAMES))
def test_traced(name):
    network = NETWORKS[name]
    inputs = [network.inputs(2, True, seed) for seed in (0, 1)]
    module = Positional(network.make(True), [*inputs[0]])
    inputs = [[*given.values()] for given in inputs]
    with torch.no_grad():
        source = torch.jit.trace(module, tuple(inputs[0]), check_trace=False, strict=False)
    check(source, inputs)


def check_range(source, inputs, calls):
    """One engine takes all of these calls, with eager's results."""
    compilations.clear()
    made = tv.compile(source, inputs=inputs, optimization_level=0)
    (record,) = compilations.compilations()
    assert len(record.engines) == 1 and record.coverage == 1, record.native
    for args in calls:
        with torch.no_grad(), tv.profile(made) as profile:
            got, want = made(*args), source(*args)
        assert {layer["engine"] for layer in profile.layers} == {"vulkan_engine_0"}
        got, want = (v[0] if isinstance(v, tuple) else v for v in (got, want))
        assert got.shape == want.shape
        assert (got - want).abs().max() <= 1e-4 * want.abs().max()


@turns(2)
@pytest.mark.parametrize("name", ["ResNet-50", "ViT-B/16"])
def test_ranges(name):
    """Any batch from 1 to 4, in one engine."""
    network = NETWORKS[name]
    module = Positional(network.make(True), [*network.inputs(2, True, 0)])
    given = {batch: [*network.inputs(batch, True, 1).values()] for batch in (1, 2, 3, 4)}
    with torch.no_grad():
        source = torch.jit.trace(module, tuple(given[2]), check_trace=False, strict=False)
    shapes = [[(low, *t.shape[1:]) for low in (1, 2, 4)] for t in given[2]]
    inputs = [tv.Input(min_shape=low, opt_shape=opt, max_shape=high, dtype=t.dtype)
              for (low, opt, high), t in zip(shapes, given[2], strict=True)]
    check_range(source, inputs, given.values())


@turns(2)
@pytest.mark.parametrize("name", slow_but(QUICK, ["BERT-base, mask", "GPT-2", "BERT-base"]))
def test_ranges_of_batches_and_lengths(name):
    network = NETWORKS[name]
    example = [*network.inputs(2, True, 1).values()]
    module = Positional(network.make(True), [*network.inputs(2, True, 0)])
    with torch.no_grad():
        source = torch.jit.trace(module, tuple(example), check_trace=False, strict=False)
    inputs = [tv.Input(min_shape=(1, 5), opt_shape=(2, 32), max_shape=(4, 48), dtype=t.dtype)
              for t in example]

    def call(batch, length):
        ids = torch.randint(0, 20, (batch, length), generator=torch.Generator().manual_seed(length))
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[-1, length // 2:] = 0
        return [ids, mask][:len(example)]

    check_range(source, inputs, [call(*sizes) for sizes in ((1, 5), (2, 32), (3, 17), (4, 48))])


def test_scripted_yolo():
    network = NETWORKS["YOLOv5s"]
    inputs = [[*network.inputs(1, True, seed).values()] for seed in (0, 1)]
    check(torch.jit.script(network.make(True).model), inputs, engines=3,
          stays=[*(f"aten::upsample_nearest{d}d.vec" for d in (1, 2, 3)), "aten::append.t"])


def test_a_batch_norm_after_conv3d_is_folded():
    network = nn.Sequential(nn.Conv3d(3, 4, 3), nn.BatchNorm3d(4), nn.ReLU()).eval()
    network[1].running_var.uniform_(0.5, 2)
    network[1].running_mean.uniform_(-1, 1)
    x = torch.randn(2, 3, 5, 6, 7)
    made = tv.compile(torch.jit.script(network), inputs=[x], min_block_size=1,
                      optimization_level=0)
    (engine,) = tv.engines(made)
    for launch in engine.info()["layers"]:
        assert launch["ops"] == ["aten::conv3d", "aten::batch_norm", "aten::relu"]
        assert "pointwise" not in launch["name"], "the norm is part of the weights"
    torch.testing.assert_close(made(x), network(x), rtol=1e-4, atol=1e-4)


class Residual(nn.Module):
    """A block of ResNet as torchvision writes it."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.downsample = None if stride == 1 else nn.Sequential(
            nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


def test_scripted_residual_network():
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1), Residual(16, 16, 1), Residual(16, 32, 2),
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Dropout(0.5, inplace=True),
        nn.Linear(32, 10)).eval()
    check(torch.jit.script(module), [[torch.randn(2, 3, 32, 32)] for _ in range(2)],
          stays=["aten::adaptive_avg_pool2d", "aten::linear"])


def test_scripted_transformer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 3, 48, activation="gelu", batch_first=True)
    layer.norm_first = True  # not the form that PyTorch has one operator for
    source = torch.jit.script(nn.Sequential(nn.Linear(12, 24), layer, nn.LayerNorm(24)).eval())
    inputs = [[torch.randn(2, 7, 12)] for _ in range(2)]
    made = tv.compile(source, inputs=inputs[0], min_block_size=1, optimization_level=0)
    for given in inputs:
        with torch.no_grad():
            torch.testing.assert_close(made(*given), source(*given), rtol=1e-4, atol=1e-5)
    assert tv.engines(made)
