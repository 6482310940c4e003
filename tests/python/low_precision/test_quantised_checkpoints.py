"""tv.quantize(checkpoint=): weights in the layouts of AWQ and GPTQ."""

import json

import numpy
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

import torch_vulkan as tv
from torch_vulkan._quantised.quantisation import QuantizedLinear

from checkpoint_layers import Quantised
from marks import turns

OPTIONS = {"min_block_size": 1, "require_full_compilation": True,
           "pass_through_build_failures": True}


class Net(nn.Module):
    """Heads of one input, and what is not quantised."""

    def __init__(self, bias=True):
        super().__init__()
        self.embed = nn.Embedding(20, 64)
        self.q, self.k = nn.Linear(64, 32, bias=bias), nn.Linear(64, 48, bias=bias)
        self.norm = nn.LayerNorm(80)
        self.out = nn.Linear(80, 16, bias=False)

    def forward(self, i):
        x = self.embed(i)
        return self.out(self.norm(torch.cat([self.q(x), self.k(x).tanh()], -1)))


def checkpoint(layout, bits=4, group=16, order="", seed=0):
    """(tensors by name, the float model that they stand for)."""
    torch.manual_seed(seed)
    model = Net().eval()
    state = model.state_dict()
    tensors = {name: value.clone() for name, value in state.items()}
    for i, name in enumerate(("q", "k", "out")):
        columns, rows = state[f"{name}.weight"].shape
        layer = Quantised(rows, columns, bits, group, order, seed=10 * seed + i)
        state[f"{name}.weight"] = layer.weight()
        del tensors[f"{name}.weight"]
        tensors |= {f"{name}.{part}": t for part, t in layer.tensors(layout).items()}
    model.load_state_dict(state)
    return tensors, model


def held_bytes(module):
    return sum(t.numel() * t.element_size() for t in module.state_dict().values())


FILES = [("awq", 4, 16, ""), ("awq", 4, 80, ""), ("gptq", 4, 16, ""), ("gptq", 4, 16, "shuffled"),
         ("gptq_v2", 4, 16, "shuffled"), ("gptq", 8, 16, ""), ("gptq_v2", 8, 16, "shuffled")]


@turns(3)
@pytest.mark.parametrize(("layout", "bits", "group", "order"), FILES)
@torch.no_grad()
def test_results_are_those_of_the_floats(layout, bits, group, order):
    if group == 80:  # a group is a row
        layer = Quantised(80, 16, bits, group)
        tensors, exact = layer.tensors(layout), nn.Linear(80, 16, bias=False)
        exact.weight.copy_(layer.weight())
        model, x = nn.Linear(80, 16, bias=False), torch.randn(3, 80)
    else:
        tensors, exact = checkpoint(layout, bits, group, order)
        model, x = Net().eval(), torch.arange(12).view(2, 6)
    made = tv.quantize(model, checkpoint=tensors, layout=layout)
    torch.testing.assert_close(made(x), exact(x), rtol=1e-5, atol=1e-5)
    program = tv.compile(made, inputs=[x], **OPTIONS)
    torch.testing.assert_close(program(x), exact(x), rtol=1e-4, atol=1e-4)
    tactics = [layer["tactic"] for engine in tv.engines(program)
               for layer in engine.info()["layers"] if layer["tactic"].startswith("matmul")]
    assert all(name.startswith("matmul_quantised") for name in tactics) and tactics, tactics


@pytest.mark.parametrize("bits", [4, 8])
@torch.no_grad()
def test_each_weight(bits):
    """Exactly (q - zero) · scale, rounded once."""
    layer = Quantised(64, 48, bits, 32, "shuffled")
    for layout in ("gptq", "gptq_v2") + (("awq",) if bits == 4 else ()):
        if layout == "awq":
            layer.g_idx = numpy.arange(64) // 32
        made = tv.quantize(nn.Linear(64, 48, bias=False), checkpoint=layer.tensors(layout),
                           layout=layout)
        assert torch.equal(made(torch.eye(64)).t(), layer.weight())


def test_zero_points_past_the_last_element():
    """The zero point 16 of "gptq" is 15 in the file, 256 is 255."""
    for bits in (4, 8):
        layer = Quantised(32, 16, bits, 16)
        layer.zeros[:] = 2**bits
        made = tv.quantize(nn.Linear(32, 16, bias=False), checkpoint=layer.tensors("gptq"),
                           layout="gptq")
        with torch.no_grad():
            assert torch.equal(made(torch.eye(32)).t(), layer.weight())
            x = torch.randn(3, 32)
            torch.testing.assert_close(tv.compile(made, inputs=[x], **OPTIONS)(x), made(x))


@torch.no_grad()
def test_one_order_is_read_once():
    """Heads of one input stay one product, behind one gather, which the dry run shows."""
    tensors, _ = checkpoint("gptq", order="shuffled")
    made, i = tv.quantize(Net().eval(), checkpoint=tensors), torch.arange(6)
    assert made.q.weight_order.data_ptr() == made.k.weight_order.data_ptr()
    (engine,) = tv.engines(tv.compile(made, inputs=[i], **OPTIONS))
    ops = [layer["ops"] for layer in engine.info()["layers"]]
    assert sum("aten::index_select" in each for each in ops) == 2, ops  # of q and k, of out
    assert any(each.count("aten::addmm") >= 2 for each in ops), ops
    assert "in another order" in repr(made.q)
    report = tv.dry_run(made, [i], min_block_size=1)
    outcomes = [t["outcome"] for e in report.engines for t in e["quantised"]]
    assert outcomes == ["read packed by 1 product behind a gather of the input"] * 3


@torch.no_grad()
def test_the_device_holds_what_is_packed():
    layer = Quantised(512, 1024, 4, 128, "shuffled")
    made = tv.quantize(nn.Linear(512, 1024), checkpoint=layer.tensors("gptq") | {
        "bias": torch.zeros(1024)}, layout="gptq")
    (engine,) = tv.engines(tv.compile(made, inputs=[torch.randn(2, 512)], **OPTIONS))
    assert engine.info()["memory"]["weights_held"] <= 1.05 * held_bytes(made)


@pytest.mark.parametrize(("layout", "config"), [
    ("awq", {"quant_method": "awq", "version": "gemm", "bits": 4}), ("awq", None),
    ("gptq", {"quant_method": "gptq", "checkpoint_format": "gptq"}), ("gptq", None),
    ("gptq_v2", {"quant_method": "gptq", "checkpoint_format": "gptq_v2"})])
@pytest.mark.parametrize("own_file", [False, True])
@torch.no_grad()
def test_files_and_folders(tmp_path, layout, config, own_file):
    tensors, exact = checkpoint(layout, order="shuffled" if layout != "awq" else "")
    names = sorted(tensors)
    save_file({n: tensors[n] for n in names[::2]}, tmp_path / "model-1.safetensors")
    save_file({n: tensors[n] for n in names[1::2]}, tmp_path / "model-2.safetensors")
    if config:
        text = json.dumps(config if own_file else {"quantization_config": config})
        (tmp_path / ("quantize_config.json" if own_file else "config.json")).write_text(text)
    made, i = tv.quantize(Net().eval(), checkpoint=tmp_path), torch.arange(6)
    torch.testing.assert_close(made(i), exact(i), rtol=1e-5, atol=1e-5)
    with torch.device("meta"):
        empty = Net().eval()
    filled = tv.quantize(empty, checkpoint=str(tmp_path), inplace=True)
    assert filled is empty and isinstance(filled.q, QuantizedLinear)
    assert not any(tensor.is_meta for tensor in filled.state_dict().values())
    assert torch.equal(filled(i), made(i))
    script = torch.jit.trace(made, i)
    assert torch.equal(script(i), made(i))


def test_a_model_stays_as_it_is():
    tensors, _ = checkpoint("awq")
    model = Net().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made = tv.quantize(model, checkpoint=tensors)
    assert isinstance(made.q, QuantizedLinear) and type(model.q) is nn.Linear
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not torch.equal(made.embed.weight, model.embed.weight)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mlp = nn.Embedding(20, 32), nn.Linear(32, 32, bias=False)
        self.head = nn.Linear(32, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, i):
        return self.head(functional.relu(self.mlp(self.embed(i))))


def tied_tensors(*names):
    table = torch.randn(20, 32)
    layer = Quantised(32, 32, 4, 16).tensors("awq")
    return table, {**{name: table.clone() for name in names},
                   **{f"mlp.{part}": tensor for part, tensor in layer.items()}}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("names", [["embed.weight"], ["head.weight"],
                                   ["embed.weight", "head.weight"]])
def test_tied_weights_need_one_name(names, device):
    table, tensors = tied_tensors(*names)
    with torch.device(device):
        model = Tied()
    made = tv.quantize(model, checkpoint=tensors, layout="awq")
    assert made.head.weight is made.embed.weight and torch.equal(made.head.weight, table)
    assert made(torch.arange(3)).isfinite().all()


def test_tied_weights_of_two_values():
    _, tensors = tied_tensors("embed.weight", "head.weight")
    tensors["head.weight"] += 1
    with pytest.raises(ValueError, match="two values of 'head.weight', which is one tensor"):
        tv.quantize(Tied(), checkpoint=tensors, layout="awq")


def test_buffers_that_no_checkpoint_has_are_not_left_on_meta():
    with torch.device("meta"):
        model = Tied()
        model.register_buffer("frequencies", torch.arange(4.), persistent=False)
    _, tensors = tied_tensors("embed.weight")
    with pytest.raises(ValueError, match="lacks frequencies"):
        tv.quantize(model, checkpoint=tensors, layout="awq")
    model.frequencies = torch.arange(4.)
    assert not tv.quantize(model, checkpoint=tensors, layout="awq").frequencies.is_meta


def changed(**parts):
    tensors, _ = checkpoint("gptq")
    for name, value in parts.items():
        name = name.replace("__", ".")
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value(tensors[name]) if name in tensors else value(None)
    return tensors


@pytest.mark.parametrize(("parts", "message"), [
    ({"q__qzeros": None}, "lacks 'q.qzeros'"),
    ({"norm__weight": None}, "lacks norm.weight"),
    ({"norm__weight": lambda t: t[:-1]}, r"'norm.weight' is \[79\].*want \[80\]"),
    ({"q__qweight": lambda t: t[:-1]}, r"'q.qweight' is torch.int32\[7, 32\], which is no weight"),
    ({"q__qweight": lambda t: t.float()}, "torch.float32.*no weight of 64 inputs"),
    ({"q__qweight": lambda t: t[:6]}, "weights of 3 bits"),
    ({"q__scales": lambda t: t[:3]}, r"'q.scales' is .*64 inputs in groups of one size"),
    ({"q__scales": lambda t: t / 0}, r"scale 'q.scales': 128 of 128 are not finite"),
    ({"q__qzeros": lambda t: t[:, 1:]}, r"'q.qzeros' is \[4, 3\], want \[4, 4\]"),
    ({"q__g_idx": lambda t: t * 0}, "'q.g_idx' does not give each of 4 groups 16 of 64"),
    ({"q__g_idx": lambda t: t - 1}, "'q.g_idx' does not give each"),
    ({"q__g_idx": lambda t: t.view(8, 8)}, "'q.g_idx' does not give each"),
    ({"q__g_idx": lambda t: t[:0]}, "'q.g_idx' does not give each"),
    ({"q__g_idx": lambda t: t + 0.5}, "'q.g_idx' does not give each"),
    ({"q__scales": lambda t: t[:0], "q__qzeros": lambda t: t[:0]},
     r"'q.scales' is \[0, 32\], want \[1, 32\]"),
    ({"q__scales": lambda t: t[0, 0]}, r"'q.scales' is \[\], want \[1, 32\]"),
    ({"q__qzeros": lambda t: t.float()}, "'q.qzeros' is torch.float32, want torch.int32"),
    ({"out__bias": lambda _: torch.ones(16)}, "'out.bias', but the model's layer has no bias"),
    ({"q__weight": lambda _: torch.ones(32, 64)}, "has 'q.weight' packed, and as it was, too"),
    ({"mlp__qweight": lambda _: torch.zeros(1)}, "'mlp', which is no nn.Linear of Net"),
    ({"embed__qweight": lambda _: torch.zeros(1)}, "'embed', which is no nn.Linear of Net"),
])
def test_what_does_not_fit(parts, message):
    model = Net()
    with pytest.raises(ValueError, match=message):
        tv.quantize(model, checkpoint=changed(**parts), inplace=True)
    assert type(model.q) is nn.Linear, "nothing changes before everything is known to be right"


def test_what_the_model_does_not_know_is_said():
    tensors = changed(rotary__inv_freq=lambda _: torch.ones(4), out__bias=lambda _: torch.zeros(16))
    with pytest.warns(UserWarning, match="does not know: rotary.inv_freq"):
        tv.quantize(Net(), checkpoint=tensors)


@pytest.mark.parametrize(("config", "message"), [
    ({"quant_method": "gptq", "checkpoint_format": "marlin"}, "names the layout 'marlin'"),
    ({"quant_method": "awq", "version": "gemv"}, "names the layout 'gemv'"),
    ({"quant_method": "bitsandbytes"}, "names the layout 'bitsandbytes'"),
    ("{", "damaged")])
def test_bad_configurations(tmp_path, config, message):
    save_file(checkpoint("gptq")[0], tmp_path / "model.safetensors")
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "quantize_config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        tv.quantize(Net(), checkpoint=tmp_path / "model.safetensors")


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        tv.quantize(Net(), checkpoint=tmp_path / "none")
    with pytest.raises(ValueError, match="has no .safetensors file"):
        tv.quantize(Net(), checkpoint=tmp_path)
    (tmp_path / "cut.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="cut.safetensors is no .safetensors file"):
        tv.quantize(Net(), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="no tensor named qweight"):
        tv.quantize(Net(), checkpoint=Net().state_dict())
    with pytest.raises(ValueError, match="weights= says how to quantise"):
        tv.quantize(Net(), "int4", checkpoint=tmp_path)
    with pytest.raises(ValueError, match="layout='exl2', want one of"):
        tv.quantize(Net(), checkpoint=tmp_path, layout="exl2")
    with pytest.raises(ValueError, match="goes with checkpoint="):
        tv.quantize(Net(), layout="awq")
