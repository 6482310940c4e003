"""What ONNX Runtime's users bring along beside a session: bound inputs and outputs, and options."""

import ctypes
import math
import warnings

import torch

from .._base.given_outputs import writable
from .._engines.engine import numpy


class IOBinding:
    """Inputs and outputs that are bound to memory once, for `Model.run_with_iobinding`. Made by
    `Model.io_binding()`; methods are ONNX Runtime's. Memory that is bound has to stay alive."""

    def __init__(self, model):
        self._model = model
        self._inputs: dict[str, object] = {}
        self._outputs: dict[str, torch.Tensor | None] = {}
        self._results: dict[str, object] = {}

    def bind_cpu_input(self, name: str, array) -> None:
        """An array or tensor, which is read at each run."""
        self._known(name, self._model.get_inputs(), "input")
        self._inputs[name] = array

    def bind_input(self, name: str, device_type="cpu", device_id: int = 0, element_type=None,
                   shape=None, buffer_ptr: int | None = None) -> None:
        """Memory of this process by its address. `device_type` may be an array or tensor itself."""
        if isinstance(device_type, torch.Tensor) or hasattr(device_type, "__array__"):
            self.bind_cpu_input(name, device_type)
            return
        self._known(name, self._model.get_inputs(), "input")
        self._inputs[name] = _at(name, device_type, element_type, shape, buffer_ptr)

    def bind_output(self, name: str, device_type="cpu", device_id: int = 0, element_type=None,
                    shape=None, buffer_ptr: int | None = None) -> None:
        """Memory of this process that runs write to; without an address each run makes its own.
        `device_type` may be an array or tensor itself."""
        self._known(name, self._model.get_outputs(), "output")
        if isinstance(device_type, torch.Tensor):
            self._outputs[name] = device_type
        elif hasattr(device_type, "__array__"):
            self._outputs[name] = writable(f"tv.onnx: output {name!r}", device_type)
        elif buffer_ptr is None:
            _on_cpu(name, device_type)
            self._outputs[name] = None
        else:
            self._outputs[name] = _at(name, device_type, element_type, shape, buffer_ptr)

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results.clear()

    def get_outputs(self) -> list:
        """The results of the last run, in the order in which the outputs were bound."""
        return [self._results[name] for name in self._outputs]

    def copy_outputs_to_cpu(self) -> list:
        """The same as arrays of their own."""
        return [numpy.array(result) for result in self.get_outputs()]

    def _run(self) -> None:
        if not self._outputs:
            raise ValueError("tv.onnx: io binding: no output is bound; bind_output(name) does")
        results = self._model.run([*self._outputs], self._inputs)
        self._results = {}
        for (name, bound), result in zip(self._outputs.items(), results, strict=True):
            if bound is None:
                self._results[name] = result
                continue
            tensor = torch.as_tensor(result)
            if tensor.dtype != bound.dtype or tensor.shape != bound.shape:
                raise ValueError(f"tv.onnx: output {name!r}: bound memory is {bound.dtype} "
                                 f"{[*bound.shape]}, the result {tensor.dtype} {[*tensor.shape]}")
            self._results[name] = bound.copy_(tensor).numpy()

    @staticmethod
    def _known(name, args, what):
        names = [arg.name for arg in args]
        if name not in names:
            raise ValueError(f"tv.onnx: no {what} {name!r}; got {what}s {names}")


def _on_cpu(name, device_type) -> None:
    if device_type not in ("cpu", "CPU"):
        raise ValueError(f"tv.onnx: io binding of {name!r}: got device {device_type!r}, want "
                         "'cpu': bound memory is this process's, and copies to the device are part "
                         "of a run")


def _at(name, device_type, element_type, shape, address) -> torch.Tensor:
    _on_cpu(name, device_type)
    if element_type is None or shape is None or not address:
        raise ValueError(f"tv.onnx: io binding of {name!r}: want element_type, shape and "
                         "buffer_ptr")
    dtype = element_type if isinstance(element_type, torch.dtype) else torch.from_numpy(
        numpy.empty(0, element_type)).dtype
    count = math.prod(shape)
    if count == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    memory = (ctypes.c_byte * (count * dtype.itemsize)).from_address(int(address))
    return torch.frombuffer(memory, dtype=dtype).reshape(tuple(shape))


class SessionOptions:
    """Options of a session by ONNX Runtime's names, for scripts that set some. Those about threads,
    memory and graph optimisation have no effect, and one warning says so."""

    _DEFAULTS = {
        "enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True,
        "execution_mode": None, "graph_optimization_level": None, "inter_op_num_threads": 0,
        "intra_op_num_threads": 0, "log_severity_level": 2, "log_verbosity_level": 0, "logid": "",
        "use_deterministic_compute": False, "execution_order": None,
    }
    _REFUSED = {
        "enable_profiling": (False, "tv.profile(session) times the layers"),
        "optimized_model_filepath": ("", "session.engine.save(path) writes the engine"),
    }

    def __init__(self):
        self.__dict__.update(self._DEFAULTS)
        self.__dict__.update({name: value for name, (value, _) in self._REFUSED.items()})

    def __setattr__(self, name, value):
        if name not in self.__dict__:
            raise AttributeError(f"SessionOptions has no {name!r}; got {sorted(self.__dict__)}")
        self.__dict__[name] = value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Refused: such entries are ONNX Runtime's own."""
        raise ValueError(f"SessionOptions: {key!r} is ONNX Runtime's own; docs/settings.md lists "
                         "what tv.onnx.compile takes")

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Refused: `inputs` of tv.onnx.compile gives sizes."""
        raise ValueError(f"SessionOptions: a size for {name!r} is given by inputs= of "
                         "tv.onnx.compile")


def check_options(options) -> None:
    """Of a SessionOptions, ONNX Runtime's own too: one warning of what has no effect.

    Raises:
        ValueError: it asks for something that is asked for in another way here.
    """
    if options is None:
        return
    for name, (idle, instead) in SessionOptions._REFUSED.items():
        if getattr(options, name, idle) != idle:
            raise ValueError(f"sess_options.{name}: {instead}")
    if isinstance(options, SessionOptions):
        changed = [name for name, value in SessionOptions._DEFAULTS.items()
                   if getattr(options, name) != value]
    else:  # whose defaults are its own
        fresh = type(options)()
        changed = [name for name in SessionOptions._DEFAULTS if hasattr(fresh, name)
                   and getattr(options, name) != getattr(fresh, name)]
    if changed:
        warnings.warn(f"torch_vulkan: sess_options: {', '.join(changed)} have no effect here",
                      stacklevel=3)
