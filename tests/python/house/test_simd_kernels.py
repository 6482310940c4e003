"""What the kernels for CPU drivers (converters/kit/glsl/simd.glsl) must keep to."""

import re
from pathlib import Path


def test_simd_kernels_carry_no_pointer():
    """Mesa 25 forgets the steps of a pointer that goes from one iteration to the next."""
    files = (Path(__file__).resolve().parents[3] / "converters").rglob("*")
    texts = {path.name: path.read_text() for path in files if path.suffix in (".comp", ".glsl")}
    of_simd = {name: text for name, text in texts.items() if "simd_at" in text}
    assert {"matmul_simd.comp", "matmul_simd_pack.comp"} <= of_simd.keys()
    carried = {name: found for name, text in of_simd.items()
               if (found := re.findall(r"\b(\w+) = simd_at\(\1\b", text))}
    assert not carried
