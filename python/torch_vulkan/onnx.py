"""tv.onnx: ONNX files as engines, called like an ONNX Runtime session. What no engine takes runs in
ONNX Runtime's CPU provider."""

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ._base.dtypes import DTYPES
from ._base.errors import UnsupportedError
from ._base.settings import Settings
from ._device import device_list
from ._dynamo.backend import device_profile
from ._engines.engine import Engine
from ._native import C
from ._onnx.binding import IOBinding, SessionOptions, check_options  # noqa: F401
from ._onnx.files import constant, is_array, ranges, to_array, to_tensor
from ._onnx.single import Single

__all__ = [
    "FALLBACKS", "IOBinding", "Model", "NodeArg", "SessionOptions", "compile", "supported_ops",
]

def __dir__() -> list[str]:
    return sorted(__all__)


FALLBACKS = ("onnxruntime", "none")
# Settings of what is exact: the model's own types, and nothing is tuned.
EXACT = {"optimization_level": 0, "min_block_size": 1}


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
    """A compiled ONNX model. Several threads may call it at the same time."""

    def __init__(self, body, build):
        """`build`: (model, name → constant) to what runs it."""
        self._body, self._build = body, build

    def __repr__(self):
        def text(args):
            return ", ".join(f"{a.name}: {a.type}{a.shape}" for a in args)

        return f"Model({text(self.get_inputs())} -> {text(self.get_outputs())})"

    def compiled_again(self, model) -> "Model":
        """Another model, compiled as this one was."""
        return Model(self._build(model), self._build)

    def compiled_exactly(self, model) -> "Model":
        """Another model, compiled for the same inputs without a lower precision."""
        plain = Settings.from_options({**EXACT, "device": self._build.settings.device})
        build = dataclasses.replace(self._build, settings=plain)
        return Model(build(model), build)

    @property
    def engines(self) -> list[Engine]:
        """The engines, in the order in which they run. Of a model with inputs that set shapes,
        those that calls have built until now."""
        return list(self._body.engines)

    @property
    def engine(self) -> Engine:
        """The engine of a model that is one, for `info`, `profile` and `save`. Raises ValueError
        for a model that runs natively in part."""
        if not isinstance(self._body, Single):
            raise ValueError("tv.onnx: the model runs natively in part; `engines` has its engines, "
                             "`native` says what is in the way of one")
        return self._body.engines[0]

    @property
    def native(self) -> list[tuple[str, str, str]]:
        """(node, operator, reason) of what runs natively."""
        return list(self._body.native)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs of `run`, in the file's order."""
        return [NodeArg(*described) for described in self._body.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs of `run`, in the file's order."""
        return [NodeArg(*described) for described in self._body.outputs]

    def get_providers(self) -> list[str]:
        """What runs the model, by ONNX Runtime's names: engines first."""
        native = ["CPUExecutionProvider"] if self._body.native else []
        return ["VulkanExecutionProvider", *native]

    def run(self, output_names: Sequence[str] | None, feed: Mapping[str, object],
            run_options: object = None) -> list:
        """Runs the model.

        Args:
            output_names: the outputs to return; None: all.
            feed: name → NumPy array or tensor; a list for a sequence.

        Returns:
            A list of arrays, or of tensors if tensors were given.

        Raises:
            ValueError: an input is missing or unknown, a dtype or shape does not fit, or an output
                is unknown.
        """
        known = [name for name, _, _ in self._body.outputs]
        wanted = known if output_names is None else list(output_names)
        for name in wanted:
            if name not in known:
                raise ValueError(f"tv.onnx: no output {name!r}; got outputs {known}")
        names = [name for name, _, _ in self._body.inputs]
        for name in feed:
            if name not in names:
                raise ValueError(f"tv.onnx: no input {name!r}; got inputs {names}")
        for name in names:
            if name not in feed:
                raise ValueError(f"tv.onnx: input {name!r} is missing; got {sorted(feed)}")
        arrays = any(map(is_array, feed.values())) or not any(
            isinstance(value, torch.Tensor) for value in feed.values())
        return [_as_array(result) if arrays else _as_tensor(result)
                for result in self._body.run(wanted, feed)]

    def run_with_ort_values(self, output_names: Sequence[str] | None, feed: Mapping[str, object],
                            run_options: object = None) -> list:
        """As `run`, of ONNX Runtime's OrtValues in the host's memory, to new ones. Raises
        ValueError as it does."""
        from ._onnx.values import from_runtime, to_runtime  # only here: they need onnxruntime

        given = {name: from_runtime(value) for name, value in feed.items()}
        return [to_runtime(array) for array in self.run(output_names, given)]

    def io_binding(self) -> IOBinding:
        """An object that binds inputs and outputs to memory, for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: object = None) -> None:
        """Runs on bound inputs, into bound outputs. Raises ValueError as `run` does."""
        iobinding._run()

    def __call__(self, *args, **kwargs):
        """Runs on arrays or tensors, in order or by name; returns an output, or a tuple of them."""
        names = [name for name, _, _ in self._body.inputs]
        if len(args) > len(names):
            raise ValueError(f"tv.onnx: got {len(args)} inputs, want {len(names)}")
        results = self.run(None, {**dict(zip(names, args, strict=False)), **kwargs})
        return results[0] if len(results) == 1 else tuple(results)

    def refit(self, model) -> None:
        """Replaces the weights by those of another file (or bytes, or ModelProto) of the same
        network, without a rebuild. After an error nothing has changed. A model that runs natively
        in part must not be called at the same time.

        Raises:
            ValueError: the file is of another network (it differs in operators, sizes, names of
                weights, or constants that shapes depend on), or the model has immutable weights.
        """
        if self._build.settings.immutable_weights:
            raise ValueError("tv.onnx: refit: the model was compiled with immutable_weights=True; "
                             "compile it without that setting")
        self._body.refit(self._build.prepared(model))


@dataclass
class _Build:
    """What a file becomes: one engine, engines and native parts in turn, or such for each value of
    inputs that set shapes."""

    given: dict  # ranges of inputs
    constants: dict
    settings: Settings
    native: bool  # whether ONNX Runtime runs the rest
    most: int  # values of inputs that set shapes
    simplify: bool = False
    one_engine: str = ""  # why nothing but one engine will do; "": other forms will

    def prepared(self, model):
        """The model as it is compiled."""
        if not self.simplify:
            return model
        from ._onnx.simplify import simplified  # only here: it needs the package onnx

        return simplified(model)

    def __call__(self, model):
        device = device_list.spec_for(self.settings.device, torch.device("cpu"))
        profile = device_profile(device)
        if not self.native or all(map(_fits, self.constants.values())):
            given = {"inputs": self.given,
                     "constants": {k: constant(k, v) for k, v in self.constants.items()}}
            try:
                whole = self.settings.replaced(require_full_compilation=True)
                return Single(model, given, whole, device, profile,
                              self._whole if self.native else None)
            except UnsupportedError as error:
                if self.one_engine:
                    raise UnsupportedError(f"{self.one_engine}: {error}") from error
                if not self.native:
                    raise
        return self._divided(model, device, profile)

    def _whole(self, model):
        """What runs calls that an engine does not take."""
        from ._onnx.whole import Whole, source_of

        return Whole(source_of(model, self.constants), self.given)

    def _divided(self, model, device, profile):
        # Only here: they need the packages onnx and onnxruntime.
        from ._onnx import by_value, division, mixed
        from ._onnx.native import Source

        def planned(file):
            source = Source(file, {k: _array(v) for k, v in self.constants.items()})
            ranged = {k: v for k, v in self.given.items() if k not in self.constants}
            return division.Division(source, {"inputs": ranged}, self.settings, profile)

        first = planned(model)
        names = first.model.shape_inputs
        if not names or self.most == 0:
            return mixed.Mixed(first, planned, device)

        def build(file, values):
            if not values:
                return mixed.Mixed(planned(file), planned, device)
            return dataclasses.replace(self, constants={**self.constants, **values})(file)

        return by_value.ByValue(model, names, mixed.described(first.source), build, self.most)


def compile(model, inputs=None, constants=None, *, sess_options=None, fallback=None,
            max_shape_values: int = 8, simplify: bool = False, **settings) -> Model:
    """Compiles an ONNX model: as one engine where it can be, else as engines and native parts.

    Args:
        model: a path, the bytes of a file, or an onnx.ModelProto.
        inputs: shapes, as a list in the file's order or a dict by name, of `tv.Input`, tensors,
            arrays or shapes. None, or an input that is left out: the file's own shape, with dynamic
            sizes of 1 or more.
        constants: name → array of inputs whose value is fixed now.
        sess_options: a `tv.onnx.SessionOptions`, or ONNX Runtime's. Options for threads, memory and
            graph optimisation have no effect, and one warning says so; profiling is refused.
        fallback: what runs nodes that no engine takes: "onnxruntime", its CPU provider, or "none":
            such a model is refused. None: "onnxruntime" where it and the onnx package are
            installed.
        max_shape_values: of a model with inputs that set shapes (`axes`, `shape`, `k`), for how
            many of their values engines are built, when they first come. With others, the nodes
            that read them run natively.
        simplify: whether the package onnxslim rewrites the model first. Engines do not need it.
        settings: docs/settings.md. `require_full_compilation` is as fallback="none". Without a
            fallback, settings of partitioning have no effect.

    Raises:
        ValueError: the file is invalid, an input does not fit it, or a setting is invalid.
        UnsupportedError: lists everything that cannot be converted, before anything is built.
        DeviceError: there is no Vulkan device.
    """
    build = _checked(model, inputs, constants, sess_options, fallback, max_shape_values, simplify,
                     settings)
    return Model(build(build.prepared(model)), build)


def compile_one_engine(model, inputs, reason: str, **settings) -> Model:
    """`compile`, of a model that has to be one engine for a reason; raises UnsupportedError, which
    tells it, before anything is built."""
    build = dataclasses.replace(_checked(model, inputs, settings=settings), one_engine=reason)
    return Model(build(model), build)


def _checked(model, inputs, constants=None, sess_options=None, fallback=None, max_shape_values=8,
             simplify=False, settings=None) -> _Build:
    check_options(sess_options)
    checked = Settings.from_options(settings, of_file=True, taken_by=compile)
    checked.refuse_background_tuning("tv.onnx.compile", "the engines of a file are built at once")
    if checked.enable_autocast:
        raise ValueError("tv.onnx.compile: enable_autocast is for PyTorch models; "
                         "enabled_precisions={torch.float32, torch.float16} stores all in 16 bits")
    if not isinstance(max_shape_values, int) or max_shape_values < 0:
        raise ValueError(f"tv.onnx: max_shape_values: got {max_shape_values!r}, want an integer "
                         "from 0 up")
    native = has_fallback(fallback) and not checked.require_full_compilation
    if simplify:
        _check_simplify()
    return _Build(ranges(model, inputs), dict(constants or {}), checked, native, max_shape_values,
                  simplify)


def has_fallback(fallback: str | None) -> bool:
    """Whether ONNX Runtime runs what no engine takes. Raises ValueError for an unknown fallback,
    and for one that is not installed."""
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if fallback is None:
        return not missing
    if fallback not in FALLBACKS:
        raise ValueError(f"tv.onnx: fallback: got {fallback!r}, want "
                         f"{' or '.join(map(repr, FALLBACKS))}")
    if fallback == "onnxruntime" and missing:
        raise ValueError(f"tv.onnx: fallback='onnxruntime' needs the package "
                         f"{' and '.join(missing)}: pip install torch-vulkan[onnx]")
    return fallback == "onnxruntime"


def _check_simplify() -> None:
    missing = [name for name in ("onnx", "onnxslim") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"tv.onnx: simplify=True needs the package {' and '.join(missing)}: pip "
                         "install onnxslim. Engines do not need it: constants are folded, and what "
                         "nothing reads is left out, when they are built")


def supported_ops() -> list[str]:
    """Names of the ai.onnx operators that have a translation."""
    return C.onnx_operators()


def _array(value):
    return to_array(to_tensor("", value)) if not is_array(value) else value


def _fits(value) -> bool:
    """Whether the importer takes the array as a constant."""
    return not is_array(value) or value.dtype.name in DTYPES


def _as_array(result):
    return to_array(result) if isinstance(result, torch.Tensor) else result


def _as_tensor(result):
    if not is_array(result):
        return result
    from ._onnx.mixed import as_tensor

    return as_tensor(result)
