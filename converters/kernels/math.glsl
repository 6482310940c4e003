// Elementary functions with stated errors; GLSL's own promise little.

bool tv_isnan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool tv_isinf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
bool tv_isfinite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

/// NaN where either is NaN, as torch's maximum and minimum.
float tv_max(float a, float b) { return tv_isnan(a) || a > b ? a : b; }
float tv_min(float a, float b) { return tv_isnan(a) || a < b ? a : b; }
