"""Networks that torch.onnx exports, against eager and ONNX Runtime."""

import warnings

import numpy
import pytest
import torch

import torch_vulkan as tv

from marks import slow_but, turns

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from workloads.networks import NETWORKS  # noqa: E402

# Float32 through tens of layers, summed in other orders: as docs/models.md compares with eager.
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
NAMES = ["ResNet-50", "MobileNetV2", "EfficientNet-B0", "ViT-B/16", "BERT-base", "GPT-2",
         "YOLOv5s"]


def some(*quick):
    """Every network; all but the named ones are slow."""
    return pytest.mark.parametrize("name", slow_but(quick, NAMES))


class Positional(torch.nn.Module):
    """A network of keyword arguments with one tensor in the place of them."""

    def __init__(self, model, key):
        super().__init__()
        self.model, self.key = model, key

    def forward(self, x):
        return self.model(**{self.key: x})


def export(name, batch, dynamic, path):
    """Writes the reduced network; returns it and its inputs."""
    network = NETWORKS[name]
    model, inputs = network.make(True), network.inputs(batch, True, 0)
    ((key, value),) = inputs.items()
    shapes = ({0: torch.export.Dim("batch", min=1, max=8)},) if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Positional(model, key), (value,), path, dynamo=True, verbose=False,
                          dynamic_shapes=shapes, input_names=[key])
    return model, inputs


def check(session, path, model, inputs):
    with torch.no_grad():
        eager = model(**inputs)
    eager = eager[0] if isinstance(eager, tuple) else eager
    feed = {arg.name: value.numpy() for arg, value in zip(session.get_inputs(), inputs.values(),
                                                          strict=True)}
    (got,) = session.run(None, feed)[:1]
    (want,) = onnxruntime.InferenceSession(
        path, providers=["CPUExecutionProvider"]).run(None, feed)[:1]
    numpy.testing.assert_allclose(got, eager.numpy(), **TOLERANCE)
    numpy.testing.assert_allclose(got, want, **TOLERANCE)


@turns(2)
@some("ResNet-50", "GPT-2")
def test_static(name, tmp_path):
    path = str(tmp_path / "net.onnx")
    model, inputs = export(name, 2, False, path)
    check(tv.onnx.compile(path), path, model, inputs)


@some("BERT-base")
def test_dynamic_batch(name, tmp_path):
    path = str(tmp_path / "net.onnx")
    model, inputs = export(name, 2, True, path)
    ranges = {key: tv.Input(min_shape=(1, *value.shape[1:]), opt_shape=value.shape,
                            max_shape=(8, *value.shape[1:])) for key, value in inputs.items()}
    session = tv.onnx.compile(path, inputs=ranges)
    for batch in (1, 5):
        check(session, path, model, NETWORKS[name].inputs(batch, True, batch))


class Masked(torch.nn.Module):
    """A convolution's features where a mask of the image, made as small as they are, has them."""

    def __init__(self):
        super().__init__()
        self.patch = torch.nn.Conv2d(3, 6, 3, stride=4, padding=1)

    def forward(self, x):
        mask = torch.ones(x.shape[0], x.shape[2], x.shape[3])
        x = self.patch(x)
        mask = torch.nn.functional.interpolate(mask[None], size=x.shape[2:])[0].bool()
        return torch.where(mask[:, None], x, 0.0).flatten(2).transpose(1, 2).cumsum(1)


def test_a_mask_is_resized_to_the_features(tmp_path):
    """Its number of images, which stays, may be dynamic."""
    torch.manual_seed(0)
    model, path = Masked().eval(), str(tmp_path / "net.onnx")
    auto = torch.export.Dim.AUTO
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.randn(2, 3, 32, 48),), path, dynamo=True, verbose=False,
                          dynamic_shapes=({0: auto, 2: auto, 3: auto},), input_names=["x"])
    session = tv.onnx.compile(path, optimization_level=0, fallback="none", inputs={
        "x": tv.Input(min_shape=(1, 3, 32, 48), opt_shape=(2, 3, 32, 48),
                      max_shape=(4, 3, 32, 48))})
    for batch in (1, 4):
        x = torch.randn(batch, 3, 32, 48)
        check(session, path, model, {"x": x})
