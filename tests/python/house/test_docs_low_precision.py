"""docs/low_precision.md: its listings run, and what they show is what is printed."""

import copy

import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file
from test_docs_listings import listings, page
from torch import nn

import torch_vulkan as tv

from checkpoint_layers import Quantised

PAGE = page("low_precision.md")


class Model(nn.Module):
    """With two linear layers, and a convolution whose weight is quantised by hand."""

    def __init__(self, size=128):
        super().__init__()
        self.layer = nn.ModuleDict({"query": nn.Linear(size, 64), "key": nn.Linear(size, 64)})
        self.register_buffer("q", torch.ones(64, 64, 3, 3, dtype=torch.int8))

    def forward(self, x):
        both = self.layer["query"](x) @ self.layer["key"](x).mT
        weight = torch.ops.torch_vulkan.dequantize(self.q, torch.ones(64, 64, 3, 1), None, 8,
                                                   torch.float32)
        return nn.functional.conv2d(both.expand(1, 64, 3, 3), weight)


class Pruned(Model):
    """With 2:4 sparse layers before a dense one."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 8)
        for layer in self.layer.values():
            layer.weight.data.view(64, -1, 4)[..., ::2] = 0

    def forward(self, x):
        return self.head(self.layer["query"](x) + self.layer["key"](x))


def save_onnx(model, path):
    """A Linear, a ReLU, a Linear."""
    tensors = [numpy_helper.from_array(tensor.numpy(), name)
               for name, tensor in model.state_dict().items()]
    nodes = [helper.make_node("Gemm", ["x", "0.weight", "0.bias"], ["h"], transB=1),
             helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "2.weight", "2.bias"], ["y"], transB=1)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, size])
            for name, size in (("x", 128), ("y", 32)))
    onnx.save(helper.make_model(helper.make_graph(nodes, "net", [x], [y], tensors),
                                 ir_version=10), path)


@torch.no_grad()
def test_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 32)), torch.randn(3, 128)
    model.eval()
    retrained = copy.deepcopy(model)
    retrained[0].weight += 0.1
    names = {"torch": torch, "tv": tv, "model": model, "x": x, "retrained": retrained}
    # The third wants torchao.
    quantise, compare, load, _, calibrate, options, layers, files, sparse, refit = listings(
        PAGE, "python")
    exec(quantise, names)
    torch.testing.assert_close(names["fast"](x), names["smaller"](x))
    tensors = {f"{i}.bias": model[i].bias for i in (0, 2)}
    for i, shape in ((0, (128, 64)), (2, (64, 32))):
        parts = Quantised(*shape, bits=4, group=32).tensors("awq")
        tensors |= {f"{i}.{part}": tensor for part, tensor in parts.items()}
    (tmp_path / "net-awq").mkdir()
    save_file(tensors, tmp_path / "net-awq" / "model.safetensors")
    exec(load, names)
    assert names["packed"][0].weight_zero_point.shape == (64, 4)
    exec(compare, names)
    assert 0 < names["difference"] < 0.05
    names["batches"] = [torch.randn(3, 128) for _ in range(2)]
    exec(calibrate, names)
    plain = names["calibration"]
    exec(options, names)
    assert names["calibration"].channel_amax and names["calibration"].channel_means
    names["calibration"] = plain
    assert (tmp_path / "net.cache").exists()
    names["settings"] |= {"optimization_level": 0, "min_block_size": 1}
    torch._dynamo.reset()
    exec(layers, names)
    assert "harm" in capsys.readouterr().out
    assert 0 < (names["better"](x) - model(x)).abs().max() < 0.05
    save_onnx(model, "net.onnx")
    exec(files, names)
    (result,) = names["session"].run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), model(x), rtol=1e-2, atol=1e-2)
    exec(sparse, names)
    kept = names["sparse"][0].weight.view(64, -1, 4).count_nonzero(-1)
    assert (kept == 2).all() and model[0].weight.count_nonzero() == model[0].weight.numel()
    torch.testing.assert_close(names["fast"](x), names["sparse"](x))
    torch.testing.assert_close(names["small"](x), names["sparse"](x), rtol=0.05, atol=0.05)
    names["program"] = tv.compile(names["smaller"], inputs=[x])
    exec(refit, names)
    torch.testing.assert_close(names["program"](x), tv.quantize(retrained, "int4")(x))


def test_text():
    error, sparse, outcomes = listings(PAGE, "text")
    with pytest.raises(ValueError) as raised:
        tv.quantize(nn.ModuleDict({"mlp": nn.Linear(100, 8)}), "int4")
    assert " ".join(error.split()) == str(raised.value)
    with torch.no_grad():
        report = str(tv.dry_run(Pruned(), [torch.randn(1, 128)], sparse_weights=True,
                                min_block_size=1))
    assert all(line in report for line in sparse.splitlines()), report
    report = str(tv.dry_run(tv.quantize(Model()).eval(), [torch.randn(3, 128)], min_block_size=1))
    assert " ".join(outcomes.split()) in " ".join(report.split())
