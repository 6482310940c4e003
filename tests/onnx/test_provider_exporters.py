"""Networks of transformers in ONNX Runtime's provider, as its own exporter writes them."""

import warnings

import numpy
import onnxruntime
import provider_tests
import pytest
import torch
from provider_tests import CPU, NAME, nodes_of, session
from test_exported_networks import TOLERANCE

from marks import turns
from workloads.networks import NETWORKS

exporters = pytest.importorskip("transformers.exporters.base")
exporter_onnx = pytest.importorskip("transformers.exporters.exporter_onnx")
pytest.importorskip("onnxscript")
pytestmark = [
    pytest.mark.skipif(
        not provider_tests.is_built(),
        reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON): its headers are not there"),
    pytest.mark.skipif(
        not hasattr(exporters, "ExportedModel"),
        reason="this transformers exports something else than an ExportedModel")]


@turns(2)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ["Whisper", "BERT-base", "DETR"])
def test_a_network_is_one_node(name, dynamic, tmp_path):
    network = NETWORKS[name]
    made = network.make(True)
    inputs = network.inputs(2, True, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = exporter_onnx.OnnxExporter().export(
            made.model, inputs, config=exporter_onnx.OnnxConfig(dynamic=dynamic))
    exported.save_pretrained(tmp_path)
    (path,) = map(str, tmp_path.glob("*.onnx"))
    # BERT cuts its table of positions to the tokens' number, of which it has to know the most.
    ranges = {f"profile_{which}_shapes": ",".join(
        f"{key}:{'x'.join(map(str, (batch, *value.shape[1:])))}" for key, value in inputs.items())
        for which, batch in (("min", 1), ("opt", 2), ("max", 4))} if dynamic else {}
    opened = session(path, {"session.disable_cpu_ep_fallback": "1"}, alone=True, **ranges)
    assert {key: len(parts) for key, parts in nodes_of(opened).items()} == {NAME: 1}
    reference = onnxruntime.InferenceSession(path, providers=[CPU])
    for batch in (2, 3) if dynamic else (2,):
        inputs = network.inputs(batch, True, batch)
        feed = {arg.name: inputs[arg.name].numpy() for arg in opened.get_inputs()}
        with torch.no_grad():
            (eager, *_) = made(**inputs)
        got, *_ = opened.run(None, feed)
        numpy.testing.assert_allclose(got, reference.run(None, feed)[0], **TOLERANCE)
        numpy.testing.assert_allclose(got, eager.numpy(), **TOLERANCE)
