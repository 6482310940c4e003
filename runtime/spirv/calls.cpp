// Which functions of a module call which.

#include <algorithm>
#include <map>

#include "runtime/spirv/rules.h"

namespace tv {

/// Sums up what a driver makes of each function with its calls expanded; nothing calls itself.
void check_calls(const SpirvModule& module, uint32_t entry, uint64_t most) {
  const auto& all = module.instructions();
  std::map<uint32_t, std::vector<uint32_t>> callees;
  std::map<uint32_t, uint64_t> sizes;
  uint32_t function = 0;
  for (size_t at = module.first_function(); at < all.size(); ++at) {
    if (all[at].op == spv::kFunction) callees[function = all[at].result];
    ++sizes[function];
    if (all[at].op == spv::kFunctionCall) callees[function].push_back(all[at].operand(0));
  }
  std::map<uint32_t, int> state;  // 1: being summed up, 2: done
  std::vector<uint32_t> stack;
  for (const auto& [root, unused] : callees) {
    stack.push_back(root);
    while (!stack.empty()) {
      const uint32_t f = stack.back();
      if (state[f] == 0) {
        state[f] = 1;
        for (const uint32_t callee : callees[f]) {
          if (state[callee] == 1) refuse_spirv("a module's functions call themselves");
          if (state[callee] == 0) stack.push_back(callee);
        }
        continue;
      }
      stack.pop_back();
      if (state[f] == 2) continue;
      state[f] = 2;
      for (const uint32_t callee : callees[f]) {
        sizes[f] = std::min(sizes[f] + sizes[callee], most + 1);
      }
    }
  }
  if (sizes[entry] > most) refuse_spirv("a module is too large with its calls expanded");
  for (const auto& [f, called] : callees) {
    if (std::ranges::find(called, entry) != called.end())
      refuse_spirv("a module calls its entry point");
  }
}

}  // namespace tv
