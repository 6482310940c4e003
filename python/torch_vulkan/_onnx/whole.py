"""All of a model natively, for calls that its engines do not take."""

import os
import threading
import warnings
from collections.abc import Callable

from .files import is_array, serialized, to_array, to_tensor
from .values import to_value


class Whole:
    """Opened by the first such call.

    Args:
        source: gives the model's Source.
        ranges: name → (min, opt, max) of each dimension that the caller of tv.onnx.compile gave:
            sizes beyond them are errors.
    """

    def __init__(self, source: Callable, ranges: dict):
        self._source, self._ranges = source, ranges
        self._lock, self._part, self._warned = threading.Lock(), None, False

    def run(self, wanted, feed: dict, unfit: str) -> list:
        """The outputs `wanted`; `unfit` says why engines do not take the call. Warns once.

        Raises:
            ValueError: the model takes no such call either.
        """
        part = self.part()
        self._check_sizes(part.source, feed, unfit)
        given = {name: to_value(feed[name]) for name in part.inputs}
        try:
            results = part.run(given)
        except ValueError as error:
            native = str(error).removeprefix("tv.onnx: ")
            raise ValueError(f"tv.onnx: {unfit}; natively: {native}") from error
        if not self._warned:
            self._warned = True
            warnings.warn(f"torch_vulkan: a call runs natively as a whole: {unfit}", stacklevel=5)
        return [results[name] for name in wanted]

    def part(self):
        """The model as a Part."""
        from .native import Part  # only here: it needs the onnx package

        with self._lock:
            if self._part is None:
                source = self._source()
                self._part = Part(source, range(len(source.nodes)),
                                  [value.name for value in source.inputs],
                                  [value.name for value in source.proto.graph.output])
            return self._part

    def _check_sizes(self, source, feed, unfit) -> None:
        """Raises ValueError for sizes that the file, or the caller's ranges, do not permit."""
        for value in source.inputs:
            if not value.type.tensor_type.HasField("shape") or not hasattr(feed[value.name],
                                                                           "shape"):
                continue
            sizes = [*feed[value.name].shape]
            dims = [(dim.dim_value, dim.dim_value) if dim.HasField("dim_value") else (0, None)
                    for dim in value.type.tensor_type.shape.dim]
            if value.name in self._ranges:
                dims = [(low, high) for low, _, high in self._ranges[value.name]]
            if len(sizes) != len(dims) or any(
                    size < low or (high is not None and size > high)
                    for size, (low, high) in zip(sizes, dims, strict=True)):
                raise ValueError(unfit if unfit.startswith("[") else f"tv.onnx: {unfit}")


def source_of(model, constants: dict) -> Callable:
    """A function that reads the model again: it keeps the path of a file, and a copy of what may
    change in memory.

    Raises:
        ValueError (the function): the file has changed since.
    """
    is_path = isinstance(model, (str, os.PathLike))
    known = _state(model) if is_path else None
    kept = os.path.abspath(model) if is_path else serialized(model)

    def read():
        from .native import Source

        if known is not None and _state(kept) != known:
            raise ValueError(f"tv.onnx: the call would run natively as a whole, but {kept} has "
                             "changed since it was compiled")
        return Source(kept, {name: value if is_array(value) else to_array(to_tensor(name, value))
                             for name, value in constants.items()})

    return read


def _state(path):
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
