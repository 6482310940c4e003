// Which outputs a product in float16 pieces leaves to matmul_simt: those whose rows of a and
// columns of b together may lose more than they should (matmul_scale.comp), by groups of 16.

float lost_a(uint z, uint group) {
  return scale_a_raw(z * scale_a_z + (m_count + 15u) / 16u + group);
}
float lost_b(uint z, uint group) {
  return scale_b_raw(z * scale_b_z + (n_count + 15u) / 16u + group);
}
bool needs_fallback(uint z, uint m, uint n) {
  return lost_a(z, m / 16u) + lost_b(z, n / 16u) > 1.0;
}
