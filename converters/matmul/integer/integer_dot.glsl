// Products of four signed bytes of a word at once.

#extension GL_EXT_spirv_intrinsics : require

// OpSDot of packed vectors, of SPIR-V 1.6: GL_EXT_integer_dot_product wants a glslang of 2025.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019],
                  id = 4450)
int integer_sdot(int a, int b, spirv_literal int format);

int integer_dot(uint a, uint b) { return integer_sdot(int(a), int(b), 0); }

uint integer_word(uint64_t from, uint i) {
  uint64_t at = from + uint64_t(i) * 4ul;
#if TV_CHECK
  at = tv_check_ptr(at, 4u);
#endif
  return tv_ref_u32(at).v[0];
}
