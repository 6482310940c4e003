"""Models that the tests of Triton's backend serve, and what their engines say."""

import sys
from pathlib import Path

import numpy
import torch
from onnx import TensorProto, helper

import torch_vulkan as tv

sys.path.append(str(Path(__file__).parents[1] / "onnx"))
from onnx_models import model, tensor, weight  # noqa: E402

MOST = 16


def profile(least, usual, most, width=32):
    return tv.Profile(x=((least, width), (usual, width), (most, width)))


def classifier(path: Path, profiles=None, width=32):
    """softmax(relu(x w + b) v) of a batch, as a file."""
    generator = torch.Generator().manual_seed(7)
    b = tv.Builder()
    x = b.input("x", (-1, width))
    w = b.weight("w", torch.randn(24, width, generator=generator))
    bias = b.weight("bias", torch.randn(24, generator=generator))
    v = b.weight("v", torch.randn(10, 24, generator=generator))
    h = b.op("aten::relu", b.op("aten::linear", x, w, bias))
    b.output("y", b.op("aten::softmax.int", b.op("aten::linear", h, v, None), -1))
    b.output("h", h)
    engine = b.build(profiles=profiles or [profile(1, MOST, MOST, width)])
    engine.save(path)
    return path


def embedding(rows=50):
    """An ONNX file: a row of a table for each index, with the index as float beside it."""
    table = numpy.random.default_rng(3).standard_normal((rows, 8)).astype(numpy.float32)
    nodes = [helper.make_node("Gather", ["table", "i"], ["row"]),
             helper.make_node("Cast", ["i"], ["number"], to=TensorProto.FLOAT)]
    return model(nodes, [tensor("i", ["n"], TensorProto.INT64)],
                 [tensor("row", ["n", 8]), tensor("number", ["n"])],
                 [weight("table", table)]).SerializeToString(), table


class Answers:
    """Results of an engine for a row, alone and in every batch."""

    def __init__(self, path):
        self.engine = tv.Engine.load(path)

    def of_batch(self, x):
        return {name: numpy.asarray(value) for name, value in self.engine.run({"x": x}).items()}

    def of_rows(self, x, batch):
        """The results of these rows in a batch of so many, the others being zeros."""
        padded = numpy.zeros((batch, *x.shape[1:]), x.dtype)
        padded[:len(x)] = x
        return {name: value[:len(x)] for name, value in self.of_batch(padded).items()}
