"""Whole networks that other tools quantised, beside those tools' own runs of the same graph."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed

import torch_vulkan as tv

from marks import turns
from workloads.networks import NETWORKS, Positional
from workloads.quantised_networks import (
    TORCHAO,
    has_torchao,
    pt2e,
    qdq,
    snr_db,
    top_5,
)

STRICT = {"min_block_size": 1, "require_full_compilation": True,
          "pass_through_build_failures": True, "optimization_level": 0}
BATCHES = {"ResNet-50": 48, "BERT-base": 12}
CALIBRATED_BY, SEEN_BY_NOBODY = range(3), 9  # seeds


def network(name):
    """A reduced network, batches to calibrate with, and one to compare by."""
    source = NETWORKS[name]
    (key,) = source.inputs(1, True, 0)
    model = Positional(source.make(True), key).eval()
    if name == "BERT-base":  # its residuals drown what layers of transformers' weights do
        torch.manual_seed(1)
        for path, module in model.named_modules():
            if isinstance(module, torch.nn.Linear):
                gain = 1.0 if path.endswith(("query", "key")) else 0.5
                torch.nn.init.normal_(module.weight, 0.0, gain * module.in_features ** -0.5)
    *batches, x = (source.inputs(BATCHES[name], True, seed)[key]
                   for seed in (*CALIBRATED_BY, SEEN_BY_NOBODY))
    return model, batches, x


# --- PT2E ---

def quantise_nodes(model):
    return model.graph.find_nodes(
        op="call_function", target=torch.ops.quantized_decomposed.quantize_per_tensor.default)


def with_integers(model):
    """The graph, which also gives the integers of each of its activations."""
    graph, copies = torch.fx.Graph(), {}
    result = graph.graph_copy(model.graph, copies)
    graph.output((*torch.utils._pytree.tree_leaves(result),
                  *(copies[node] for node in quantise_nodes(model))))
    return torch.fx.GraphModule(model, graph)


class Followed(torch.fx.Interpreter):
    """Runs a graph in PyTorch with the integers that an engine gave in place of its own.

    Attributes:
        steps: by how much each of the engine's differs from what PyTorch makes of the same
            operands.
        from_a_half: how far the others' numbers are from where rounding changes, in steps.
    """

    def __init__(self, model, integers):
        super().__init__(model)
        self.integers, self.steps, self.from_a_half = iter(integers), [], []

    def call_function(self, target, args, kwargs):
        own = super().call_function(target, args, kwargs)
        if target is not torch.ops.quantized_decomposed.quantize_per_tensor.default:
            return own
        got, number = next(self.integers), args[0] * (1.0 / args[1])
        steps = (got.int() - own.int()).abs().flatten()
        self.steps.append(steps)
        self.from_a_half.append((number - number.floor() - 0.5).abs().flatten()[steps > 0])
        return got


def further_than_a_step(got, want):
    """Share of the results that are further apart than a step of 8 bits over their range."""
    return ((got - want).abs() > (want.max() - want.min()) / 255).float().mean()


@pytest.mark.parametrize("name", BATCHES)
@torch.no_grad()
def test_one_wrong_scale_moves_results_by_steps(name):
    """What the comparison below would notice."""
    if not has_torchao():
        pytest.skip(TORCHAO)
    model, batches, x = network(name)
    quantised = pt2e(model, batches)
    want = quantised(x)
    scales = [buffer for label, buffer in quantised.named_buffers() if "scale" in label]
    assert len(scales) == {"ResNet-50": 13, "BERT-base": 12}[name]
    moved = []
    for scale in scales:
        scale *= 1.3
        moved.append(further_than_a_step(quantised(x), want))
        scale /= 1.3
    assert min(moved) > 0.01, moved


@pytest.mark.parametrize("name", BATCHES)
@torch.no_grad()
def test_pt2e_beside_pytorch(name):
    if not has_torchao():
        pytest.skip(TORCHAO)
    model, batches, x = network(name)
    quantised = pt2e(model, batches)
    exact, want = model(x), quantised(x)
    got = torch.compile(quantised, backend="vulkan", options=STRICT)(x)
    assert further_than_a_step(got, want) <= 1e-4
    assert top_5(got, want) >= 0.99 and snr_db(got, want) > snr_db(want, exact) + 12
    assert snr_db(got, exact) > snr_db(want, exact) - 0.2 > 25
    assert top_5(got, exact) >= top_5(want, exact) - 0.01 > 0.9


@turns(2, each=("name",))
@pytest.mark.parametrize("name", BATCHES)
@torch.no_grad()
def test_every_integer_of_pt2e(tactics_of, name):
    """Those that differ follow from numbers that lie on a half but for the rounding of sums."""
    if not has_torchao():
        pytest.skip(TORCHAO)
    model, batches, x = network(name)
    quantised = pt2e(model, batches)
    whole = with_integers(quantised)
    _, *want = whole(x)
    _, *got = torch.compile(whole, backend="vulkan", options=STRICT)(x)
    assert len(got) == {"ResNet-50": 16, "BERT-base": 8}[name]
    apart = torch.cat([(g.int() - w.int()).abs().flatten()
                       for g, w in zip(got, want, strict=True)])
    assert (apart > 1).float().mean() <= 1e-4
    followed = Followed(quantised, got)
    followed.run(x)
    steps, from_a_half = torch.cat(followed.steps), torch.cat(followed.from_a_half)
    assert steps.max() <= 1 and (steps > 0).float().mean() <= 1e-4
    assert (from_a_half < 1e-3).all()


# --- ONNX ---

@pytest.mark.parametrize("name", BATCHES)
def test_qdq_beside_onnxruntime(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    model, batches, x = network(name)
    with torch.no_grad():
        exact = model(x)
    path = tmp_path / "net.onnx"
    qdq(model, batches, path)

    def theirs(level):
        """As the file is written, or with kernels of integers that round biases too."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return torch.from_numpy(session.run(None, {"x": x.numpy()})[0])

    want = theirs(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    fused = theirs(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    session = tv.onnx.compile(str(path), optimization_level=0, fallback="none")
    got = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
    file = onnx.load(path)
    (scale,) = {node.input[1] for node in file.graph.node if "y" in node.output}
    (step,) = (onnx.numpy_helper.to_array(w) for w in file.graph.initializer if w.name == scale)
    assert ((got - want).abs() > 1.01 * step.item()).float().mean() <= 1e-4
    assert top_5(got, want) >= 0.99 and snr_db(got, want) > snr_db(want, exact) + 12
    for other in (want, fused):
        assert snr_db(got, exact) > snr_db(other, exact) - 0.2 > 25
        assert top_5(got, exact) >= top_5(other, exact) - 0.01 > 0.9
