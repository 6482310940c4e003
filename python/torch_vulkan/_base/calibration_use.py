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


def warn_of_unused(use: dict) -> None:
    """Warns of a graph none of whose products with a scale is in an engine; `use` as above."""
    reason = use["left_out"]
    if reason and not use["in_blocks"]:
        more = "; min_block_size=1 builds it all the same" if "min_block_size" in reason else ""
        warnings.warn("torch_vulkan: nothing is computed in int8, in spite of the calibration: "
                      f"{reason}{more}", stacklevel=3)


def warn_of_gradients(use: dict) -> None:
    """Warns of a graph with products that keeps what gradients need, and has no constant
    weights; `use` as above."""
    if use["products"] and not use["points"]:
        warnings.warn("torch_vulkan: nothing is computed in int8, in spite of the calibration: "
                      "gradients are wanted, and weights are no constants then; call the model "
                      "under torch.no_grad()", stacklevel=3)
