"""What a calibration did not say."""

import warnings

_SHOWN = 5


def warn_of_missing(use: dict) -> None:
    """Warns of the tensors without a scale; `use`: Plan.calibration."""
    if use["refusal"]:
        warnings.warn(f"torch_vulkan: {use['refusal']}", stacklevel=3)
    missing = use["missing"]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        warnings.warn(
            f"torch_vulkan: calibration has no scale for {', '.join(missing[:_SHOWN])}{more}: what "
            f"reads them stays in floats ({use['scaled']} of {use['points']} products and "
            "convolutions have one)", stacklevel=3)
