"""Models as they come in, arrays and tensors as the importer and engines take them."""

import errno
import os
from collections.abc import Mapping

import torch

from .._base.dtypes import DTYPES, NARROWED
from .._base.inputs import Input
from .._engines.engine import numpy
from .._native import C

# Types of whose numbers engines take and give the codes, in uint8: torch's and ml_dtypes' names.
SMALL_FLOATS = {name: getattr(torch, name) for name in (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")}
# And unsigned integers that engines hold in wider types, with these.
UNSIGNED = {name: (getattr(torch, name), DTYPES[held]) for name, held in C.onnx_unsigned().items()}
ALL_DTYPES = {**DTYPES, **SMALL_FLOATS, **{name: own for name, (own, _) in UNSIGNED.items()}}
_NAMES = {"float": "float32", "double": "float64"}  # ONNX's → torch's, where they differ
_WIDER = dict(UNSIGNED.values())


def imported(model, given: dict, settings: str = ""):
    """The Graph of a model and its weights; `settings`: Settings.compiler_json(), or "" where only
    what the file has matters. Raises as tv.onnx.compile does."""
    given = {"directory": "", **given}
    if isinstance(model, (str, os.PathLike)):
        if not os.path.exists(model):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(model))
        return C.import_onnx(os.fspath(model), given, settings)
    return C.import_onnx_bytes(serialized(model), given, settings)


def serialized(model) -> bytes:
    """The bytes of a model that is not a path."""
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise ValueError(f"tv.onnx: got {type(model).__name__}, want a path, bytes or a ModelProto")
    return bytes(model)


def ranges(model, inputs) -> dict:
    """name → (min, opt, max) of each dimension. Raises ValueError for more inputs than the model
    has, and for a dtype that an input of it has not."""
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        names = [name for name, _ in C.onnx_inputs(_bytes_of(model))]
        if isinstance(inputs, (str, bytes)) or len(inputs) > len(names):
            raise ValueError(f"tv.onnx: inputs: got {len(inputs)}, want at most {len(names)} "
                             f"({', '.join(names)})")
        inputs = {getattr(given, "name", None) or name: given
                  for name, given in zip(names, inputs, strict=False)}
    said = {name: given.dtype for name, given in inputs.items()
            if isinstance(given, Input) and given.dtype != Input.dtype}
    types = dict(C.onnx_inputs(_bytes_of(model))) if said else {}
    for name, dtype in said.items():
        own = ALL_DTYPES.get(_NAMES.get(types.get(name), types.get(name)))
        if own not in (None, dtype):
            raise ValueError(f"tv.onnx: input {name!r}: got dtype {dtype}, want {own}, the file's; "
                             "enabled_precisions is what lowers the precision")
    return {name: _dims(given) for name, given in inputs.items()}


def _bytes_of(model) -> bytes:
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            return file.read()
    return serialized(model)


def _dims(given):
    if not isinstance(given, Input):
        given = Input(given.shape if hasattr(given, "shape") else given)
    return given.dims


def constant(name, value) -> tuple:
    """A constant input as the importer takes it."""
    tensor = to_tensor(name, value)
    flat = tensor.flatten().tolist()
    dtype = str(tensor.dtype).removeprefix("torch.")
    ints, floats = ([], flat) if tensor.is_floating_point() else ([int(v) for v in flat], [])
    return dtype, list(tensor.shape), ints, floats


def weights_of(model, settings) -> dict[str, torch.Tensor]:
    """name → weight of an imported model, as engines hold it."""
    weights = {}
    for i, (name, dtype, shape) in enumerate(model.weights):
        data = model.weight_bytes(i)
        weight = (torch.frombuffer(data, dtype=DTYPES[dtype]).reshape(shape) if data
                  else torch.empty(shape, dtype=DTYPES[dtype]))
        weights[name] = held(weight, settings)
    return weights


def held(tensor: torch.Tensor, settings) -> torch.Tensor:
    """The array in the form that the engine takes."""
    if wider := _WIDER.get(tensor.dtype):
        return _converted(tensor, wider)
    narrowed = NARROWED.get(tensor.dtype) if settings.truncate_long_and_double else None
    return tensor.to(narrowed) if narrowed else tensor


def is_array(value) -> bool:
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def to_tensor(name, value) -> torch.Tensor:
    """A tensor of the array's memory where it can be."""
    if isinstance(value, torch.Tensor):
        return value
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic, int, float, list)):
        raise ValueError(f"tv.onnx: input {name!r}: got {type(value).__name__}, want an array")
    try:
        array = numpy.ascontiguousarray(value) if numpy.ndim(value) else numpy.array(value)
    except ValueError as error:  # lists of several lengths
        raise ValueError(f"tv.onnx: input {name!r}: {error}") from None
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(numpy.int16).copy()).view(torch.bfloat16)
    if array.dtype.name in SMALL_FLOATS:
        codes = torch.from_numpy(array.view(numpy.uint8).copy())
        return codes.view(SMALL_FLOATS[array.dtype.name])
    if not array.flags.writeable:
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError):
        raise ValueError(f"tv.onnx: input {name!r}: got an array of {array.dtype!r}, want numbers "
                         "of a type that torch has, in this machine's order of bytes") from None


def to_array(tensor: torch.Tensor):
    """The tensor as a NumPy array."""
    if tensor.dtype != torch.bfloat16 and tensor.dtype not in SMALL_FLOATS.values():
        return tensor.cpu().numpy()
    import ml_dtypes

    if tensor.dtype != torch.bfloat16:
        small = getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch."))
        return tensor.cpu().contiguous().view(torch.uint8).numpy().view(small)
    return tensor.cpu().contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def as_type(result: torch.Tensor, dtype: str) -> torch.Tensor:
    """What an engine gives as the type of the file: its codes as the numbers that they stand for,
    narrowed numbers wide again and widened ones narrow."""
    return _converted(result, ALL_DTYPES[dtype])


def _converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Between a type of the file and what holds it: of one size they are the same bits."""
    return tensor.view(dtype) if dtype.itemsize == tensor.element_size() else tensor.to(dtype)
