"""onnxslim on a model, where the caller asks for it."""

import os

import onnx

from .._base.errors import OUT_OF_MEMORY
from .files import serialized


def simplified(model) -> onnx.ModelProto:
    """The model as onnxslim writes it; the caller's stays as it is.

    Args:
        model: a path, bytes or a ModelProto.

    Raises:
        ValueError: onnxslim refuses it.
    """
    import onnxslim

    if isinstance(model, (str, os.PathLike)):
        loaded = onnx.load(os.fspath(model))  # with its external data
    else:
        loaded = onnx.load_from_string(serialized(model))
    try:
        return onnxslim.slim(loaded)
    except OUT_OF_MEMORY:
        raise
    except Exception as error:  # of many types
        raise ValueError(f"tv.onnx: simplify=True: onnxslim fails on the model: {error}; without "
                         "simplify it compiles as it is") from error
