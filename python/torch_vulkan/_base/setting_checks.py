"""Settings one by one: the rows of csrc/settings_table.h, what each takes, and what other backends
call it."""

import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .._native import C

LOW_PRECISIONS = (torch.float16, torch.bfloat16)


def _wrong(name: str, value: Any, want: str) -> ValueError:
    return ValueError(f"setting {name}: got {value!r}, want {want}")


def _boolean(name, value):
    if isinstance(value, bool):
        return value
    raise _wrong(name, value, "True or False")


def _optional_boolean(name, value):
    return None if value is None else _boolean(name, value)


def _integer(row: "Row") -> "Check":
    def check(name, value):
        in_range = isinstance(value, int) and not isinstance(value, bool) and (
            row.low <= value <= row.high)
        if in_range:
            return value
        if value is None and row.default == -1:  # which leaves the choice to us
            return row.default
        raise _wrong(name, value, f"an integer {row.range}")
    return check


def _device(name, value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _wrong(name, value, "an index into tv.devices(), part of a name, a UUID, or None")


def _block_size(name, value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and value >= 1 and (math.isinf(value) or value == int(value)):
        return value
    raise _wrong(name, value, "an integer from 1 up, or math.inf to build nothing")


def _operator_name(name, item) -> str:
    if isinstance(item, torch._ops.OpOverload):
        schema = item._schema
        return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    if isinstance(item, torch._ops.OpOverloadPacket):
        return item._qualified_op_name
    if isinstance(item, str) and item:
        text = item.removeprefix("torch.ops.").replace("::", ".").removesuffix(".default")
        parts = text.split(".")
        if len(parts) == 1:
            return f"aten::{parts[0]}"
        return f"{parts[0]}::{'.'.join(parts[1:])}"
    raise _wrong(name, item, "operators: torch.ops.aten.relu, torch.ops.aten.add.Tensor, "
                             "'aten::relu' or 'aten.add.Tensor'")


def _operators(name, value):
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise _wrong(name, value, "a collection of operators, e.g. ('aten::relu',)")
    operators = tuple(sorted({_operator_name(name, item) for item in value}))
    for operator in operators:
        _check_known(name, operator)
    return operators


def _check_known(name, operator: str) -> None:
    """Raises ValueError for what is no operator of PyTorch's, a library's or this package's."""
    known = _known_operators()
    if operator in known:
        return
    close = nearest(operator, known)
    if close is None and "." in operator:
        close = nearest(operator.partition(".")[0], known)
    hint = f"; did you mean {close!r}?" if close else ""
    raise ValueError(f"setting {name}: got {operator!r}, which is no operator of this PyTorch and "
                     f"the libraries that are loaded{hint}")


def _known_operators() -> set[str]:
    overloads = torch._C._dispatch_get_all_op_names()
    return {*overloads, *(overload.partition(".")[0] for overload in overloads),
            *(row["op"] for row in C.supported_ops())}


def nearest(text: str, names) -> str | None:
    """The name that somebody who wrote `text` may have meant; None if no name is near."""
    return C.nearest(text, [*names]) or None


def _patterns(name, value):
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise _wrong(name, value, "a collection of regular expressions, e.g. ('layer4',)")
    patterns = tuple(value)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise _wrong(name, pattern, "a regular expression")
    C.check_settings(json.dumps({name: patterns}))  # as the C++ reader parses them
    return patterns


def _precisions(name, value):
    if value is None:
        return None
    want = "a set of torch.float32, torch.float16, torch.bfloat16 and torch.int8"
    if isinstance(value, (str, torch.dtype)) or not hasattr(value, "__iter__"):
        raise _wrong(name, value, want)
    dtypes = frozenset(value)
    if not dtypes or not dtypes <= {torch.float32, torch.int8, *LOW_PRECISIONS}:
        raise _wrong(name, value, want)
    return dtypes


def _low_precision(name, value):
    if value is None or value in LOW_PRECISIONS:
        return value
    raise _wrong(name, value, "torch.float16, torch.bfloat16 or None")


def _path(name, value):
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)) and str(value) and "\0" not in str(value):
        return str(Path(value).expanduser())
    raise _wrong(name, value, "a path or None")


def _file(name, value):
    path = _path(name, value)
    if path is not None and os.path.isdir(path):
        raise _wrong(name, value, "the path of a file, not of a directory")
    return path


def _directory(name, value):
    path = _path(name, value)
    if path is not None and os.path.exists(path) and not os.path.isdir(path):
        raise _wrong(name, value, "the path of a directory, not of a file")
    return path


def _calibration(name, value):
    """The text of a cache: of what tv.calibrate returned, of a file, or as it is."""
    if value is None or value == "":
        return ""
    if callable(getattr(value, "to_text", None)):
        return value.to_text()
    if isinstance(value, str) and "\n" in value:
        C.read_calibration(value, f"setting {name}")
        return value
    path = _file(name, value)
    try:
        text = Path(path).read_bytes().decode(errors="replace")
    except OSError as error:
        raise _wrong(name, value, "what tv.calibrate returned, or the path of a calibration cache "
                                  f"({error.strerror})") from None
    C.read_calibration(text, path)
    return text


def _flag_or_path(name, value):
    return value if isinstance(value, bool) else _path(name, value) or False


def _report(name, value):
    path = _flag_or_path(name, value)
    if isinstance(path, str) and not Path(path).parent.is_dir():
        raise _wrong(name, value,
                     f"a file in a folder that exists; there is no {Path(path).parent}")
    return path


Check = Callable[[str, Any], Any]


class Row(NamedTuple):
    """What csrc/setting_rows.h says of a setting."""

    name: str
    kind: str
    scope: str  # "compiler", "cache" or "python"
    default: Any
    low: int
    high: int
    unit: str
    of_user: bool
    in_key: bool
    saved: bool
    variable: str
    section: str
    shown: str
    help: str
    flags: list[str]

    @property
    def range(self) -> str:
        """"from 0 to 5"; of integers."""
        upper = "up" if self.high == 2**63 - 1 else f"to {self.high}"
        return f"from {self.low} {upper}" + (f" ({self.unit})" if self.unit else "")


class Kind(NamedTuple):
    """What Python makes of a kind of settings."""

    annotation: str
    check: Callable[[Row], Check]
    none: Any = None  # the default where the row has none


def _always(check: Check) -> Callable[[Row], Check]:
    return lambda row: check


KINDS = {
    "Bool": Kind("bool", _always(_boolean)),
    "OptionalBool": Kind("bool | None", _always(_optional_boolean)),
    "Integer": Kind("int", _integer),
    "Bytes": Kind("int", _integer),
    "Nodes": Kind("float", _always(_block_size)),
    "Device": Kind("int | str | None", _always(_device)),
    "Operators": Kind("tuple[str, ...]", _always(_operators), ()),
    "Patterns": Kind("tuple[str, ...]", _always(_patterns), ()),
    "Precisions": Kind("frozenset[torch.dtype] | None", _always(_precisions)),
    "LowPrecision": Kind("torch.dtype | None", _always(_low_precision)),
    "File": Kind("str | None", _always(_file)),
    "Directory": Kind("str | None", _always(_directory)),
    "Calibration": Kind("str", _always(_calibration), ""),
    "FlagOrPath": Kind("bool | str", _always(_flag_or_path)),
    "Report": Kind("bool | str", _always(_report)),
}


def _row(fields: dict[str, Any]) -> Row:
    row = Row(**fields)
    default = row.default
    if default is None:
        default = KINDS[row.kind].none
    elif isinstance(default, float) and default.is_integer():
        default = int(default)
    return row._replace(default=default)


# Users' settings, in the table's order.
ROWS = {fields["name"]: _row(fields) for fields in C.setting_rows() if fields["of_user"]}
CHECKS: dict[str, Check] = {name: KINDS[row.kind].check(row) for name, row in ROWS.items()}


def of_environment(name: str) -> int:
    """The default of a setting that a variable of the environment may give; ValueError where that
    is no value of its."""
    value = C.setting_of_environment(name)
    return ROWS[name].default if value is None else value


# Names that other backends use → what to use here.
_FOREIGN = {
    # Torch-TensorRT
    "max_aux_streams": "nothing: engines use one queue",
    "num_avg_timing_iters": "optimization_level",
    "enable_experimental_decompositions": "nothing: the decompositions follow from what is "
                                          "supported",
    "make_refittable": "nothing: engines are always refittable (immutable_weights=True undoes it)",
    "immutable_weights_engine": "immutable_weights",
    "version_compatible": "nothing: engines check the device they run on",
    "hardware_compatible": "nothing: engines check the device they run on",
    "timing_cache_path_prefix": "timing_cache_path",
    "lazy_engine_init": "nothing: engines are opened when they are built or first called",
    "use_fast_partitioner": "nothing: there is one partitioner",
    "enable_weight_streaming": "weight_budget: every engine can stream its weights",
    "enable_cross_compile_for_windows": "nothing: a .vke file does not depend on the system",
    "dla_sram_size": "nothing: there is no DLA",
    "refit_identical_engine_weights": "nothing: weights are passed at each call",
    "strip_engine_weights": "nothing: engines hold no weights",
    "assume_dynamic_shape_support": "nothing: every operator takes dynamic shapes",
    "opset_version": "nothing: graphs do not pass through ONNX",
    "enable_tf32": "disable_tf32=False",
    "engine_capability": "nothing",
    "custom_engine_cache": "engine_cache_dir",
    "ir": "nothing: what is given says how it is captured",
    "arg_inputs": "inputs",
    "workspace": "workspace_size",
    "truncate_double": "truncate_long_and_double",
    "fp16": "precision=torch.float16",
    "bf16": "precision=torch.bfloat16",
    "int8": "enabled_precisions with torch.int8, and calibration",
    # inductor
    "max_autotune": "optimization_level=5",
    "epilogue_fusion": "nothing: epilogues are always fused",
    "triton.cudagraphs": "nothing: an engine call is one recorded submission",
    "shape_padding": "nothing",
    "fallback_random": "nothing: random numbers are always PyTorch's",
    "freezing": "immutable_weights",
    "trace.enabled": "debug",
    "trace.graph_diagram": "debug",
    "force_disable_caches": "cache_built_engines=False, reuse_cached_engines=False",
    # OpenVINO and ONNX Runtime
    "cache_dir": "engine_cache_dir",
    "model_caching": "cache_built_engines",
    "aot_autograd": "nothing: it is always used",
    "config": "the settings themselves",
    "device_id": "device",
    "providers": "device",
    "enable_profiling": "tv.profile",
    "dynamic": "torch.compile(dynamic=…)",
}


# torch.compile's modes → settings. An engine call is one recorded submission in each of them, which
# is what "reduce-overhead" and CUDA graphs are for.
MODES = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"optimization_level": 5},
    "max-autotune-no-cudagraphs": {"optimization_level": 5},
}


# `precision` in words, as command lines and other APIs have it.
_DTYPES = {**dict.fromkeys(("fp32", "float32"), torch.float32),
           **dict.fromkeys(("fp16", "float16", "half"), torch.float16),
           **dict.fromkeys(("bf16", "bfloat16"), torch.bfloat16)}


def without_aliases(options: dict[str, Any]) -> dict[str, Any]:
    """Options with `mode` and `precision`, as other backends name them, in this one's words.

    Raises:
        ValueError: an unknown mode, or what they stand for is given, too, and differs.
    """
    options = dict(options)
    stands_for: dict[str, tuple[str, Any]] = {}
    if "mode" in options:
        mode = options.pop("mode")
        if mode is not None and mode not in MODES:
            raise _wrong("mode", mode, " or ".join(map(repr, MODES)))
        stands_for |= {name: ("mode", value) for name, value in MODES.get(mode, {}).items()}
    if "precision" in options:
        value = options.pop("precision")
        value = _DTYPES.get(value, value) if isinstance(value, str) else value
        dtypes = {value} if isinstance(value, torch.dtype) else value
        if dtypes is not None:
            if dtypes not in ({torch.float32}, {torch.float16}, {torch.bfloat16}):
                if isinstance(value, str):
                    raise _wrong("precision", value, " or ".join(map(repr, _DTYPES)))
                dtypes = _precisions("precision", dtypes)
            stands_for["enabled_precisions"] = ("precision", {torch.float32, *dtypes})
    for name, (alias, value) in stands_for.items():
        if name in options and options[name] != value:
            raise ValueError(f"setting {alias} means {name}={value}; got {name}={options[name]!r} "
                             "beside it, want one of them")
        options[name] = value
    return options


def checked(name: str, value: Any, keywords: Sequence[str] = ()) -> Any:
    """The value as Settings holds it; `keywords`: those of the function that takes settings, too.
    Raises ValueError, saying what is allowed."""
    if name in CHECKS:
        return CHECKS[name](name, value)
    known = ", ".join(sorted([*CHECKS, *keywords]))
    if name in _FOREIGN:
        raise ValueError(f"unknown setting {name!r}, another backend's; here: {_FOREIGN[name]}")
    near = nearest(str(name), [*CHECKS, "mode", "precision", *keywords])
    hint = f"; did you mean {near!r}?" if near else "."
    raise ValueError(f"unknown setting {name!r}{hint} Allowed: {known}")
