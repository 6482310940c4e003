"""The compiler's settings that a client may choose, as csrc/settings_table.h has them.

The service does not load the library, which could tell: `scripts/settings_page.py` writes the rows.
"""

from typing import NamedTuple


class Setting(NamedTuple):
    """What the service knows of a setting. `high`: None where the compiler has no limit."""

    default: object
    low: int | None = None
    high: int | None = None


SETTINGS = {
    # --- rows ---
    "optimization_level": Setting(3, 0, 5),
    "enabled_precisions": Setting([]),
    "workspace_size": Setting(0, 0),
    # --- end of rows ---
}
LEVEL = SETTINGS["optimization_level"]
DEFAULTS = {name: setting.default for name, setting in SETTINGS.items()}
# Of enabled_precisions: int8 would need a calibration, which a job does not have.
PRECISIONS = "float16", "bfloat16"
