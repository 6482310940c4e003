"""Values that go between engines and ONNX Runtime: NumPy arrays (of ml_dtypes' types where NumPy
has none), lists (sequences) and None (an empty optional). Memory is shared where both hold a type
in the same way."""

import ctypes

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from .files import to_array

# Types of which ONNX Runtime reads a NumPy array as it is.
_SHARED = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8,
           TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8,
           TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64, TensorProto.BOOL}


def to_value(given):
    """A caller's value as it goes between the parts of a model."""
    if isinstance(given, torch.Tensor):
        return to_array(given.detach().resolve_neg().resolve_conj().cpu().contiguous())
    if isinstance(given, (list, tuple)):
        return [to_value(item) for item in given]
    return given if given is None or isinstance(given, dict) else numpy.asarray(given)


def element_type(array) -> int:
    """TensorProto.DataType of an array."""
    if array.dtype.kind in "OUS":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def to_runtime(array):
    """An array as an OrtValue, which reads the array's memory where it can."""
    from onnxruntime import OrtValue

    kind = element_type(array)
    if kind == TensorProto.STRING:
        return OrtValue.ortvalue_from_numpy(array.astype(object))
    if kind in _SHARED:
        return OrtValue.ortvalue_from_numpy(numpy.ascontiguousarray(array).reshape(array.shape))
    value = OrtValue.ortvalue_from_shape_and_type([*array.shape], kind, "cpu")
    packed = numpy_helper.from_array(array).raw_data
    if len(packed) != value.tensor_size_in_bytes():
        raise ValueError(f"tv.onnx: {len(packed)} bytes of {onnx.TensorProto.DataType.Name(kind)} "
                         f"of shape {[*array.shape]}, want {value.tensor_size_in_bytes()}")
    ctypes.memmove(value.data_ptr(), packed, len(packed))
    return value


def from_runtime(value):
    """An OrtValue as an array, which is the value's memory where NumPy has the type."""
    kind = value.element_type()
    if kind == TensorProto.STRING:
        return value.numpy()
    shape, count = value.shape(), value.tensor_size_in_bytes()
    if kind not in _SHARED:
        data = ctypes.string_at(value.data_ptr(), count) if count else b""
        return numpy_helper.to_array(TensorProto(data_type=kind, dims=shape, raw_data=data))
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if count == 0:
        return numpy.empty(shape, dtype)
    memory = (ctypes.c_byte * count).from_address(value.data_ptr())
    memory.owner = value  # lives as long as the array that has the memory as its base
    return numpy.frombuffer(memory, dtype).reshape(shape)
