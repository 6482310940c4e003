"""What clients send."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..storage.scopes import SCOPES, Scope
from .build_settings import DEFAULTS, LEVEL, PRECISIONS, SETTINGS

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_MODEL = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,3}$"
_DIGEST = r"^sha256:[0-9a-f]{64}$"
_HEX = r"^[0-9a-f]{0,64}$"
# What the patterns want, for people.
_A_NAME = "1 to 64 letters, digits, '.', '_' and '-', a letter or a digit first"
WANTED = {_NAME: _A_NAME, _MODEL: f"1 to 4 names with '/' between them, each of {_A_NAME}",
          _DIGEST: "sha256: and 64 hexadecimal digits"}
_MOST_ELEMENTS = 2 ** 62
_MOST_DAYS = 100_000

Name = Annotated[str, Field(pattern=_NAME)]
ModelName = Annotated[str, Field(pattern=_MODEL)]
Digest = Annotated[str, Field(pattern=_DIGEST)]
Size = Annotated[int, Field(ge=0, le=_MOST_ELEMENTS)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Options(_Strict):
    """How to build. `inputs`: for each input, (min, opt, max) of each dimension."""

    optimization_level: int = Field(default=LEVEL.default, ge=LEVEL.low, le=LEVEL.high)
    enabled_precisions: list[Literal[PRECISIONS]] = Field(
        default=DEFAULTS["enabled_precisions"], max_length=1)
    workspace_size: int = Field(default=DEFAULTS["workspace_size"],
                                ge=SETTINGS["workspace_size"].low, le=_MOST_ELEMENTS)
    inputs: dict[Annotated[str, Field(max_length=256)],
                 Annotated[list[tuple[Size, Size, Size]], Field(max_length=16)]] = Field(
                     default={}, max_length=64)

    @field_validator("inputs")
    @classmethod
    def _ordered(cls, inputs):
        for name, dims in inputs.items():
            for low, opt, high in dims:
                if not low <= opt <= high:
                    raise ValueError(f"input {name[:80]!r}: got (min, opt, max) = "
                                     f"({low}, {opt}, {high}), want them in order")
        return inputs


class JobRequest(_Strict):
    """A model that was uploaded, and the devices to compile it for."""

    job_id: Name | None = None
    model: ModelName
    model_digest: Digest
    devices: list[Name] = Field(min_length=1, max_length=64)
    options: Options = Options()
    notify: Annotated[str, Field(max_length=2000, pattern=r"^[!-~]+$")] | None = None

    @model_validator(mode="after")
    def _each_once(self):
        if len(set(self.devices)) != len(self.devices):
            raise ValueError("devices: one is named twice")
        return self


class PublishRequest(_Strict):
    """An engine that was built elsewhere and uploaded. `model_digest`: of the file that it was
    built from; `level`: at which it was tuned, 0: it was not; `engine_key`, `builder`: what the
    publisher knows of how it was built, and of `options` those that are given: another one may be
    anything."""

    model: ModelName
    model_digest: Digest
    engine_digest: Digest
    level: int = Field(default=0, ge=LEVEL.low, le=LEVEL.high)
    options: Options | None = None
    engine_key: Annotated[str, Field(pattern=_HEX)] = ""
    builder: Annotated[str, Field(max_length=1000)] = ""


class DeviceRequest(_Strict):
    """A device profile, as `python -m torch_vulkan devices --json` prints it."""

    profile: dict


class KeyRequest(_Strict):
    name: Annotated[str, Field(min_length=1, max_length=80)]
    scopes: list[Scope] = Field(min_length=1, max_length=len(SCOPES))


class CollectRequest(_Strict):
    """What stays (retention.Keep); dry_run: nothing is removed."""

    dry_run: bool = False
    job_days: float | None = Field(default=None, ge=0, le=_MOST_DAYS)
    engines: int | None = Field(default=None, ge=1, le=_MOST_ELEMENTS)
    upload_days: float = Field(default=1, ge=1 / 24, le=_MOST_DAYS)
