"""nn.TransformerEncoder where no gradient is wanted: PyTorch's one operator for a layer is taken
apart, and runs in engines."""

import pytest
import torch
from torch import nn

import torch_vulkan as tv
from torch_vulkan import compilations

from helpers import check
from marks import turns

N, L, E, HEADS = 2, 5, 16, 2


def causal(dtype=torch.bool):
    hidden = torch.triu(torch.ones(L, L, dtype=torch.bool), 1)
    return hidden if dtype == torch.bool else torch.zeros(L, L).masked_fill(hidden, -torch.inf)


def padding():
    hidden = torch.zeros(N, L, dtype=torch.bool)
    hidden[1, 3:] = True
    return hidden


class Encoder(nn.Module):
    """With its masks: torch.compile gives tensors of keyword arguments to graphs all the same."""

    def __init__(self, layers=2, masks=None, **options):
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(E, HEADS, 24, batch_first=True, **options)
        self.net = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()
        self.masks = masks or {}

    def forward(self, x):
        return self.net(x, **self.masks)


MASKS = {
    "none": {},
    "padding": {"src_key_padding_mask": padding()},
    "causal": {"mask": causal(), "is_causal": False},
    "numbers": {"mask": causal(torch.float32), "is_causal": True},
    "both": {"mask": causal(), "is_causal": False, "src_key_padding_mask": padding()},
}


def is_covered(records):
    return all(r.coverage == 1 and not any("encoder" in n.op or "multi_head" in n.op
                                           for n in r.native) for r in records)


@turns(2)
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}],
                         ids=["post", "pre"])
def test_encoder(masks, options):
    model = Encoder(masks=MASKS[masks], **options)
    records = check(model, torch.randn(N, L, E), calls=1)
    assert is_covered(records) and len(records[0].engines) == 1


def test_eager_takes_the_fast_path():
    """Else the tests here would compare other operators."""
    with torch.no_grad():
        traced = torch.jit.trace(Encoder(), torch.randn(N, L, E))
    assert "_transformer_encoder_layer_fwd" in str(traced.inlined_graph)


def test_rows_that_are_hidden_as_a_whole():
    """NaN in the kernel and here."""
    hidden = padding()
    hidden[0] = True
    records = check(Encoder(1, {"src_key_padding_mask": hidden}), torch.randn(N, L, E), calls=1)
    assert is_covered(records)


@pytest.mark.skipif(
    not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_transformer_encoder_layer_fwd",
                                                       "Meta"),
    reason="this PyTorch (2.11) has no meta kernel of the layer, and Dynamo breaks the graph")
def test_dynamic_sizes():
    torch._dynamo.reset()
    model = Encoder()
    compilations.clear()
    fast = torch.compile(model, backend="vulkan", dynamic=True)
    with torch.no_grad():
        for n, length in ((2, 5), (3, 7), (4, 2)):
            x = torch.randn(n, length, E)
            torch.testing.assert_close(fast(x), model(x))
    records = compilations.compilations()
    assert len(records) == 1 and is_covered(records)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("mask", [None, "padding", "causal"])
def test_native_multi_head_attention(average, mask):
    attention = nn.MultiheadAttention(E, HEADS, batch_first=True).eval().requires_grad_(False)
    given = {None: (None, None), "padding": (padding(), 1), "causal": (causal(), 0)}[mask]

    def function(q, k, v):
        return torch._native_multi_head_attention(
            q, k, v, E, HEADS, attention.in_proj_weight, attention.in_proj_bias,
            attention.out_proj.weight, attention.out_proj.bias, given[0], True, average, given[1])

    x = torch.randn(N, L, E)
    assert is_covered(check(lambda x: function(x, x, x), x, calls=1))
    assert is_covered(check(lambda x, y: function(x, y, y), x, torch.randn(N, L, E), calls=1))


@pytest.mark.parametrize("masks", ["none", "padding", "both"])
@pytest.mark.parametrize("how", ["export", "trace", "script"])
def test_ahead_of_time(how, masks):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Encoder(1).net

        def forward(self, x, padding: torch.Tensor, mask: torch.Tensor):
            return self.net(x, src_key_padding_mask=padding, mask=mask, is_causal=False)

    class Padded(Masked):
        def forward(self, x, padding: torch.Tensor):
            return self.net(x, src_key_padding_mask=padding)

    class Plain(Masked):
        def forward(self, x):
            return self.net(x)

    kind, more = {"none": (Plain, ()), "padding": (Padded, (padding(),)),
                  "both": (Masked, (padding(), causal()))}[masks]
    model, inputs = kind().eval(), (torch.randn(N, L, E), *more)
    with torch.no_grad():
        want = model(*inputs)
        made = {"export": lambda: model, "script": lambda: torch.jit.script(model),
                "trace": lambda: torch.jit.trace(model, inputs)}[how]()
        compilations.clear()
        got = tv.compile(made, inputs=list(inputs), min_block_size=1)(*inputs)
    torch.testing.assert_close(got, want)
    (record,) = compilations.compilations()
    names = {node.op for node in record.native if "did not reach" not in node.reason}
    assert not any("encoder" in name or "multi_head" in name for name in names)
    assert record.covered_nodes >= 10, "the layer is in engines"


def test_the_dry_run_names_the_switch_of_an_unclear_mask():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, HEADS, 24, batch_first=True), 1)
    report = tv.dry_run(model.eval(), [torch.randn(N, L, E)], kwarg_inputs={"mask": causal()})
    text = report.to_text()
    assert "Pass is_causal=True or is_causal=False beside the mask" in text
    for written in (text, report.to_html()):
        assert "No graph was captured" in written and "Every node" not in written


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors():
    """PyTorch's default, which eager mode takes apart at the mask: padded positions are 0 there,
    and the layers' results where anything compiles the model."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, HEADS, 24, batch_first=True)
    net, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(N, L, E)
    with torch.no_grad():
        want = net(x, src_key_padding_mask=padding())
        compiled, other = (torch.compile(net, backend=backend)(x, src_key_padding_mask=padding())
                           for backend in ("vulkan", "aot_eager"))
    torch.testing.assert_close(compiled, other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(compiled[~padding()], want[~padding()], rtol=1e-4, atol=1e-5)
