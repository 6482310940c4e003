"""tv.Config: what is built, and how, as a YAML file. Its fields are the rows of
csrc/settings_table.h, and those that say what to build."""

import io
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch

from .._base import whole_files
from .._base.inputs import Input
from .._base.setting_checks import ROWS, checked, nearest, of_environment

try:
    import yaml
    from pydantic import (
        BaseModel,
        BeforeValidator,
        ConfigDict,
        Field,
        StrictBool,
        StrictInt,
        StrictStr,
        ValidationError,
        create_model,
        model_validator,
    )
except ImportError as missing:
    raise ImportError("tv.Config needs the packages pydantic and pyyaml: pip install "
                      "torch-vulkan[config]") from missing

_Text = Annotated[StrictStr, Field(min_length=1)]
_Path = Annotated[_Text, BeforeValidator(
    lambda path: os.fspath(path) if isinstance(path, os.PathLike) else path)]
_DTYPES = Literal["float32", "float16", "bfloat16", "int8"]


class _Kind(NamedTuple):
    """What a file may have for a kind of settings, and how messages say it."""

    type: Any
    want: str


_FLAG = _Kind(StrictBool, "true or false")
_FLAG_OR_PATH = _Kind(StrictBool | _Path, "true, false or a path")
_OPTIONAL_PATH = _Kind(_Path | None, "a path")
_KINDS = {
    "Bool": _FLAG, "OptionalBool": _Kind(StrictBool | None, _FLAG.want),
    "Device": _Kind(Annotated[StrictInt, Field(ge=0)] | _Text | None,
                    "a number, a name or a UUID"),
    "Operators": _Kind(list[StrictStr], "a list of operators, such as [aten::relu]"),
    "Patterns": _Kind(list[StrictStr], "a list of regular expressions"),
    "Precisions": _Kind(Annotated[list[_DTYPES], Field(min_length=1)] | None,
                        "a list of float32, float16, bfloat16 and int8"),
    "LowPrecision": _Kind(Literal["float16", "bfloat16"] | None, "float16 or bfloat16"),
    "Calibration": _OPTIONAL_PATH, "File": _OPTIONAL_PATH, "Directory": _OPTIONAL_PATH,
    "FlagOrPath": _FLAG_OR_PATH, "Report": _FLAG_OR_PATH,
}
_LARGEST = 2**63 - 1
_Sizes = dict[str, list[Annotated[StrictInt, Field(ge=0, le=_LARGEST)]]]
_MEBIBYTES = 2**20  # fewer: a larger number was meant in bytes, as TensorRT's API has it
_PRECISIONS = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8"}


def _kind_of(row) -> _Kind:
    if row.kind == "Nodes":
        return _Kind(Annotated[StrictInt, Field(ge=1, le=_LARGEST)] | Literal["inf"],
                     'a whole number from 1, or "inf"')
    if row.kind in ("Integer", "Bytes"):
        return _Kind(Annotated[StrictInt, Field(ge=row.low, le=row.high)],
                     f"an integer {row.range}")
    return _KINDS[row.kind]


def _want(key: str) -> str:
    """What the value of a key must be."""
    if key in ROWS:
        return _kind_of(ROWS[key]).want
    if key == "workspace":
        return f"a whole number of MiB below {_MEBIBYTES}"
    if key.endswith("_shapes"):
        return "sizes from 0 up by name of the input: {x: [1, 3, 224, 224]}"
    return _FLAG.want if key in _PRECISIONS else _OPTIONAL_PATH.want


def _plain_default(row):
    if row.kind == "Calibration":
        return None  # "" is no path
    return list(row.default) if isinstance(row.default, tuple) else row.default


def _said(error: ValidationError, values: dict[str, Any], place: Callable[[str], str]) -> str:
    """A line for each key that is wrong, after where its value is from, which `place` says of a
    key, and of "" for what is wrong with several together."""
    lines = []
    for problem in error.errors(include_url=False):
        if problem["loc"]:
            key = str(problem["loc"][0])
            lines.append(f"{place(key)}: {key}: got {values[key]!r}, want {_want(key)}")
        else:
            lines.append(f"{place('')}: {problem['ctx']['error']}")
    return "\n".join(dict.fromkeys(lines))


def _of_python(name: str, value: Any) -> Any:
    """A setting's value as keyword arguments have it."""
    kind = ROWS[name].kind
    if kind == "Nodes" and value == "inf":
        return math.inf
    if kind == "Precisions" and value is not None:
        return {getattr(torch, item) for item in value}
    if kind == "LowPrecision" and value is not None:
        return getattr(torch, value)
    return value


class _Loader(yaml.SafeLoader):
    """Words mean what they mean to vkexec (csrc/cli/flags/yaml.cpp): integers are decimal, keys are
    texts, and none occurs twice."""

    yaml_implicit_resolvers: dict = {}

    def construct_mapping(self, node, deep=False):
        made = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key that is no text",
                                                        key.start_mark)
            if key.value in made:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} occurs twice", key.start_mark)
            made[key.value] = self.construct_object(value, deep=deep)
        return made


class _Dumper(yaml.SafeDumper):
    """Puts what a _Loader would take for something else in quotes, too."""


def _words(tag: str, pattern: str, first: str, read) -> None:
    for kind in (_Loader, _Dumper):
        kind.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))
    _Loader.add_constructor(f"tag:yaml.org,2002:{tag}",
                            lambda loader, node: read(loader.construct_scalar(node)))


_words("bool", r"(?:true|True|TRUE|yes|Yes|YES|on|On|ON|false|False|FALSE|no|No|NO|off|Off|OFF)\Z",
       "tTyYoOfFnN", lambda word: word.lower() in ("true", "yes", "on"))
_words("null", r"(?:~|null|Null|NULL|)\Z", "~nN", lambda word: None)
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"\Z"), [""])
_words("int", r"-?[0-9]+\Z", "-0123456789", int)
_words("float", r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z", "-.0123456789", float)


class _Base(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    onnx_path: _Path | None = Field(None, description="the model")
    graph_path: _Path | None = Field(None, description="the model, as a graph file")
    engine_path: _Path | None = Field(None, description="where the engine is written")
    fp16: StrictBool = Field(False, description="enabled_precisions: [float32, float16]")
    bf16: StrictBool = Field(False, description="enabled_precisions: [float32, bfloat16]")
    int8: StrictBool = Field(False, description="enabled_precisions: [float32, int8]")
    calibration_cache: _Path | None = Field(
        None, description="calibration, which is read where int8 is permitted")
    workspace: Annotated[StrictInt, Field(ge=0)] | None = Field(
        None, description="workspace_size in MiB, below 2**20")
    min_shapes: _Sizes = Field({}, description="smallest sizes of inputs, by name")
    opt_shapes: _Sizes = Field({}, description="sizes that engines are tuned for")
    max_shapes: _Sizes = Field({}, description="largest sizes")

    def __init__(self, /, **values):
        self._fill(values, lambda key: "tv.Config")

    def _fill(self, values: dict[str, Any], place: Callable[[str], str]) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(_said(error, values, place)) from None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, values):
        for name in values if isinstance(values, dict) else ():
            if name not in cls.model_fields:
                if name == "precision":
                    raise ValueError("unknown key 'precision'; write fp16: true, bf16: true or "
                                     "int8: true, or enabled_precisions")
                near = nearest(str(name), cls.model_fields)
                hint = f"; did you mean {near!r}?" if near else (
                    f". Allowed: {', '.join(cls.model_fields)}")
                raise ValueError(f"unknown key {name!r}{hint}")
        return values

    @model_validator(mode="after")
    def _fit(self):
        for name in self.model_fields_set & ROWS.keys():
            try:
                checked(name, _of_python(name, getattr(self, name)))
            except ValueError as error:
                raise ValueError(str(error).removeprefix("setting ")) from error
        if self.onnx_path is not None and self.graph_path is not None:
            raise ValueError("got onnx_path and graph_path, want one of them")
        if self.calibration_cache is not None and self.calibration:
            raise ValueError("got calibration_cache and calibration, want one of them")
        if self.calibration and not self._permits_int8:
            raise ValueError("calibration needs int8")
        low = [name for name in _PRECISIONS if getattr(self, name)]
        if (self.fp16 and self.bf16) or (low and self.enabled_precisions is not None):
            raise ValueError(f"got {' and '.join(low)}"
                             f"{' and enabled_precisions' if self.enabled_precisions else ''}, "
                             "want one of them")
        if (self.workspace or 0) >= _MEBIBYTES:
            raise ValueError(f"workspace: got {self.workspace} MiB, want less than {_MEBIBYTES}; "
                             f"workspace_size={self.workspace} is as many bytes")
        if self.workspace is not None and "workspace_size" in self.model_fields_set:
            raise ValueError("got workspace (MiB) and workspace_size (bytes), want one of them")
        self.inputs()
        return self

    @property
    def _permits_int8(self) -> bool:
        return self.int8 or "int8" in (self.enabled_precisions or ())

    def settings(self) -> dict[str, Any]:
        """The settings that the file gives, for tv.compile, tv.onnx.compile or torch.compile."""
        given = {name: _of_python(name, getattr(self, name))
                 for name in ROWS if name in self.model_fields_set}
        low = {getattr(torch, dtype) for name, dtype in _PRECISIONS.items() if getattr(self, name)}
        if low:
            given["enabled_precisions"] = {torch.float32, *low}
        if self.calibration_cache is not None and self._permits_int8:
            given["calibration"] = self.calibration_cache
        if self.workspace is not None:
            given["workspace_size"] = self.workspace << 20
        return given

    def inputs(self) -> dict[str, Input]:
        """The inputs whose sizes the file gives, by name. `min_shapes` or `max_shapes` alone stand
        for each other, and `opt_shapes` for both; without it, kernels are tuned for the largest.

        Raises:
            ValueError: the sizes of an input do not fit together.
        """
        made = {}
        for name in dict.fromkeys((*self.min_shapes, *self.opt_shapes, *self.max_shapes)):
            low, usual, high = (shapes.get(name) for shapes in
                                (self.min_shapes, self.opt_shapes, self.max_shapes))
            high = high or usual or low
            try:
                made[name] = Input(min_shape=low or usual or high, opt_shape=usual or high,
                                   max_shape=high, name=name)
            except ValueError as error:
                raise ValueError(f"sizes of {name!r}: {error}") from error
        return made

    def compile(self):
        """Compiles `onnx_path` or `graph_path` and writes `engine_path` where given; returns the
        tv.onnx.Model, or the tv.Engine of a graph file. Raises ValueError without one of them,
        OSError before anything is built where `engine_path` can be no file, and as tv.onnx.compile
        and tv.build_graph do."""
        from .. import onnx
        from .._aot import graph_import

        if self.engine_path is not None:
            whole_files.refuse_no_place(self.engine_path, "tv.Config: engine_path")
        if self.graph_path is not None:
            engine = graph_import.build_graph(self.graph_path, self.inputs(), **self.settings())
            if self.engine_path is not None:
                engine.save(self.engine_path)
            return engine
        if self.onnx_path is None:
            raise ValueError("tv.Config: onnx_path is missing, or graph_path: the model to compile")
        if self.engine_path is None:
            return onnx.compile(self.onnx_path, self.inputs(), **self.settings())
        model = onnx.compile_one_engine(
            self.onnx_path, self.inputs(), "tv.Config: engine_path names a file of one engine, and "
            "a part of the model would run natively; without engine_path it does",
            **self.settings())
        model.engine.save(self.engine_path)
        return model

    @classmethod
    def from_yaml(cls, path: str | os.PathLike) -> "Config":
        """Reads a file. Variables of the environment, TORCH_VULKAN_FP16 for `fp16`, come before it,
        and defaults after it.

        Raises:
            ValueError: the file is no YAML mapping, has an unknown key or an invalid value. The
                message names the file or the variable, the key, and what is allowed.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"tv.Config: {os.fspath(path)}: {error}") from error
        values = _loaded(text, os.fspath(path))
        if values is not None and not isinstance(values, dict):
            raise ValueError(f"tv.Config: {os.fspath(path)}: got {type(values).__name__}, want "
                             "keys with values")
        over = _environment(cls.model_fields)
        names = ", ".join(map(_variable, over))

        def place(key: str) -> str:
            if key in over:
                return f"tv.Config: environment variable {_variable(key)}"
            among = f" (after what the environment gives: {names})" if over and not key else ""
            return f"tv.Config: {os.fspath(path)}{among}"

        made = cls.__new__(cls)
        made._fill((values or {}) | over, place)
        return made

    def to_yaml(self, path: str | os.PathLike | None = None) -> str:
        """The text of a file with what is given; written to `path` where that is."""
        text = yaml.dump(self.model_dump(exclude_unset=True), Dumper=_Dumper, sort_keys=False,
                         default_flow_style=None)
        if path is not None:
            whole_files.write_text(path, text, "Config.to_yaml")
        return text


def _variable(key: str) -> str:
    return f"TORCH_VULKAN_{key.upper()}"


def _environment(keys) -> dict[str, Any]:
    """What variables give: their text is what the file would have there, as vkexec reads it
    (csrc/cli/flags/config_file.cpp)."""
    found = {}
    for key in keys:
        text = os.environ.get(_variable(key))
        if not text:
            continue
        if key == "device":
            found[key] = int(text) if text.isdecimal() else text
        elif key in ROWS and ROWS[key].variable:
            found[key] = of_environment(key)
        else:
            found[key] = _loaded(text, f"environment variable {_variable(key)}")
    return found


def _loaded(text: str, what: str) -> Any:
    stream = io.StringIO(text)
    stream.name = what  # as errors call it
    try:
        return yaml.load(stream, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"tv.Config: {error}") from error
    except RecursionError:
        raise ValueError(f"tv.Config: {what}: lists are nested too deeply") from None


Config = create_model(
    "Config", __base__=_Base, __module__="torch_vulkan",
    **{name: (_kind_of(row).type, Field(_plain_default(row), description=row.help))
       for name, row in ROWS.items()})
Config.__doc__ = """What is built, and how. Fields: settings (docs/settings.md), `onnx_path`,
`graph_path`, `engine_path`, `fp16`, `bf16`, `workspace` (MiB), and `min_shapes`, `opt_shapes` and
`max_shapes` by name of the input. `model_json_schema()` is its JSON schema.

Raises:
    ValueError: an unknown key, with the nearest; an invalid value.
"""
