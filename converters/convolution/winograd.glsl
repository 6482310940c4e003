// Winograd's transforms for windows of 3 and OUT outputs, 2 or 4, in one dimension, at points 0, 1,
// -1 (, 2, -2) and infinity (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
// 2015, section 4): y = A^T ((G g) * (B^T d)).

#define WINOGRAD_IN (OUT + 2u)
#define WINOGRAD_POINTS (WINOGRAD_IN * WINOGRAD_IN)

/// B^T d.
void winograd_input(inout float d[WINOGRAD_IN]) {
#if OUT == 2
  d = float[](d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]);
#else
  const float even = d[4] - 4.0 * d[2], odd = d[3] - 4.0 * d[1];
  const float even2 = d[4] - d[2], odd2 = 2.0 * (d[3] - d[1]);
  d = float[](4.0 * d[0] - 5.0 * d[2] + d[4], even + odd, even - odd, even2 + odd2, even2 - odd2,
              4.0 * d[1] - 5.0 * d[3] + d[5]);
#endif
}

/// G g.
void winograd_weight(float g[3], out float t[WINOGRAD_IN]) {
#if OUT == 2
  t = float[](g[0], 0.5 * (g[0] + g[2] + g[1]), 0.5 * (g[0] + g[2] - g[1]), g[2]);
#else
  const float sides = g[0] + g[2], far = g[0] + 4.0 * g[2];
  t = float[](0.25 * g[0], (sides + g[1]) / -6.0, (sides - g[1]) / -6.0,
              (far + 2.0 * g[1]) / 24.0, (far - 2.0 * g[1]) / 24.0, g[2]);
#endif
}

/// A^T m.
void winograd_output(float m[WINOGRAD_IN], out float y[OUT]) {
#if OUT == 2
  y = float[](m[0] + m[1] + m[2], m[1] - m[2] - m[3]);
#else
  const float sum = m[1] + m[2], less = m[1] - m[2], sum2 = m[3] + m[4], less2 = m[3] - m[4];
  y = float[](m[0] + sum + sum2, less + 2.0 * less2, sum + 4.0 * sum2, less + 8.0 * less2 + m[5]);
#endif
}
