"""Detectors in ONNX Runtime's provider: what is exported is one engine, NonMaxSuppression is the
CPU provider's, and what follows it is the provider's again."""

import warnings

import numpy
import onnx
import onnxruntime
import provider_tests
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from provider_tests import CPU, NAME, nodes_of, session
from test_exported_networks import TOLERANCE, export

from marks import turns
from workloads.detectors import FasterRcnn, Ssd, translations

pytestmark = pytest.mark.skipif(
    not provider_tests.is_built(),
    reason="the provider is not built (cmake -DTV_ONNXRUNTIME=ON), as its headers are not there")


def with_boxes_chosen(path, predictions: str):
    """Behind predictions of (batch, boxes, 4 + 1 + classes): the boxes that NonMaxSuppression
    leaves of each class, (kept, 4), and their scores."""
    made = onnx.load(path)
    graph = made.graph
    for name, value in {"from_box": [0], "to_box": [4], "to_object": [5], "end": [1 << 30],
                        "last": [2], "most": [20], "one": [1], "three": [3]}.items():
        graph.initializer.append(numpy_helper.from_array(numpy.array(value, "int64"), name))
    for name, value in {"overlap": [0.5], "least": [0.05]}.items():
        graph.initializer.append(numpy_helper.from_array(numpy.array(value, "float32"), name))
    graph.node.extend([
        helper.make_node("Slice", [predictions, "from_box", "to_box", "last"], ["boxes"]),
        helper.make_node("Slice", [predictions, "to_box", "to_object", "last"], ["object"]),
        helper.make_node("Slice", [predictions, "to_object", "end", "last"], ["classes"]),
        helper.make_node("Mul", ["object", "classes"], ["by_box"]),
        helper.make_node("Transpose", ["by_box"], ["scores"], perm=[0, 2, 1]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"],
                         ["chosen"], center_point_box=1),
        helper.make_node("Slice", ["chosen", "last", "three", "one"], ["which"]),
        helper.make_node("Squeeze", ["which", "one"], ["which_box"]),
        helper.make_node("Gather", ["boxes", "which_box"], ["kept"], axis=1),
        helper.make_node("GatherND", ["scores", "chosen"], ["kept_scores"])])
    del graph.output[:]
    graph.output.extend([
        helper.make_tensor_value_info("kept", TensorProto.FLOAT, [1, None, 4]),
        helper.make_tensor_value_info("kept_scores", TensorProto.FLOAT, [None])])
    onnx.checker.check_model(made)
    return made


def check(made, feed):
    """All results are those of the CPU provider alone; the operators of each provider's parts."""
    opened = session(made)
    want = onnxruntime.InferenceSession(made.SerializeToString(), providers=[CPU]).run(None, feed)
    for a, b in zip(opened.run(None, feed), want, strict=True):
        assert a.shape == b.shape and a.size
        numpy.testing.assert_allclose(a, b, **TOLERANCE)
    return nodes_of(opened)


@turns(2, group="detectors")
def test_yolo_with_its_boxes_chosen(tmp_path):
    path = str(tmp_path / "net.onnx")
    _, inputs = export("YOLOv5s", 1, False, path)
    (predictions,) = [output.name for output in onnx.load(path).graph.output]
    made = with_boxes_chosen(path, predictions)
    (given,) = inputs.values()
    feed = {made.graph.input[0].name: given.numpy()}
    found = check(made, feed)
    assert "NonMaxSuppression" in sum(found[CPU], [])
    network = max(found[NAME], key=len)
    assert network.count("Conv") == sum(node.op_type == "Conv" for node in made.graph.node), (
        "all convolutions are of one engine")


@turns(2, group="detectors")
@pytest.mark.parametrize("detector", [Ssd, FasterRcnn])
def test_detectors_with_boxes_chosen_on_their_way(detector, tmp_path):
    """As torch.onnx exports those of torchvision: how many boxes are left, the image says."""
    torch.manual_seed(3)
    model, image = detector().eval(), torch.randn(1, 3, detector.IMAGE, detector.IMAGE)
    for layer in model.modules():
        if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.normal_(layer.weight, std=1.4 / layer.weight[0].numel() ** 0.5)
    path = str(tmp_path / "net.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (image,), path, dynamo=True, verbose=False, opset_version=18,
                          custom_translation_table=translations())
    made = onnx.load(path)
    name = made.graph.input[0].name
    for seed in range(2):  # another number of boxes
        found = check(made, {name: torch.randn(image.shape, generator=torch.Generator().manual_seed(
            seed)).numpy()})
    left = sum(found[CPU], [])
    assert "NonMaxSuppression" in left
    assert not {"Conv", "Gemm", "MatMul", "RoiAlign", "Softmax"} & set(left), left
