// What every kernel's preamble begins with: typed views of device memory and the conversions
// between stored and computed values.

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer tv_ref_f32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer tv_ref_i32 { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer tv_ref_u32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer tv_ref_u16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer tv_ref_i16 { int16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer tv_ref_u8 { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer tv_ref_i8 { int8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer tv_ref_i64 { int64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer tv_ref_f32x4 { vec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer tv_ref_i32x4 { ivec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer tv_ref_u32x4 { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer tv_ref_u32x2 { uvec2 v[]; };

/// Exact for every value, denormals, infinities and NaN.
float tv_from_f16(uint h) { return unpackHalf2x16(h).x; }
float tv_from_bf16(uint h) { return uintBitsToFloat(h << 16); }

/// Nearest half, ties to even, by integers: packHalf2x16 may round as the device likes.
uint tv_to_f16(float f) {
  const uint u = floatBitsToUint(f);
  const uint a = u & 0x7fffffffu;
  const uint normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  // Adding 0.5 leaves |f| as a multiple of 2^-24, the spacing of half's denormals.
  precise float shifted = uintBitsToFloat(a) + 0.5;
  const uint denormal = floatBitsToUint(shifted) - 0x3f000000u;
  uint h = a < 0x38800000u ? denormal : normal;
  h = a >= 0x477ff000u ? 0x7c00u : h;
  h = a > 0x7f800000u ? 0x7e00u : h;
  return h | ((u >> 16) & 0x8000u);
}

/// Nearest bfloat16, ties to even.
uint tv_to_bf16(float f) {
  const uint u = floatBitsToUint(f);
  const uint rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded;
}

vec4 tv_f16x4(uvec2 w) { return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y)); }
#ifdef TV_FLOAT16_CONTROLS
uvec2 tv_to_f16x4(vec4 f) {
  return uvec2(packFloat2x16(f16vec2(f.xy)), packFloat2x16(f16vec2(f.zw)));
}
#else
uvec2 tv_to_f16x4(vec4 f) {
  return uvec2(tv_to_f16(f.x) | tv_to_f16(f.y) << 16, tv_to_f16(f.z) | tv_to_f16(f.w) << 16);
}
#endif
vec4 tv_bf16x4(uvec2 w) {
  return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
}
uvec2 tv_to_bf16x4(vec4 f) {
  return uvec2(tv_to_bf16(f.x) | tv_to_bf16(f.y) << 16, tv_to_bf16(f.z) | tv_to_bf16(f.w) << 16);
}
ivec4 tv_i16x4(uvec2 w) {
  return ivec4(bitfieldExtract(int(w.x), 0, 16), int(w.x) >> 16, bitfieldExtract(int(w.y), 0, 16),
               int(w.y) >> 16);
}
ivec4 tv_u8x4(uint w) { return ivec4(w & 0xffu, (w >> 8) & 0xffu, (w >> 16) & 0xffu, w >> 24); }
ivec4 tv_i8x4(uint w) {
  const int s = int(w);
  return ivec4(bitfieldExtract(s, 0, 8), bitfieldExtract(s, 8, 8), bitfieldExtract(s, 16, 8),
      s >> 24);
}
/// The low bytes of four integers in one word.
uint tv_to_u8x4(ivec4 v) {
  const uvec4 u = uvec4(v) & 0xffu;
  return u.x | u.y << 8 | u.z << 16 | u.w << 24;
}
uvec2 tv_to_i16x4(ivec4 v) {
  const uvec4 u = uvec4(v) & 0xffffu;
  return uvec2(u.x | u.y << 16, u.z | u.w << 16);
}

/// n / d for n < 2^31 with m = ceil(2^(31 + l) / d), s = l - 1, l = ceil(log2(d)), d >= 2.
uint tv_div_magic(uint n, uint m, uint s) {
  uint hi, lo;
  umulExtended(n, m, hi, lo);
  return hi >> s;
}

/// Number of this workgroup on the line of a flat grid. May be past the end where the line was
/// folded: test the element's index, not the group's.
uint tv_group() {
  return gl_WorkGroupID.x +
         gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
}
