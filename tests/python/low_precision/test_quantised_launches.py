"""What files with pairs of QuantizeLinear and DequantizeLinear around every operator launch on a
GPU: what lies between two products is one kernel with the first."""

import pytest
import torch

import torch_vulkan as tv

from workloads import quantised_networks as quantised
from workloads.networks import NETWORKS, Positional

pytest.importorskip("onnxruntime.quantization")


@pytest.fixture
def layers_of(gpu_tactics, tmp_path):
    def layers_of(name, dtype):
        torch.manual_seed(0)
        source = NETWORKS[name]
        (key,) = source.inputs(1, True, 0)
        batches = [source.inputs(2, True, seed)[key] for seed in range(2)]
        module = Positional(source.make(True), key).eval()
        quantised.qdq(module, batches, tmp_path / "net.onnx")
        with torch.no_grad():
            want = module(batches[0])
        session = tv.onnx.compile(str(tmp_path / "net.onnx"), fallback="none",
                                  optimization_level=0,
                                  enabled_precisions={torch.float32, dtype})
        (got,) = session.run(None, {"x": batches[0]})
        assert quantised.snr_db(torch.as_tensor(got), want) > 10
        return [layer for engine in session.engines for layer in engine.info()["layers"]]

    return layers_of


def is_pointwise(layer):
    return layer["tactic"].startswith("pointwise")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_convolutional_network_quantises_its_input_alone(layers_of, dtype):
    layers = layers_of("ResNet-50", dtype)
    assert sum(map(is_pointwise, layers)) <= 2, [x["ops"] for x in layers if is_pointwise(x)]
    assert sum(layer["tactic"].startswith("conv_integer") for layer in layers) >= 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_transformer(layers_of, dtype):
    """Products, two normalisations and a softmax a layer, the scaling of queries and keys, what
    brings heads into order."""
    layers = layers_of("BERT-base", dtype)
    blocks = sum("_softmax" in str(layer["ops"]) for layer in layers)
    assert blocks >= 2
    # Without what the embedding and the head have.
    assert (len(layers) - 12) / blocks <= 20, [layer["tactic"] for layer in layers]
    assert sum(map(is_pointwise, layers)) <= 3 * blocks + 4
