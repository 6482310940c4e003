"""Runs an ONNX model so that somebody sees what calibration observes."""

from collections.abc import Callable, Mapping

import torch

from .._base.errors import UnsupportedError
from .._base.settings import Settings
from .._device import device_list
from .._engines.engine import Engine
from .._native import C
from .files import imported, ranges, to_tensor, weights_of


class Observed:
    """A model as an engine whose results are the inputs of its products and convolutions.

    Args:
        model: a path, the bytes of a file, or a ModelProto.
        inputs: as tv.onnx.compile takes them.
        see: called with a name of the file's, a tensor, the dimension of its channels (-1: none,
            or several, as readers have it) and whether a product reads it.

    Raises:
        UnsupportedError: a node that no engine takes is in the way of them.
    """

    def __init__(self, model, inputs, see: Callable[[str, torch.Tensor, int, bool], None]):
        self._see = see
        settings = Settings(optimization_level=0, min_block_size=1)
        compiler = settings.compiler_json()
        source = imported(model, {"inputs": ranges(model, inputs), "constants": {}})
        self.inputs = [name for name, _, _ in source.inputs]
        self._points: dict[str, tuple[int, bool]] = C.observed_channels(source.graph, compiler)
        self._engine = None
        if self._points.keys() <= {*self.inputs}:
            return
        device = device_list.spec_for(None, torch.device("cpu"))
        plan = C.plan(C.observed_by_calibration(source.graph, compiler), compiler,
                      C.device_profile(device), whole=True)
        if not plan.is_whole:
            raise UnsupportedError("\n  ".join(["tv.calibrate: no engine takes:", *plan.refusals]))
        weights = weights_of(source, settings)
        self._engine = Engine(C.build(plan, 0, None, settings.cache_json()), device or None)
        self._engine.set_weights({w["name"]: weights[w["name"]]
                                  for w in self._engine.info()["weights"]})

    def __call__(self, feed: Mapping[str, object]) -> None:
        """Runs on arrays or tensors by name. Raises ValueError for one that is missing."""
        missing = [name for name in self.inputs if name not in feed]
        if missing:
            raise ValueError(f"tv.calibrate: a batch has no input {missing[0]!r}; it has "
                             f"{sorted(feed)}")
        given = {name: to_tensor(name, feed[name]) for name in self.inputs}
        for name in self.inputs:
            if name in self._points:
                self._see(name, given[name], *self._points[name])
        if self._engine is not None:
            for name, tensor in self._engine.run(given).items():
                self._see(name, tensor, *self._points[name])
