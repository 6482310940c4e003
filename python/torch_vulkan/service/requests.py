"""What clients send."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_MODEL = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,3}$"
_DIGEST = r"^sha256:[0-9a-f]{64}$"
_MOST_ELEMENTS = 2 ** 62

Name = Annotated[str, Field(pattern=_NAME)]
ModelName = Annotated[str, Field(pattern=_MODEL)]
Digest = Annotated[str, Field(pattern=_DIGEST)]
Size = Annotated[int, Field(ge=0, le=_MOST_ELEMENTS)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Options(_Strict):
    """How to build. `inputs`: for each input, (min, opt, max) of each dimension."""

    optimization_level: int = Field(default=3, ge=0, le=5)
    enabled_precisions: list[Literal["float16", "bfloat16"]] = Field(default=[], max_length=1)
    workspace_size: int = Field(default=0, ge=0, le=_MOST_ELEMENTS)
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

    @model_validator(mode="after")
    def _each_once(self):
        if len(set(self.devices)) != len(self.devices):
            raise ValueError("devices: one is named twice")
        return self


class DeviceRequest(_Strict):
    """A device profile, as `python -m torch_vulkan devices --json` prints it."""

    profile: dict


class KeyRequest(_Strict):
    name: Annotated[str, Field(min_length=1, max_length=80)]
    scopes: list[Literal["read", "submit", "admin"]] = Field(min_length=1, max_length=3)
