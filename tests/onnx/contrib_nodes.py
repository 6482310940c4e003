"""Single nodes of com.microsoft: an engine's results beside ONNX Runtime's."""

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import torch_vulkan as tv

from onnx_models import model

_TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int32": TensorProto.INT32,
          "int64": TensorProto.INT64, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
          "bool": TensorProto.BOOL}


def node_model(op, inputs, outputs=1, constants=(), dims=None, domain="com.microsoft", opset=20,
               **attributes):
    """A model of one node.

    Args:
        inputs: name → array; None for an input that is left out.
        outputs: their number, or for each whether it is wanted.
        constants: names of inputs that are weights of the file.
        dims: name → shape with names, of inputs of dynamic size.
    """
    wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
    results = [f"y{i}" if want else "" for i, want in enumerate(wanted)]
    names = [name if array is not None else "" for name, array in inputs.items()]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op, names, results, "node", domain=domain, **attributes)
    fed = {name: a for name, a in inputs.items() if a is not None and name not in constants}
    shapes = {name: (dims or {}).get(name, a.shape) for name, a in fed.items()}
    made = model([node],
                 [helper.make_tensor_value_info(name, _TYPES[a.dtype.name], shapes[name])
                  for name, a in fed.items()],
                 [onnx.ValueInfoProto(name=name) for name in results if name],
                 [numpy_helper.from_array(inputs[name], name) for name in constants], opset=opset,
                 domains=["com.microsoft"])
    return made, fed


def reference(made, feed):
    """ONNX Runtime's results of the nodes as they are."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def compare(got, want, rtol=1e-5, atol=1e-5, steps=0):
    """Results one by one; integers may differ by `steps`."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        assert g.shape == w.shape
        if w.dtype.kind in "iub":
            apart = numpy.abs(g.astype(numpy.int64) - w.astype(numpy.int64))
            assert apart.max(initial=0) <= steps, f"{apart.max()} apart"
            assert (apart > 0).mean() <= 0.02
        else:
            wide = 2e-3 if w.dtype == numpy.float16 else 0
            numpy.testing.assert_allclose(g.astype(numpy.float64), w.astype(numpy.float64),
                                          rtol=max(rtol, wide), atol=max(atol, wide))


def check(op, inputs, outputs=1, *, rtol=1e-5, atol=1e-5, steps=0, want=None, **rest):
    """An engine of one node gives the reference's results, or `want`."""
    made, feed = node_model(op, inputs, outputs, **rest)
    session = tv.onnx.compile(made, optimization_level=0, fallback="none")
    compare(session.run(None, feed), reference(made, feed) if want is None else want, rtol, atol,
            steps)
    return session
