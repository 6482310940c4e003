"""The backend that onnx.backend.test drives: torch_vulkan.onnx_backend.Backend."""

import sys

import numpy
import torch
from onnx.backend.base import Backend as OnnxBackend
from onnx.backend.base import BackendRep

from . import onnx as tv_onnx
from ._base.dtypes import DTYPES
from ._base.errors import UnsupportedError
from ._device.device_list import devices

# What an operand that sets shapes may be at most.
_MAX_ELEMENTS = 4096
_OLDEST = 7  # opset


class Rep(BackendRep):
    """A prepared model. Inputs that shapes depend on are constants of an engine: a run with other
    values of them builds another engine."""

    def __init__(self, model, settings):
        model = _of_known_opset(model)
        self._model, self._sessions = model, {}
        self._settings = {"fallback": "none", **settings}  # the tests are of engines
        defaults = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [value.name for value in model.graph.input if value.name not in defaults]
        try:
            self._sessions[()] = tv_onnx.compile(model, **self._settings)
        except UnsupportedError as error:
            self._refusal = error

    def run(self, inputs, **kwargs):
        """Runs the model; returns the outputs in order, as arrays.

        Raises:
            UnsupportedError: the model cannot be converted for these shapes and values.
        """
        feed = inputs if isinstance(inputs, dict) else dict(
            zip(self._inputs, inputs if isinstance(inputs, (list, tuple)) else [inputs],
                strict=False))
        session = self._sessions.get(()) or self._specialised(feed)
        names = {arg.name for arg in session.get_inputs()}
        return tuple(session.run(None, {name: feed[name] for name in feed if name in names}))

    def _specialised(self, feed):
        arrays = {name: numpy.asarray(value) for name, value in feed.items()
                  if isinstance(value, (numpy.ndarray, numpy.generic, int, float))}
        arrays = {name: value for name, value in arrays.items()
                  if value.size <= _MAX_ELEMENTS and value.dtype.name in DTYPES}

        def those(suit):
            return {name: value for name, value in arrays.items() if suit(value)}

        refusal = self._refusal
        # The fewest that will do: what may be axes or sizes, then scales, then all integers.
        for given in (those(lambda v: v.dtype.kind in "ib" and v.ndim <= 1),
                      those(lambda v: v.ndim <= 1 and v.size <= 64),
                      those(lambda v: v.dtype.kind in "ib")):
            key = tuple((name, value.tobytes(), value.shape) for name, value in given.items())
            if key not in self._sessions and given:
                try:
                    self._sessions[key] = tv_onnx.compile(self._model, constants=given,
                                                          **self._settings)
                except UnsupportedError as error:
                    refusal = error
            if key in self._sessions:
                return self._sessions[key]
        raise _as_skip(refusal)


def _of_known_opset(model):
    """A file older than the importer reads, converted by the onnx package; or as it is if that
    fails, for the importer to refuse."""
    old = any(o.domain in ("", "ai.onnx") and o.version < _OLDEST for o in model.opset_import)
    if not old:
        return model
    from onnx import version_converter

    try:
        return version_converter.convert_version(model, _OLDEST)
    except (RuntimeError, ValueError):
        return model


def _as_skip(refusal):
    """A refusal as an error that the runner of onnx.backend.test counts as a skipped case, if that
    is the caller."""
    runner = sys.modules.get("onnx.backend.test.runner")
    if runner is None:
        return refusal
    skip = runner.BackendIsNotSupposedToImplementIt
    return type("UnsupportedCase", (type(refusal), skip), {})(*refusal.args)


class Backend(OnnxBackend):
    """Compiles ONNX models with torch_vulkan. Devices: "CPU" (lavapipe, or the device that
    TORCH_VULKAN_DEVICE selects) and "CUDA"."""

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """Returns a Rep. Keyword arguments are settings and `fallback` ("none" where it is left
        out), except for the tolerances of onnx.backend.test."""
        return Rep(model, {name: value for name, value in kwargs.items()
                           if name not in ("rtol", "atol")})

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        """`prepare` and one run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def supports_device(cls, device):
        """Every device that Vulkan lists counts as "CPU"; "CUDA" needs one of NVIDIA's."""
        kind = device.split(":")[0].upper()
        if kind == "CUDA":
            return torch.cuda.is_available() and bool(devices())
        return kind == "CPU" and bool(devices())


prepare, run_model, supports_device = Backend.prepare, Backend.run_model, Backend.supports_device
