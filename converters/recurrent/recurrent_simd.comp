// One step of a recurrent network on CPU drivers (simd.glsl): LSTM, GRU, TANH or RELU, as
// recurrent.comp has them, from the states before it to `hidden_out` and `cell_out`, [batch][H].
// A GRU_RESET_FIRST takes two: RESET gives r h and z, from which NEW makes the state.
//
// The product of `vector`, [batch][H], with COUNT rows of the weight from k_0 on is unrolled;
// longer products are several launches (ADD), which add to `sums`, [batch][GATES][TILES · 2 LANES]:
// that of k_0 = 0 overwrites them. LAST: the launch makes the step's results.
//
// weight: [TILES][H][GATES][2 LANES] (recurrent_pack.comp). A workgroup has a tile of 2 LANES units
// of ROWS entries of the batch. Where H is no multiple, the last tile begins earlier, at
// H - 2 LANES, and rows past the end repeat the last: both write what others write there, too.
// gates_0, y_0: where those of the step begin.
// Grid: (ceil(batch / ROWS), TILES).

#if SMALL_GRID
#define UNIFORM(id) simd_uniform_small(id)
#else
#define UNIFORM(id) simd_uniform(id)
#endif
#define HAS_CELL (KIND == LSTM || KIND == RESET)

const uint PLACE[GATES] = uint[GATES](PLACES);
const uint WIDTH = 2u * LANES, SEGMENT = 32u;

float acc[GATES][ROWS][2];

/// Sets acc to the product of `vector` with the COUNT rows.
void multiply(uint tile, uint row[ROWS]) {
  tv_ref_f32 pw = simd_at(weight_ptr, (tile * H + k_0) * (WIDTH * GATES));
  [[unroll]] for (uint g = 0u; g < GATES; g++) {
    [[unroll]] for (uint i = 0u; i < ROWS; i++) acc[g][i][0] = acc[g][i][1] = 0.0;
  }
  SIMD_UNROLL for (uint s = 0u; s < COUNT; s += SEGMENT) {
    float part[GATES][ROWS][2];  // of a segment: keeps the rounding error of long sums small
    [[unroll]] for (uint g = 0u; g < GATES; g++) {
      [[unroll]] for (uint i = 0u; i < ROWS; i++) part[g][i][0] = part[g][i][1] = 0.0;
    }
    SIMD_UNROLL for (uint k4 = 0u; k4 < SEGMENT / 4u; k4++) {
      if (s + 4u * k4 >= COUNT) break;
      vec4 h[ROWS];
      [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        h[i] = simd_vec4(simd_at(vector_ptr, row[i] * H + k_0), s / 4u + k4);
      }
      [[unroll]] for (uint k = 0u; k < 4u; k++) {
        [[unroll]] for (uint g = 0u; g < GATES; g++) {
          tv_ref_f32 p = simd_at(pw, ((s + 4u * k4 + k) * GATES + g) * WIDTH);
          const float w0 = simd_load(p), w1 = simd_load(simd_at(p, LANES));
          [[unroll]] for (uint i = 0u; i < ROWS; i++) {
            part[g][i][0] = fma(h[i][k], w0, part[g][i][0]);
            part[g][i][1] = fma(h[i][k], w1, part[g][i][1]);
          }
        }
      }
    }
    [[unroll]] for (uint g = 0u; g < GATES; g++) {
      [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        acc[g][i][0] += part[g][i][0];
        acc[g][i][1] += part[g][i][1];
      }
    }
    SIMD_WAIT  // the driver's time to compile grows with the square of the loads in a block
  }
}

#if ADD
tv_ref_f32 sums_of(uint tile, uint row, uint g) {
  return simd_at(sums_ptr, ((row * GATES + g) * TILES + tile) * WIDTH);
}
#endif

#if LAST
/// Element i of gates, for lane 0; the next lanes get the next ones.
float gate_input(uint i) {
#if PLAIN_GATES
  return simd_load(simd_at(gates_ptr, i));
#else
  return float(gates_raw(i + gl_SubgroupInvocationID));
#endif
}

#if BIAS
float bias_of(uint i) {
#if PLAIN_BIAS
  return simd_load(simd_at(bias_ptr, i));
#else
  return float(bias_load(i + gl_SubgroupInvocationID));
#endif
}
#endif

/// The step's results of a unit: h, and what HAS_CELL stores beside it. `at`: where its state is;
/// x, sum: the parts of each gate.
vec2 results(uint at, float x[GATES], float sum[GATES]) {
#if KIND == LSTM
  const float cell = tv_sigmoid(x[1] + sum[1]) * simd_load(simd_at(cell_ptr, at)) +
                     tv_sigmoid(x[0] + sum[0]) * tv_tanh(x[2] + sum[2]);
  return vec2(tv_sigmoid(x[3] + sum[3]) * tv_tanh(cell), cell);
#elif KIND == GRU
  const float r = tv_sigmoid(x[0] + sum[0]), z = tv_sigmoid(x[1] + sum[1]);
  const float n = tv_tanh(x[2] + r * sum[2]);
  return vec2((1.0 - z) * n + z * simd_load(simd_at(before_ptr, at)), 0.0);
#elif KIND == RESET
  const float before = simd_load(simd_at(before_ptr, at));
  return vec2(tv_sigmoid(x[0] + sum[0]) * before, tv_sigmoid(x[1] + sum[1]));
#elif KIND == NEW
  const float z = simd_load(simd_at(update_ptr, at)), before = simd_load(simd_at(before_ptr, at));
  return vec2((1.0 - z) * tv_tanh(x[0] + sum[0]) + z * before, 0.0);
#elif KIND == TANH
  return vec2(tv_tanh(x[0] + sum[0]), 0.0);
#else
  return vec2(x[0] + sum[0] < 0.0 ? 0.0 : x[0] + sum[0], 0.0);
#endif
}

/// Makes the step's results of acc, and stores them.
void finish(uint unit, uint row[ROWS]) {
  float h[ROWS][2], c[ROWS][2];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    [[unroll]] for (uint half_ = 0u; half_ < 2u; half_++) {
      const uint u = unit + half_ * LANES, at = row[i] * H + u;
      float x[GATES], sum[GATES];
      [[unroll]] for (uint g = 0u; g < GATES; g++) {
        x[g] = gate_input(gates_0 + row[i] * gates_b + PLACE[g] * H + u);
        sum[g] = acc[g][i][half_];
#if BIAS
        sum[g] += bias_of(PLACE[g] * H + u);
#endif
      }
      const vec2 made = results(at, x, sum);
      h[i][half_] = made.x;
      c[i][half_] = made.y;
    }
  }
  simd_held held_h[ROWS], held_c[ROWS], held_y[ROWS];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    const uint at = row[i] * H + unit;
    held_h[i] = simd_store2(simd_at(hidden_out_ptr, at), h[i][0], h[i][1]);
#if HAS_CELL
    held_c[i] = simd_store2(simd_at(cell_out_ptr, at), c[i][0], c[i][1]);
#endif
#if HAS_Y && PLAIN_Y
    held_y[i] = simd_store2(simd_at(y_ptr, y_0 + at), h[i][0], h[i][1]);
#elif HAS_Y
    y_store(y_0 + at + gl_SubgroupInvocationID, h[i][0]);
    y_store(y_0 + at + LANES + gl_SubgroupInvocationID, h[i][1]);
#endif
  }
  SIMD_WAIT
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    simd_release(held_h[i]);
#if HAS_CELL
    simd_release(held_c[i]);
#endif
#if HAS_Y && PLAIN_Y
    simd_release(held_y[i]);
#endif
  }
}
#endif

void main() {
  const uint rows = UNIFORM(gl_WorkGroupID.x), tile = UNIFORM(gl_WorkGroupID.y);
  uint row[ROWS];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) row[i] = min(rows * ROWS + i, batch_last);
  multiply(tile, row);
#if ADD
  [[unroll]] for (uint g = 0u; g < GATES; g++) {
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
      tv_ref_f32 p = sums_of(tile, row[i], g);
      acc[g][i][0] += mix(simd_load(p), 0.0, k_0 == 0u);
      acc[g][i][1] += mix(simd_load(simd_at(p, LANES)), 0.0, k_0 == 0u);
    }
  }
#endif
#if LAST
  finish(min(tile * WIDTH, H - WIDTH), row);
#else
  simd_held held[GATES][ROWS];
  [[unroll]] for (uint g = 0u; g < GATES; g++) {
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
      held[g][i] = simd_store2(sums_of(tile, row[i], g), acc[g][i][0], acc[g][i][1]);
    }
  }
  SIMD_WAIT
  [[unroll]] for (uint g = 0u; g < GATES; g++) {
    [[unroll]] for (uint i = 0u; i < ROWS; i++) simd_release(held[g][i]);
  }
#endif
}
