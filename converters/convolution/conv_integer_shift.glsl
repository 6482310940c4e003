// What is subtracted from the bytes of a convolution's operands, which are multiplied as signed
// ones, X_OFFSET and W_OFFSET less than the elements.

int x_shift_of_all() {
#if X_ZERO
  return int(x_zero_raw(0u)) - X_OFFSET;
#else
  return -X_OFFSET;
#endif
}

int w_shift_of(uint oc) {
#if W_ZERO
  return int(w_zero_raw(oc * w_zero_step)) - W_OFFSET;
#else
  return -W_OFFSET;
#endif
}
