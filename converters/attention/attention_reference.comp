// y = softmax(scale · q kᵀ + mask) · v, plainly: an invocation for each query of each head, with
// the online softmax in fp32. Operands and defines as in attention_flash.comp.
// Grid: flat, one invocation for each of `heads` · `queries`.

#include "attention_places.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= heads * queries) return;
  const uint head = id / queries, m = id - head * queries;
  heads_OFFSETS(head)

  const float minus_inf = uintBitsToFloat(0xff800000u);
  float o[DV], most = minus_inf, total = 0.0;
  for (uint d = 0u; d < DV; d++) o[d] = 0.0;
#if CAUSAL
  const int place = FIRST_QUERY + int(m);
  const uint begin = seen_begin(place), last = seen_end(place);
#else
  const uint begin = 0u, last = keys;
#endif
  const float by = SCALE;
  for (uint n = begin; n < last; n++) {
    float s = 0.0;
    for (uint d = 0u; d < D; d++) {
      s = fma(float(q_raw(q_offset + m * q_m + d * q_d)),
              float(k_raw(k_offset + n * k_n + d * k_d)), s);
    }
    precise float score = s * by;
    s = CAPPED(score);
#if MASK == 1
    if (mask_raw(mask_offset + m * mask_m + n * mask_n) == 0) continue;
#elif MASK == 2
    s += float(mask_raw(mask_offset + m * mask_m + n * mask_n));
#endif
    const float largest = max(most, s);
    const float shift = largest == minus_inf ? 0.0 : largest;
    const float shrink = tv_exp(most - shift), p = tv_exp(s - shift);
    most = largest;
    total = fma(total, shrink, p);
    for (uint d = 0u; d < DV; d++) {
      o[d] = fma(o[d], shrink, p * float(v_raw(v_offset + n * v_n + d * v_d)));
    }
  }
  const float inverse = INVERSE(total);
  for (uint d = 0u; d < DV; d++) y_store(id * DV + d, RESULT(float, o[d], inverse));
#if LSE
  lse_store(id, most + tv_log(total));
#endif
}
