"""tv.onnx: each ONNX file becomes one engine, called like an ONNX Runtime session."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from . import device_list
from ._base.dumps import debug_directory
from ._base.progress import progress_for
from ._fx.schema import NARROWED
from ._native import C
from ._onnx.binding import IOBinding, SessionOptions, check_options  # noqa: F401
from .backend import device_profile
from .engine import DTYPES, Engine, numpy
from .errors import UnsupportedError
from .inputs import Input
from .settings import Settings

_RUNTIME_TYPES = {"float32": "float", "float64": "double"}  # ONNX Runtime's names; the rest as here


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a model, as in ONNX Runtime.

    Attributes:
        name: in the file.
        type: "tensor(float)".
        shape: sizes in elements; a dynamic one is a name, or an expression over names.
    """

    name: str
    type: str
    shape: list


class Model:
    """A compiled ONNX model. Several threads may call it at the same time.

    Attributes:
        engine: the engine, for `info`, `profile` and `save`.
    """

    def __init__(self, imported, given: dict, settings: Settings):
        device = device_list.spec_for(settings.device, torch.device("cpu"))
        profile = device_profile(device)
        compiler = settings.compiler_json(debug_directory(settings))
        plan = C.plan(imported.graph, compiler, profile, whole=True)
        if plan.refusals:
            raise UnsupportedError(_refusals(plan.refusals))
        self._given, self._settings, self._compiler = given, settings, compiler
        self._profile = profile
        weights = _weights_of(imported, settings)
        keyed = settings.keyed_by(weights.values())
        progress = progress_for("onnx", settings.progress)
        vke = C.build(plan, 0, progress, keyed.cache_json())
        if progress:
            progress.close()
        self._key = plan.key()
        self._inputs, self._outputs = imported.inputs, imported.outputs
        self._symbols = imported.symbols
        self.engine = Engine(vke, device or None)
        self.engine.set_weights({w["name"]: weights[w["name"]]
                                 for w in self.engine.info()["weights"]})

    def __repr__(self):
        def text(args):
            return ", ".join(f"{a.name}: {a.type}{a.shape}" for a in args)

        return f"Model({text(self.get_inputs())} -> {text(self.get_outputs())})"

    def get_inputs(self) -> list[NodeArg]:
        """The inputs of `run`, in the file's order."""
        return [self._node_arg(*binding) for binding in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs of `run`, in the file's order."""
        return [self._node_arg(*binding) for binding in self._outputs]

    def _node_arg(self, name, dtype, shape) -> NodeArg:
        sizes = [size if isinstance(size, int) else self._size_text(size) for size in shape]
        return NodeArg(name, f"tensor({_RUNTIME_TYPES.get(dtype, dtype)})", sizes)

    def _size_text(self, size) -> str:
        text = str(size)
        for i in reversed(range(len(self._symbols))):
            text = text.replace(f"s{i}", self._symbols[i])
        return text

    def run(self, output_names: Sequence[str] | None, feed: Mapping[str, object],
            run_options: object = None) -> list:
        """Runs the model.

        Args:
            output_names: the outputs to return; None: all.
            feed: name → NumPy array or tensor.

        Returns:
            A list of arrays, or of tensors if tensors were given.

        Raises:
            ValueError: an input is missing or unknown, a dtype or shape does not fit, or an output
                is unknown.
        """
        known = [name for name, _, _ in self._outputs]
        wanted = known if output_names is None else list(output_names)
        for name in wanted:
            if name not in known:
                raise ValueError(f"tv.onnx: no output {name!r}; got outputs {known}")
        names = [name for name, _, _ in self._inputs]
        for name in feed:
            if name not in names:
                raise ValueError(f"tv.onnx: no input {name!r}; got inputs {names}")
        arrays = any(numpy is not None and isinstance(v, (numpy.ndarray, numpy.generic))
                     for v in feed.values()) or not feed
        given = {name: self._fed(name, dtype, feed) for name, dtype, _ in self._inputs}
        results = self.engine.run(given)
        return [self._result(name, results[name], arrays) for name in wanted]

    def io_binding(self) -> IOBinding:
        """An object that binds inputs and outputs to memory, for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: object = None) -> None:
        """Runs on bound inputs, into bound outputs. Raises ValueError as `run` does."""
        iobinding._run()

    def __call__(self, *args, **kwargs):
        """Runs on arrays or tensors, in order or by name; returns an output, or a tuple of them."""
        names = [name for name, _, _ in self._inputs]
        if len(args) > len(names):
            raise ValueError(f"tv.onnx: got {len(args)} inputs, want {len(names)}")
        results = self.run(None, {**dict(zip(names, args, strict=False)), **kwargs})
        return results[0] if len(results) == 1 else tuple(results)

    def _fed(self, name, dtype, feed):
        if name not in feed:
            raise ValueError(f"tv.onnx: input {name!r} is missing; got {sorted(feed)}")
        tensor = _to_tensor(name, feed[name])
        if tensor.dtype != DTYPES[dtype]:
            raise ValueError(f"tv.onnx: input {name!r}: got {tensor.dtype}, want {DTYPES[dtype]}")
        return _held(tensor, self._settings)

    def _result(self, name, tensor, as_array):
        dtype = next(DTYPES[dtype] for known, dtype, _ in self._outputs if known == name)
        tensor = tensor.to(dtype)
        return _to_array(tensor) if as_array else tensor

    def refit(self, model) -> None:
        """Replaces the weights by those of another file (or bytes, or ModelProto) of the same
        network, without a rebuild. After an error nothing has changed.

        Raises:
            ValueError: the file is of another network (it differs in operators, sizes, names of
                weights, or constants that shapes depend on), or the model has immutable weights.
        """
        if self._settings.immutable_weights:
            raise ValueError("tv.onnx: refit: the model was compiled with immutable_weights=True; "
                             "compile it without that setting")
        imported = _import(model, self._given)
        plan = C.plan(imported.graph, self._compiler, self._profile, whole=True)
        if plan.refusals or plan.key() != self._key:
            raise ValueError("tv.onnx: refit: the file is of another network (operators, sizes or "
                             "the constants that sizes depend on differ): compile it instead")
        wanted = [binding["name"] for binding in self.engine.info()["weights"]]
        weights = _weights_of(imported, self._settings)
        if missing := [name for name in wanted if name not in weights]:
            raise ValueError(f"tv.onnx: refit: the file has no weight {missing[0]!r}")
        self.engine.set_weights({name: weights[name] for name in wanted})


def compile(model, inputs=None, constants=None, *, sess_options=None, **settings) -> Model:
    """Compiles an ONNX model as one engine.

    Args:
        model: a path, the bytes of a file, or an onnx.ModelProto.
        inputs: shapes, as a list in the file's order or a dict by name, of `tv.Input`, tensors,
            arrays or shapes. None, or an input that is left out: the file's own shape, with dynamic
            sizes of 1 or more.
        constants: name → array of inputs whose value is fixed now, because shapes depend on it.
        sess_options: a `tv.onnx.SessionOptions`, or ONNX Runtime's. Options for threads, memory and
            graph optimisation have no effect, and one warning says so; profiling is refused.
        settings: docs/settings.md. There is no native fallback, so settings of partitioning have no
            effect.

    Raises:
        ValueError: the file is invalid, an input does not fit it, or a setting is invalid.
        UnsupportedError: lists everything that cannot be converted, before anything is built.
        DeviceError: there is no Vulkan device.
    """
    check_options(sess_options)
    checked = Settings.from_options({**settings, "require_full_compilation": True})
    if checked.enable_autocast:
        raise ValueError("tv.onnx.compile: enable_autocast is for PyTorch models; "
                         "enabled_precisions={torch.float32, torch.float16} stores all in 16 bits")
    given = {"inputs": _ranges(model, inputs),
             "constants": {k: _constant(k, value) for k, value in (constants or {}).items()}}
    return Model(_import(model, given), given, checked)


def supported_ops() -> list[str]:
    """Names of the ai.onnx operators that have a translation."""
    return C.onnx_operators()


def _import(model, given):
    given = {**given, "directory": ""}
    if isinstance(model, (str, os.PathLike)):
        return C.import_onnx(os.fspath(model), given)
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise ValueError(f"tv.onnx: got {type(model).__name__}, want a path, bytes or a ModelProto")
    return C.import_onnx_bytes(bytes(model), given)


def _ranges(model, inputs) -> dict:
    """name → (min, opt, max) of each dimension."""
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        names = C.onnx_inputs(_bytes_of(model))
        if isinstance(inputs, (str, bytes)) or len(inputs) > len(names):
            raise ValueError(f"tv.onnx: inputs: got {len(inputs)}, want at most {len(names)} "
                             f"({', '.join(names)})")
        inputs = {getattr(given, "name", None) or name: given
                  for name, given in zip(names, inputs, strict=False)}
    return {name: _dims(given) for name, given in inputs.items()}


def _bytes_of(model) -> bytes:
    if isinstance(model, (str, os.PathLike)):
        with open(model, "rb") as file:
            return file.read()
    return model.SerializeToString() if hasattr(model, "SerializeToString") else bytes(model)


def _dims(given):
    if not isinstance(given, Input):
        given = Input(given.shape if hasattr(given, "shape") else given)
    return given.dims


def _constant(name, value) -> tuple:
    tensor = _to_tensor(name, value)
    flat = tensor.flatten().tolist()
    dtype = str(tensor.dtype).removeprefix("torch.")
    ints, floats = ([], flat) if tensor.is_floating_point() else ([int(v) for v in flat], [])
    return dtype, list(tensor.shape), ints, floats


def _weights_of(imported, settings) -> dict[str, torch.Tensor]:
    weights = {}
    for i, (name, dtype, shape) in enumerate(imported.weights):
        data = imported.weight_bytes(i)
        weight = (torch.frombuffer(data, dtype=DTYPES[dtype]).reshape(shape) if data
                  else torch.empty(shape, dtype=DTYPES[dtype]))
        weights[name] = _held(weight, settings)
    return weights


def _held(tensor: torch.Tensor, settings) -> torch.Tensor:
    """The array in the form that the engine takes."""
    narrowed = NARROWED.get(tensor.dtype) if settings.truncate_long_and_double else None
    return tensor.to(narrowed) if narrowed else tensor


def _to_tensor(name, value) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic, int, float, list)):
        raise ValueError(f"tv.onnx: input {name!r}: got {type(value).__name__}, want an array")
    array = numpy.ascontiguousarray(value) if numpy.ndim(value) else numpy.array(value)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(numpy.int16).copy()).view(torch.bfloat16)
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array)


def _to_array(tensor: torch.Tensor):
    if tensor.dtype != torch.bfloat16:
        return tensor.cpu().numpy()
    import ml_dtypes

    return tensor.cpu().contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def _refusals(lines) -> str:
    count = len(lines)
    return "\n  ".join([f"[onnx] {count} node{'s'[:count > 1]} cannot run on this device:", *lines])
