// Keys whose order is torch's: ascending, nan after everything and all nans alike, -0 like 0.
// DESCENDING turns the order around, and equal keys still keep theirs. Of integers KEY is uint, or
// int64_t for INT64; floats become uints by their bits.
// Defines: KEY, FLOAT_KEY, DESCENDING.

#if FLOAT_KEY
KEY plain_key_of(float v) {
  const uint u = floatBitsToUint(v);
  if (tv_isnan(v)) return 0xffffffffu;
  // By bits: a comparison with 0 may take a denormal for one.
  if ((u & 0x7fffffffu) == 0u) return 0x80000000u;
  return (u & 0x80000000u) != 0u ? ~u : u | 0x80000000u;
}
#elif INT64_KEY
KEY plain_key_of(int64_t v) { return v; }
#else
KEY plain_key_of(int v) { return uint(v) ^ 0x80000000u; }
#endif

#if DESCENDING
#define key_of(v) (~plain_key_of(v))
#else
#define key_of(v) plain_key_of(v)
#endif
