"""Stand-alone engines: a .vke file, run on tensors or arrays."""

import ctypes
import os
from collections.abc import Mapping, Sequence

import torch

from ._native import C

try:
    import numpy
except ImportError:  # torch itself can do without
    numpy = None

DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool)}


class Engine:
    """An engine that is loaded on a device.

    Args:
        vke: the bytes of a .vke file. Load trusted files only: an engine is code.
        device: index, part of a name or UUID; None: the best device.
    """

    def __init__(self, vke: bytes, device: int | str | None = None):
        self._vke = bytes(vke)
        self._engine = C.load_engine(self._vke, "" if device is None else str(device))
        self._info = self._engine.info()
        self._weights = None
        stored = C.vke_weights(self._vke)
        if stored or not self._info["weights"]:
            self._set_weights([torch.frombuffer(bytearray(data), dtype=torch.uint8)
                               if data else torch.empty(0, dtype=torch.uint8) for data in stored])

    @classmethod
    def load(cls, path: str | os.PathLike, device: int | str | None = None) -> "Engine":
        """Reads a .vke file. Raises ValueError where it is not one, or is damaged."""
        with open(path, "rb") as file:
            data = file.read()
        try:
            return cls(data, device)
        except ValueError as error:
            raise ValueError(f"{error} (in {os.fspath(path)})") from None

    @property
    def name(self) -> str:
        return self._info["name"]

    def info(self) -> dict:
        """Bindings, layers and tactics; can be written as JSON."""
        def plain(value):
            if isinstance(value, dict):
                return {key: plain(item) for key, item in value.items()}
            if isinstance(value, list):
                return [plain(item) for item in value]
            return str(value) if isinstance(value, C.Expr) else value

        return plain(self._info)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the .vke file, with the weights where they are set."""
        data = self._vke
        if self._weights is not None and self._info["weights"]:
            data = C.vke_with_weights(data, [_address(t) for t in self._weights[0]])
        with open(path, "wb") as file:
            file.write(data)

    def set_weights(self, weights: Mapping[str, object] | Sequence[object]) -> None:
        """Weights by name, or in the order of `info()["weights"]`; they are copied."""
        bindings = self._info["weights"]
        if isinstance(weights, Mapping):
            weights = [_named(weights, binding["name"], "weight") for binding in bindings]
        if len(weights) != len(bindings):
            raise ValueError(f"weights: got {len(weights)}, want {len(bindings)}")
        tensors = [_tensor(w, binding).clone() for w, binding in zip(weights, bindings)]
        for tensor, binding in zip(tensors, bindings):
            if list(tensor.shape) != binding["shape"]:
                raise ValueError(f"weight {binding['name']!r}: got shape {list(tensor.shape)}, "
                                 f"want {binding['shape']}")
        self._set_weights(tensors)

    def _set_weights(self, tensors):
        prepared = self._engine.prepare_weights([_address(t) for t in tensors])
        self._weights = (tensors, prepared)  # the set may read the tensors' memory

    def run(self, inputs: Mapping[str, object] | Sequence[object]) -> dict[str, object]:
        """Runs on tensors or numpy arrays, by name or in order; returns the same kind by name.

        Raises:
            ValueError: an input is missing, or its dtype or shape does not fit.
        """
        bindings = self._info["inputs"]
        if self._weights is None:
            raise ValueError(f"engine {self.name!r} was saved without its weights; call "
                             "set_weights first")
        if isinstance(inputs, Mapping):
            inputs = [_named(inputs, binding["name"], "input") for binding in bindings]
        if len(inputs) != len(bindings):
            raise ValueError(f"inputs: got {len(inputs)}, want {len(bindings)}")
        arrays = any(_is_array(value) for value in inputs)
        tensors = [_tensor(v, binding) for v, binding in zip(inputs, bindings)]
        symbols = self._engine.bind_shapes([list(t.shape) for t in tensors])
        outputs = {}
        for binding in self._info["outputs"]:
            shape, strides = ([_value(d, symbols) for d in binding[key]]
                              for key in ("shape", "strides"))
            outputs[binding["name"]] = torch.empty_strided(shape, strides,
                                                           dtype=DTYPES[binding["dtype"]])
        self._engine.run(self._weights[1], symbols, [_address(t) for t in tensors],
                         [_address(t) for t in outputs.values()])
        return {name: t.numpy() if arrays else t for name, t in outputs.items()}


def _is_array(value) -> bool:
    return numpy is not None and isinstance(value, numpy.ndarray)


def _named(mapping, name, what):
    if name not in mapping:
        raise ValueError(f"{what} {name!r} is missing; got {sorted(mapping)}")
    return mapping[name]


def _value(dim, symbols) -> int:
    return dim if isinstance(dim, int) else dim.eval(symbols)


def _tensor(value, binding) -> torch.Tensor:
    tensor = torch.from_numpy(value) if _is_array(value) else value
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{binding['name']!r}: got {type(value).__name__}, want a tensor or array")
    if tensor.dtype != DTYPES[binding["dtype"]]:
        raise ValueError(f"{binding['name']!r}: got {tensor.dtype}, want {binding['dtype']}")
    tensor = tensor.detach().resolve_neg().cpu().contiguous()
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The bytes of a contiguous CPU tensor."""
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes) if tensor.numel() else b""


def _address(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.nbytes
