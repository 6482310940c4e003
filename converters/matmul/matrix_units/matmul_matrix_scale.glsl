// Of scaled operands (matmul_scale.comp): what the chunks that an invocation of matmul_matrix.comp
// loads are multiplied by before they are split, by groups of 16 rows or columns.

float up_a[NA];

void find_scales_of_a() {
#if A_COLS
  FOR(i, NA) up_a[i] = inverse_power(scale_a_raw(
      z * scale_a_z + min((bm * BM + col_a * 8) / 16, (m_count - 1) / 16)));
#else
  FOR(i, NA) up_a[i] = inverse_power(scale_a_raw(
      z * scale_a_z + min(bm * BM + row_a + i * STEP_A, m_count - 1) / 16));
#endif
}

#if !PACKED
float up_b[NB];

void find_scales_of_b() {
#if B_COLS
  FOR(i, NB) up_b[i] = inverse_power(scale_b_raw(
      z * scale_b_z + min(bn * BN + row_b + i * STEP_B, n_count - 1) / 16));
#else
  FOR(i, NB) up_b[i] = inverse_power(scale_b_raw(
      z * scale_b_z + min((bn * BN + col_b * 8) / 16, (n_count - 1) / 16)));
#endif
}
#endif
