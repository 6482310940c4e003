#include "csrc/codegen/bfloat16.h"

#include <cstddef>
#include <cstring>
#include <string>

namespace tv {

namespace {

// Numbers of the SPIR-V specification and of SPV_KHR_bfloat16, which older headers lack.
constexpr size_t kHeaderWords = 5;
constexpr uint32_t kOpExtension = 10, kOpCapability = 17, kOpTypeFloat = 22;
constexpr uint32_t kBFloat16Type = 5116, kBFloat16CooperativeMatrix = 5118;
constexpr uint32_t kEncodingBFloat16 = 0;

uint32_t head(uint32_t words, uint32_t op) { return words << 16 | op; }

void declare(std::vector<uint32_t>& out) {
  for (const uint32_t capability : {kBFloat16Type, kBFloat16CooperativeMatrix}) {
    out.push_back(head(2, kOpCapability));
    out.push_back(capability);
  }
  const std::string name = "SPV_KHR_bfloat16";
  std::vector<uint32_t> text(name.size() / 4 + 1, 0);  // ends with at least one zero byte
  std::memcpy(text.data(), name.data(), name.size());
  out.push_back(head(static_cast<uint32_t>(1 + text.size()), kOpExtension));
  out.insert(out.end(), text.begin(), text.end());
}

}  // namespace

std::vector<uint32_t> to_bfloat16(const std::vector<uint32_t>& words) {
  std::vector<uint32_t> out(words.begin(), words.begin() + kHeaderWords);
  bool declared = false;
  for (size_t at = kHeaderWords; at < words.size();) {
    const uint32_t size = words[at] >> 16, op = words[at] & 0xffffU;
    if (op != kOpCapability && !declared) {
      declare(out);
      declared = true;
    }
    if (op == kOpTypeFloat && words[at + 2] == 16) {
      out.insert(out.end(), {head(4, kOpTypeFloat), words[at + 1], 16, kEncodingBFloat16});
    } else {
      out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(at),
                 words.begin() + static_cast<std::ptrdiff_t>(at + size));
    }
    at += size;
  }
  return out;
}

}  // namespace tv
