// out[i] = v<i>: numbers that come as parameters. Grid: one invocation, which stores them all.

void main() {
  if (gl_LocalInvocationID.x == 0u) {
    STORES
  }
}
