"""What the kernels for CPU drivers (converters/kit/glsl/simd.glsl) must keep to."""

import re
from pathlib import Path


def test_lane_kernels_carry_no_pointer():
    """Mesa 25 forgets the steps of a pointer that goes from one iteration to the next."""
    files = (Path(__file__).resolve().parents[3] / "converters").rglob("*")
    texts = {path.name: path.read_text() for path in files if path.suffix in (".comp", ".glsl")}
    of_lanes = {name: text for name, text in texts.items() if "lane_" in text}
    assert {"matmul_simd.comp", "matmul_simd_pack.comp"} <= of_lanes.keys()
    carried = {name: found for name, text in of_lanes.items()
               if (found := re.findall(r"\b(\w+) = lane_at\(\1\b", text))}
    assert not carried
