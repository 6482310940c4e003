"""A model that is one engine."""

import torch

from .._base.calibration_use import warn_of_missing
from .._base.dumps import debug_directory
from .._base.progress import progress_for
from .._native import C
from ..engine import Engine
from ..errors import UnsupportedError
from .files import ALL_DTYPES, SMALL_FLOATS, as_type, held, imported, to_tensor, weights_of

# ONNX Runtime's names; the rest as here.
_RUNTIME_TYPES = {name: name.replace("_", "") for name in SMALL_FLOATS} | {
    "float32": "float", "float64": "double", "float8_e8m0fnu": "float8e8m0"}


class Single:
    """Builds all of an imported model as one engine.

    Attributes:
        inputs, outputs: (name, type, shape) in the file's order.
        engines: the engine.
        native: [].

    Raises:
        UnsupportedError: lists what is in the way.
    """

    def __init__(self, model, given: dict, settings, device: str, profile):
        self._given, self._settings, self._profile = given, settings, profile
        self._compiler = settings.compiler_json(debug_directory(settings))
        plan = C.plan(model.graph, self._compiler, profile, whole=True)
        if plan.refusals:
            raise UnsupportedError(_refusals(plan.refusals))
        warn_of_missing(plan.calibration)
        weights = weights_of(model, settings)
        progress = progress_for("onnx", settings.progress)
        vke = C.build(plan, 0, progress, settings.keyed_by(weights.values()).cache_json())
        if progress:
            progress.close()
        self._key = plan.key()
        self._inputs, self._outputs = model.inputs, model.outputs
        self._symbols = model.symbols
        engine = Engine(vke, device or None)
        engine.set_weights({w["name"]: weights[w["name"]] for w in engine.info()["weights"]})
        self.inputs = [self._described(*binding) for binding in self._inputs]
        self.outputs = [self._described(*binding) for binding in self._outputs]
        self.engines, self.native = [engine], []

    def _described(self, name, dtype, shape):
        sizes = [size if isinstance(size, int) else self._size_text(size) for size in shape]
        return name, f"tensor({_RUNTIME_TYPES.get(dtype, dtype)})", sizes

    def _size_text(self, size) -> str:
        text = str(size)
        for i in reversed(range(len(self._symbols))):
            text = text.replace(f"s{i}", self._symbols[i])
        return text

    def run(self, wanted, feed) -> list[torch.Tensor]:
        """The outputs `wanted`, as tensors."""
        given = {name: self._fed(name, dtype, feed) for name, dtype, _ in self._inputs}
        results = self.engines[0].run(given)
        types = {name: dtype for name, dtype, _ in self._outputs}
        return [as_type(results[name], types[name]) for name in wanted]

    def _fed(self, name, dtype, feed):
        tensor = to_tensor(name, feed[name])
        if tensor.dtype != ALL_DTYPES[dtype]:
            raise ValueError(f"tv.onnx: input {name!r}: got {tensor.dtype}, "
                             f"want {ALL_DTYPES[dtype]}")
        return held(tensor, self._settings)

    def refit(self, model) -> None:
        """Raises ValueError where the file is of another network."""
        new = imported(model, self._given)
        plan = C.plan(new.graph, self._compiler, self._profile, whole=True)
        if plan.refusals or plan.key() != self._key:
            raise ValueError(ANOTHER)
        wanted = [binding["name"] for binding in self.engines[0].info()["weights"]]
        weights = weights_of(new, self._settings)
        if missing := [name for name in wanted if name not in weights]:
            raise ValueError(f"tv.onnx: refit: the file has no weight {missing[0]!r}")
        self.engines[0].set_weights({name: weights[name] for name in wanted})


ANOTHER = ("tv.onnx: refit: the file is of another network (operators, sizes or the constants that "
           "sizes depend on differ): compile it instead")


def _refusals(lines) -> str:
    count = len(lines)
    return "\n  ".join([f"[onnx] {count} node{'s'[:count > 1]} cannot run on this device:", *lines])
