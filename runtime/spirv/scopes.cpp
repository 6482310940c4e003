// Values are used where they are there: behind their definition on every path, in its function.

#include <algorithm>
#include <map>

#include "runtime/spirv/rules.h"

namespace tv {
namespace {

/// The blocks of one function and what dominates them (Cooper, Harvey and Kennedy, "A Simple, Fast
/// Dominance Algorithm").
class Blocks {
 public:
  Blocks(const SpirvModule& m, size_t begin, size_t end, const SpirvFacts& facts) : begin_(begin) {
    const auto& all = m.instructions();
    of_.assign(end - begin, -1);
    for (size_t at = begin; at < end; ++at) {
      if (all[at].op == spv::kLabel) {
        number_[all[at].result] = static_cast<int>(ends_.size());
        ends_.push_back(at);
      }
      if (!ends_.empty() && all[at].op != spv::kFunctionEnd) {
        ends_.back() = at;
        of_[at - begin] = static_cast<int>(ends_.size()) - 1;
      }
    }
    next_.resize(ends_.size());
    for (size_t b = 0; b < ends_.size(); ++b) next_[b] = targets(all[ends_[b]]);
    for (const BackEdge& edge : facts.back_edges) {  // the guard leaves loops from there
      if (edge.branch >= begin && edge.branch < end) {
        next_[static_cast<size_t>(block_at(edge.branch))].push_back(number_.at(edge.merge));
      }
    }
    order();
    dominate();
    number_tree();
  }

  int block_at(size_t instruction) const { return of_[instruction - begin_]; }
  int block_of(uint32_t label) const { return number_.at(label); }
  bool reached(int block) const { return place_[static_cast<size_t>(block)] >= 0; }
  bool dominates(int a, int b) const {
    const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
    return first_[x] <= first_[y] && last_[y] <= last_[x];
  }

 private:
  std::vector<int> targets(const SpirvInstruction& i) const {
    std::vector<int> found;
    const auto operands = i.operands();
    if (i.op == spv::kBranch) found = {number_.at(operands[0])};
    if (i.op == spv::kBranchConditional) found = {number_.at(operands[1]), number_.at(operands[2])};
    for (size_t k = 1; i.op == spv::kSwitch && k < operands.size(); k = k == 1 ? 3 : k + 2) {
      found.push_back(number_.at(operands[k]));
    }
    return found;
  }

  /// Reverse postorder from the first block.
  void order() {
    place_.assign(ends_.size(), -1);
    std::vector<std::pair<int, size_t>> stack = {{0, 0}};
    std::vector<bool> seen(ends_.size(), false);
    seen[0] = true;
    while (!stack.empty()) {
      auto& [block, edge] = stack.back();
      const auto& next = next_[static_cast<size_t>(block)];
      if (edge == next.size()) {
        order_.push_back(block);
        stack.pop_back();
        continue;
      }
      const int to = next[edge++];
      if (seen[static_cast<size_t>(to)]) continue;
      seen[static_cast<size_t>(to)] = true;
      stack.emplace_back(to, 0);
    }
    std::ranges::reverse(order_);
    for (size_t k = 0; k < order_.size(); ++k)
      place_[static_cast<size_t>(order_[k])] = static_cast<int>(k);
  }

  void dominate() {
    std::vector<std::vector<int>> before(order_.size());  // by place
    for (const int block : order_) {
      for (const int to : next_[static_cast<size_t>(block)]) {
        before[static_cast<size_t>(place_[static_cast<size_t>(to)])].push_back(
            place_[static_cast<size_t>(block)]);
      }
    }
    above_.assign(order_.size(), -1);
    above_[0] = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = 1; b < order_.size(); ++b) {
        int found = -1;
        for (int p : before[b]) {
          if (above_[static_cast<size_t>(p)] < 0) continue;
          while (found >= 0 && p != found) {
            int& later = p > found ? p : found;
            later = above_[static_cast<size_t>(later)];
          }
          found = p;
        }
        changed = changed || above_[b] != found;
        above_[b] = found;
      }
    }
  }

  /// a dominates b where b's interval lies in a's.
  void number_tree() {
    std::vector<std::vector<int>> children(order_.size());
    for (size_t b = 1; b < order_.size(); ++b)
      children[static_cast<size_t>(above_[b])].push_back(static_cast<int>(b));
    first_.assign(ends_.size(), -1);
    last_.assign(ends_.size(), -1);
    int clock = 0;
    std::vector<std::pair<int, size_t>> stack = {{0, 0}};
    while (!stack.empty()) {
      auto& [place, child] = stack.back();
      const auto block = static_cast<size_t>(order_[static_cast<size_t>(place)]);
      if (child == 0) first_[block] = clock++;
      const auto& below = children[static_cast<size_t>(place)];
      if (child == below.size()) {
        last_[block] = clock++;
        stack.pop_back();
        continue;
      }
      const int to = below[child++];
      stack.emplace_back(to, 0);
    }
  }

  size_t begin_;
  std::map<uint32_t, int> number_;
  std::vector<size_t> ends_;
  std::vector<int> of_, order_, place_, above_, first_, last_;
  std::vector<std::vector<int>> next_;
};

void check_use(const SpirvModule& m, const Blocks& blocks, uint32_t id, int block, size_t begin,
               size_t end) {
  const size_t at = m.definition_index(id);
  if (at < m.first_function() || !blocks.reached(block)) return;
  const bool here = at > begin && at < end;
  const int from = here ? blocks.block_at(at) : -1;
  const bool parameter = here && m.instructions()[at].op == spv::kFunctionParameter;
  if (parameter || (from >= 0 && blocks.reached(from) && blocks.dominates(from, block))) return;
  refuse_spirv("a module uses a value where it need not be defined");
}

void check_function_scopes(const SpirvModule& m, size_t begin, size_t end,
                           const SpirvFacts& facts) {
  const Blocks blocks(m, begin, end, facts);
  for (size_t at = begin; at < end; ++at) {
    const SpirvInstruction& i = m.instructions()[at];
    const int block = blocks.block_at(at);
    if (block < 0 || i.op == spv::kLabel) continue;
    const auto operands = i.operands();
    if (i.op == spv::kPhi) {
      for (size_t k = 0; k + 1 < operands.size(); k += 2) {
        check_use(m, blocks, operands[k], blocks.block_of(operands[k + 1]), begin, end);
      }
      continue;
    }
    const std::string layout = spirv_layout(i.op);
    const size_t skip = std::min(layout.find_first_not_of("TR"), layout.size());
    for (size_t k = 0; k < operands.size(); ++k) {
      const char c = layout[std::min(skip + k, layout.size() - 1)];
      if (c == 'i' || c == 'I') check_use(m, blocks, operands[k], block, begin, end);
    }
  }
}

}  // namespace

void check_scopes(const SpirvModule& module, const SpirvFacts& facts) {
  const auto& all = module.instructions();
  for (size_t begin = module.first_function(); begin < all.size();) {
    size_t end = begin;
    while (all[end].op != spv::kFunctionEnd) ++end;
    check_function_scopes(module, begin, end + 1, facts);
    begin = end + 1;
  }
}

}  // namespace tv
