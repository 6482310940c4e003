"""A model that is one engine."""

import re

import torch

from .._base.calibration_use import warn_of_missing
from .._base.dumps import debug_directory
from .._base.errors import UnsupportedError
from .._base.progress import progress_for
from .._engines.engine import Engine
from .._native import C
from .files import ALL_DTYPES, SMALL_FLOATS, as_type, held, imported, to_tensor, weights_of

# ONNX Runtime's names; the rest as here.
_RUNTIME_TYPES = {name: name.replace("_", "") for name in SMALL_FLOATS} | {
    "float32": "float", "float64": "double", "float8_e8m0fnu": "float8e8m0"}


class Single:
    """Builds all of an imported model as one engine.

    Args:
        whole: a file to what runs calls that the engine does not take; None: they are errors.

    Attributes:
        inputs, outputs: (name, type, shape) in the file's order.
        engines: the engine.
        native: [].

    Raises:
        UnsupportedError: lists what is in the way.
    """

    def __init__(self, file, given: dict, settings, device: str, profile, whole=None):
        self._given, self._settings, self._profile = given, settings, profile
        self._compiler = settings.compiler_json(debug_directory(settings))
        model = imported(file, given, self._compiler)
        plan = C.plan(model.graph, self._compiler, profile, whole=True)
        if not plan.is_whole:
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
        self._whole_of = whole
        self._whole = whole(file) if whole else None
        engine = Engine(vke, device or None, weight_budget=settings.weight_budget)
        engine.set_weights({w["name"]: weights[w["name"]] for w in engine.info()["weights"]})
        self.inputs = [self._described(*binding) for binding in self._inputs]
        self.outputs = [self._described(*binding) for binding in self._outputs]
        self.engines, self.native = [engine], []

    def _described(self, name, dtype, shape):
        sizes = [size if isinstance(size, int) else self._size_text(size) for size in shape]
        return name, f"tensor({_RUNTIME_TYPES.get(dtype, dtype)})", sizes

    def _size_text(self, size) -> str:
        return re.sub(r"\bs(\d+)\b", lambda found: self._symbols[int(found[1])], str(size))

    def run(self, wanted, feed) -> list[torch.Tensor]:
        """The outputs `wanted`, as tensors."""
        given = {name: self._fed(name, dtype, feed) for name, dtype, _ in self._inputs}
        try:
            results = self.engines[0].run({k: held(v, self._settings) for k, v in given.items()})
        except (ValueError, UnsupportedError) as error:  # before anything has run
            if self._whole is None:
                raise
            return self._whole.run(wanted, given, str(error))
        types = {name: dtype for name, dtype, _ in self._outputs}
        return [as_type(results[name], types[name]) for name in wanted]

    def _fed(self, name, dtype, feed):
        tensor = to_tensor(name, feed[name])
        if tensor.dtype != ALL_DTYPES[dtype]:
            raise ValueError(f"tv.onnx: input {name!r}: got {tensor.dtype}, "
                             f"want {ALL_DTYPES[dtype]}")
        return tensor

    def refit(self, model) -> None:
        """Raises ValueError where the file is of another network."""
        new = imported(model, self._given, self._compiler)
        plan = C.plan(new.graph, self._compiler, self._profile, whole=True)
        if not plan.is_whole or plan.key() != self._key:
            raise ValueError(ANOTHER)
        wanted = [binding["name"] for binding in self.engines[0].info()["weights"]]
        weights = weights_of(new, self._settings)
        if missing := [name for name in wanted if name not in weights]:
            raise ValueError(f"tv.onnx: refit: the file has no weight {missing[0]!r}")
        self.engines[0].set_weights({name: weights[name] for name in wanted})
        self._whole = self._whole_of(model) if self._whole_of else None


ANOTHER = ("tv.onnx: refit: the file is of another network (operators, sizes or the constants that "
           "sizes depend on differ): compile it instead")


def _refusals(lines) -> str:
    count = len(lines)
    return "\n  ".join([f"[onnx] {count} node{'s'[:count > 1]} cannot run on this device:", *lines])
