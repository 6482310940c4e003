// Elements of a convolution's operands, less their zero points where they are integers that have
// any (X_ZERO, W_ZERO; a kernel has one of the two, or both).

#ifdef X_ZERO
float conv_x(uint at) {
#if X_ZERO
  return float(int(x_raw(at)) - int(x_zero_raw(0u)));
#else
  return float(x_raw(at));
#endif
}
#endif

#ifdef W_ZERO
float conv_w(uint at, uint oc) {
#if W_ZERO
  return float(int(w_raw(at)) - int(w_zero_raw(oc * w_zero_step)));
#else
  return float(w_raw(at));
#endif
}
#endif
