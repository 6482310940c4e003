// Pixels of conv_matrix.comp: which an invocation gathers, how, and how they become chunks of
// operands.

// Each of the GATHER_THREADS invocations of a stage gathers PX columns, PX_STEP apart, and of each
// NC of the stage's chunks of 8 k, EACH apart. Neighbouring invocations take what lies side by
// side: columns, or chunks (X_LAST).
const uint CHUNKS = KS * 2;
#if X_LAST
const uint EACH = 1, NC = 1, PX = BN * CHUNKS / GATHER_THREADS, PX_STEP = GATHER_THREADS / CHUNKS;
#define FIRST_COLUMN (gather_thread / CHUNKS)
#define FIRST_CHUNK (gather_thread % CHUNKS)
#else
const uint EACH = GATHER_THREADS > BN ? GATHER_THREADS / BN : 1, NC = CHUNKS / EACH;
const uint PX = GATHER_THREADS > BN ? 1 : BN / GATHER_THREADS, PX_STEP = GATHER_THREADS;
#define FIRST_COLUMN (gather_thread % BN)
#define FIRST_CHUNK (gather_thread / BN)
#endif

/// What one invocation has loaded of 8 k of a column, and which of it counts.
struct Gathered {
#if X_LAST
  Chunk chunk;
#elif BYTES
  uint bytes[16];
#elif FLOATS
  vec4 lo, hi;
#else
  uvec4 lo, hi;
#endif
  uint mask;
#if BYTES
  uint exists;  ///< what is not beyond k
#endif
};

#if BYTES
#define ELEMENT(at) (uint(int(x_raw(at))) & 0xffu)
#define LOAD_ELEMENTS(r, places) FOR(e, 16) r.bytes[e] = ELEMENT(places[e]);
#else
#if FLOATS
#define ELEMENT(at) x_raw(at)
#else
#define ELEMENT(at) uint(x_ptr.v[at])
#endif
#define LOAD_ELEMENTS(r, places) \
  FOR(e, 4) r.lo[e] = ELEMENT(places[e]); \
  FOR(e, 4) r.hi[e] = ELEMENT(places[e + 4]);
#endif
#define ALL_OF_CHUNK ((1u << CHUNK) - 1u)

/// Where the window of a column begins.
struct Column {
  uint base;
  int id, ih, iw;
  bool valid;
};

Column column_of(uint g, uint c) {
  Column r;
  const uint image = c / CONV_PIXELS;
  uint p = c - image * CONV_PIXELS;
  r.valid = c < columns;
  r.id = 0;
#ifdef DEPTH
  const uint od = p / (out_h * out_w);
  p -= od * (out_h * out_w);
  r.id = int(od * stride_d) - pad_d;
#endif
  const uint oh = p / out_w;
  r.ih = int(oh * stride_h) - pad_h;
  r.iw = int((p - oh * out_w) * stride_w) - pad_w;
  r.base = image * x_n + g * ic_count * x_c;
  return r;
}

/// Where tap number `tap` of a column's window reads channel 0; false: nowhere.
bool tap_source(Column c, uint tap, out uint at) {
  const ConvTap t = conv_tap(tap);
  uint ih, iw;
  const bool rows = conv_source(c.ih + int(t.h * dil_h), lhs_h, in_h, ih);
  const bool cols = conv_source(c.iw + int(t.w * dil_w), lhs_w, in_w, iw);
  at = c.base + ih * x_h + iw * x_w;
#ifdef DEPTH
  uint id;
  const bool images = conv_source(c.id + int(t.d * dil_d), lhs_d, in_d, id);
  at += id * x_d;
  return images && rows && cols;
#else
  return rows && cols;
#endif
}

/// Chunk q of k for a column. Without branches, so that all loads are in flight together: what does
/// not count is loaded from element 0 and masked when it is stored.
Gathered gather(uint q, Column c) {
  Gathered r;
#if FLAT
  uint at[CHUNK];
  r.mask = 0u;
#if BYTES
  r.exists = 0u;
#endif
  FOR(e, CHUNK) {
    const uint k = q * CHUNK + e, ic = k / CONV_TAPS;
    const bool counts = tap_source(c, k - ic * CONV_TAPS, at[e]) && c.valid && ic < ic_count;
    r.mask |= counts ? 1u << e : 0u;
#if BYTES
    r.exists |= ic < ic_count ? 1u << e : 0u;
#endif
    at[e] = counts ? at[e] + ic * x_c : 0u;
  }
  LOAD_ELEMENTS(r, at)
#else
  const uint tap = q / ic_chunks, ic = (q - tap * ic_chunks) * CHUNK;
  uint at;
  const bool counts = tap_source(c, tap, at) && c.valid && tap < CONV_TAPS;
  at = counts ? at + ic * x_c : 0u;
  r.mask = counts ? ALL_OF_CHUNK : 0u;
#if BYTES
  r.exists = tap < CONV_TAPS ? ALL_OF_CHUNK : 0u;
#endif
#if X_LAST
  tv_chunks p = tv_chunks(x_ptr) + at / CHUNK;
  r.chunk = LOAD_CHUNK(p);
#else
  uint places[CHUNK];
#if WHOLE_IC
  FOR(e, CHUNK) places[e] = at + e * x_c;
#else
  // Of the channels that exist.
  const uint last = min(CHUNK - 1u, ic_count - 1u - (tap < CONV_TAPS ? ic : 0u));
  r.mask &= (2u << last) - 1u;
#if BYTES
  r.exists &= (2u << last) - 1u;
#endif
  FOR(e, CHUNK) places[e] = at + (counts ? min(e, last) * x_c : 0u);
#endif
  LOAD_ELEMENTS(r, places)
#endif
#endif
  return r;
}

#if !BYTES
/// What was gathered, with zeros for what does not count.
Chunk chunk_of(Gathered r) {
#if X_LAST
  Chunk c = r.chunk;
  if (r.mask == 0u) c = NO_CHUNK;
#else
#if FLAT || !WHOLE_IC
  FOR(e, 4) {
    r.lo[e] = (r.mask >> e & 1u) != 0u ? r.lo[e] : 0;
    r.hi[e] = (r.mask >> (e + 4) & 1u) != 0u ? r.hi[e] : 0;
  }
#endif
#if FLOATS
  Chunk c = Chunk(r.lo, r.hi);
#else
  Chunk c = Chunk(r.lo.x | r.lo.y << 16, r.lo.z | r.lo.w << 16, r.hi.x | r.hi.y << 16,
                  r.hi.z | r.hi.w << 16);
#endif
#if !FLAT && WHOLE_IC
  if (r.mask == 0u) c = NO_CHUNK;
#endif
#endif
  return c;
}
#endif

/// Writes a chunk's pieces to shared memory.
void stash(uint at, Chunk c) {
  FOR(p, PIECES) sh[at + p * PIECE] = split_chunk(c, p);
}

#if DYNAMIC_SCALE
/// The largest |x|, and of those other than 0 the least (twice its bits, less one).
void measure(Chunk c, inout float largest, inout uint least) {
  FOR(e, 4) {
    largest = max(largest, max(abs(c.lo[e]), abs(c.hi[e])));
    least = min(least, min((floatBitsToUint(c.lo[e]) << 1) - 1u,
        (floatBitsToUint(c.hi[e]) << 1) - 1u));
  }
}

/// 2^(from - to) for exponents as fp32 has them.
float ratio_of(uint from, uint to) {
  return uintBitsToFloat(uint(max(127 + int(from) - int(to), 0)) << 23);
}
#endif
