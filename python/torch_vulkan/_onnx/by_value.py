"""A model with inputs that set shapes: engines for each of their first values, one form for all
others."""

import threading

import numpy

from .._base.errors import UnsupportedError
from .._native import C
from .values import to_value

# For how many values something is built, for each that may be kept.
_MOST_TRIED = 8


class ByValue:
    """Builds when values come.

    Args:
        names: the inputs that set shapes.
        described: (inputs, outputs) as Mixed has them.
        build: (model, name → array of constants) to what runs the model with these.
        most: how many values get engines of their own. Those that cannot be computed take no place.
    """

    def __init__(self, model, names, described, build, most: int):
        self._model, self._names, self._build, self._most = model, sorted(names), build, most
        self.inputs, self.outputs = described
        self._lock = threading.Lock()
        self._variants: dict = {}  # key → what runs it; None: the general form does
        self._computed: set = set()  # keys of calls that gave a result
        self._general = None

    @property
    def engines(self) -> list:
        """Those that were built until now."""
        return [engine for body in self._bodies() for engine in body.engines]

    @property
    def native(self) -> list:
        """What runs natively in the forms that were built until now."""
        return [*dict.fromkeys(line for body in self._bodies() for line in body.native)]

    def _bodies(self):
        bodies = [body for body in self._variants.values() if body is not None]
        return bodies + ([self._general] if self._general else [])

    def run(self, wanted, feed) -> list:
        """The outputs `wanted`, in the form for these values."""
        body, constants, key = self._body_for(feed)
        try:
            results = body.run(wanted, {k: v for k, v in feed.items() if k not in constants})
        except ValueError:
            if key not in self._computed:
                with self._lock:  # more than there is, presumably: others get the place
                    self._variants.pop(key, None)
            raise
        self._computed.add(key)
        return results

    def _body_for(self, feed):
        """What runs it, the inputs that are part of that, and its key among the variants."""
        values = {name: to_value(feed[name]) for name in self._names}
        small = all(isinstance(v, numpy.ndarray) and v.size <= C.onnx_shape_elements
                    for v in values.values())
        key = tuple((v.dtype.str, v.shape, v.tobytes()) for v in values.values()) if small else None
        with self._lock:
            if small and key not in self._variants and self._has_room():
                try:
                    self._variants[key] = self._build(self._model, values)
                except (ValueError, UnsupportedError):  # the general form says what is wrong
                    self._variants[key] = None
            if small and self._variants.get(key) is not None:
                return self._variants[key], values, key
            if self._general is None:
                self._general = self._build(self._model, {})
            return self._general, {}, None

    def _has_room(self) -> bool:
        built = sum(body is not None for body in self._variants.values())
        return built < self._most and len(self._variants) < _MOST_TRIED * self._most

    def refit(self, model) -> None:
        """Raises ValueError where the file is of another network."""
        with self._lock:
            if self._general is None:
                self._general = self._build(self._model, {})
            self._general.refit(model)  # which compares all that is not a weight
            for body in self._variants.values():
                if body is not None:
                    body.refit(model)
            self._model = model
