#include "csrc/codegen/kernel_words.h"

#include <bit>

#include "csrc/codegen/glsl_types.h"

namespace tv {

namespace {

constexpr int kTableBits = 3;  // tv_uniform looks up five digits of a number below 2^15

}  // namespace

std::string KernelWords::add(const char* type, ParamWord value) {
  const std::string name = "w" + std::to_string(words_.size());
  members_ += std::string("  ") + type + " " + name + ";\n";
  words_.push_back(std::move(value));
  return "tv_p." + name;
}

std::string KernelWords::uint_word(const Expr& value) {
  const auto [it, is_new] = known_.try_emplace(value.str());
  if (is_new) it->second = add("uint", value);
  return it->second;
}

std::string KernelWords::float_word(float value) { return add("float", value); }

std::string KernelWords::number(const Expr& value, DType dtype) {
  const std::string type = glsl_type(dtype);
  if (dtype != DType::kI64) return add(type.c_str(), NumberWord{value, dtype});
  const std::string low = add("uint", NumberWord{value, dtype});
  const std::string high = add("uint", NumberWord{value, dtype, /*high=*/true});
  return "int64_t(uint64_t(" + low + ") | uint64_t(" + high + ") << 32)";
}

std::string KernelWords::division(const std::string& n, const Expr& d) {
  const auto constant = d.constant();
  if (!constant || *constant < 2) return "(" + n + " / " + uint_word(d) + ")";
  const int log = std::bit_width(static_cast<uint64_t>(*constant - 1));
  const uint64_t power = uint64_t{1} << (31 + log);
  const auto divisor = static_cast<uint64_t>(*constant);
  const auto magic = static_cast<int64_t>((power + divisor - 1) / divisor);
  return "tv_div_magic(" + n + ", " + uint_word(Expr(magic)) + ", " + uint_word(Expr(log - 1)) +
         ")";
}

void KernelWords::add_uniform_table() {
  members_ += "  uint table[" + std::to_string(1 << kTableBits) + "];\n";
  for (int k = 0; k < 1 << kTableBits; ++k) words_.emplace_back(Expr(k));
}

}  // namespace tv
