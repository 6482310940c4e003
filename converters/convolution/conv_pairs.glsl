// What conv_pad and conv_unfold share: cheap quotients, and two elements as one store.

uint conv_quotient(uint n, uint d) {
#if SMALL_PLANE  // n < 2^21: a division of integers is a loop over the lanes on CPU drivers
  return uint((float(n) + 0.5) / float(d));
#else
  return n / d;
#endif
}

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer conv_ref_u64 { uint64_t v[]; };

/// Two neighbours as one store.
void conv_store2(tv_ref_f32 p, uint element, vec2 v) {
  uint64_t at = uint64_t(p) + uint64_t(element) * 4ul;
#if TV_CHECK
  at = tv_check_ptr(at, 8u);
#endif
  conv_ref_u64(at).v[0] = packUint2x32(floatBitsToUint(v));
}
