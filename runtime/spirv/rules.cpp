#include "runtime/spirv/rules.h"

#include <algorithm>
#include <map>

#include "runtime/spirv/types.h"

namespace tv {
namespace {

constexpr uint32_t kWorkgroupSize = 25;  // a builtin

bool ends_block(uint32_t op) {
  return (op >= spv::kBranch && op <= spv::kSwitch) ||
         (op >= spv::kReturn && op <= spv::kUnreachable);
}

/// The checker of one module; facts are filled on the way.
class Rules {
 public:
  Rules(const SpirvModule& module, const SpirvLimits& limits) : m_(module), limits_(limits) {}

  SpirvFacts check() {
    const auto& all = m_.instructions();
    for (size_t at = 0; at < m_.first_function(); ++at) check_global(all[at]);
    if (facts_.entry == 0) refuse_spirv("a module has no entry point");
    if (!has_model_) refuse_spirv("a module has no memory model");
    for (size_t at = m_.first_function(); at < all.size();) at = check_function(at);
    if (m_.definition(facts_.entry).op != spv::kFunction)
      refuse_spirv("a module's entry point is no function");
    const SpirvType& type = m_.type(m_.definition(facts_.entry).operand(1));
    if (!type.members.empty() || m_.type(type.element).op != spv::kTypeVoid) {
      refuse_spirv("a module's entry point takes or returns values");
    }
    check_sizes();
    check_calls(m_, facts_.entry, limits_.instructions);
    check_scopes(m_, facts_);
    return std::move(facts_);
  }

 private:
  void check_global(const SpirvInstruction& i) {
    switch (i.op) {
      case spv::kMemoryModel:
        if ((i.operand(0) != 0 && i.operand(0) != spv::kPhysicalAddressing) ||
            i.operand(1) != spv::kGlsl450) {
          refuse_spirv("a module has the memory model " + std::to_string(i.operand(1)));
        }
        if (has_model_) refuse_spirv("a module has two memory models");
        has_model_ = true;
        break;
      case spv::kEntryPoint:
        check_entry(i);
        break;
      case spv::kExecutionMode:
      case spv::kExecutionModeId:
        check_mode(i);
        break;
      case 10:  // OpExtension
        if (!spirv_allows_extension(text_of(i.words)))
          refuse_spirv("a module uses " + text_of(i.words));
        break;
      case spv::kExtInstImport:
        if (text_of(i.operands()) != "GLSL.std.450")
          refuse_spirv("a module imports unknown instructions");
        break;
      case spv::kDecorate:
      case spv::kMemberDecorate:
        check_spirv_decoration(i);
        break;
      case spv::kTypePointer:
        check_storage(i.operand(0));
        break;
      case spv::kVariable:
        check_variable(i, /*in_function=*/false);
        break;
      case spv::kUndef:
      case spv::kConstantNull:
        if (m_.type(i.type).has_pointer) refuse_spirv("a module makes a pointer from nothing");
        break;
      default:
        check_constant(m_, i);
    }
  }

  static std::string text_of(std::span<const uint32_t> words) {
    std::string text;
    for (const uint32_t word : words) {
      for (int byte = 0; byte < 4; ++byte) {
        const char c = static_cast<char>(word >> (8 * byte) & 0xFFU);
        if (c == 0) return text;
        text += c;
      }
    }
    return text;
  }

  void check_entry(const SpirvInstruction& i) {
    if (facts_.entry != 0) refuse_spirv("a module has two entry points");
    if (i.operand(0) != 5) refuse_spirv("a module is not of a compute shader");
    if (text_of(i.operands().subspan(2)) != "main")
      refuse_spirv("a module's entry point is not main");
    facts_.entry = i.operand(1);
  }

  void check_mode(const SpirvInstruction& i) {
    const uint32_t mode = i.operand(1);
    if (i.operand(0) != facts_.entry) refuse_spirv("a module has an execution mode of nothing");
    const bool local_size = mode == (i.op == spv::kExecutionModeId ? 38U : 17U);
    const bool floats = i.op == spv::kExecutionMode && mode >= 4459 && mode <= 4463;
    if (!local_size && !floats)
      refuse_spirv("a module has the execution mode " + std::to_string(mode));
    if (!local_size) return;
    has_size_ = true;
    uint64_t invocations = 1;
    for (size_t k = 2; k < 5; ++k) {
      uint32_t size = i.operand(k);
      if (i.op == spv::kExecutionModeId)
        sizes_.push_back(size);
      else
        invocations = std::min<uint64_t>(invocations * size, UINT32_MAX);
    }
    check_invocations(invocations);
  }

  void check_invocations(uint64_t invocations) const {
    if (invocations == 0 || invocations > limits_.invocations) {
      refuse_spirv("a module has " + std::to_string(invocations) +
                   " invocations in a workgroup, want 1 to " + std::to_string(limits_.invocations));
    }
  }

  static void check_storage(uint32_t storage) {
    if (storage == spv::kInput || storage == spv::kWorkgroup || storage == spv::kPrivate ||
        storage == spv::kInFunction || storage == spv::kPushConstant || storage == spv::kPhysical) {
      return;
    }
    refuse_spirv("a module has pointers of the storage class " + std::to_string(storage) +
                 (storage == 12 || storage == 2 ? " (a buffer by descriptor)" : ""));
  }

  void check_variable(const SpirvInstruction& i, bool in_function) {
    const SpirvType& pointer = m_.type(i.type);
    const uint32_t storage = i.operand(0);
    if (pointer.op != spv::kTypePointer || pointer.storage != storage ||
        storage == spv::kPhysical || (storage == spv::kInFunction) != in_function) {
      refuse_spirv("a module has a variable of a wrong storage class");
    }
    const SpirvType& type = m_.type(pointer.element);
    if (type.has_runtime_array || type.bytes == 0) {
      refuse_spirv("a module has a variable without a size");
    }
    if (i.operands().size() > 1) {
      const bool own = storage == spv::kInFunction || storage == spv::kPrivate;
      if (!own || m_.type_of(i.operand(1)) != pointer.element || i.operands().size() > 2 ||
          m_.definition_index(i.operand(1)) >= m_.first_function()) {
        refuse_spirv("a module has a variable that begins with a wrong value");
      }
    }
    if (storage == spv::kPushConstant) check_push(i.result, type);
    if (storage == spv::kInput) check_input(i.result, type);
    if (storage == spv::kWorkgroup)
      add(shared_bytes_, type.bytes, limits_.shared_bytes, "shared memory");
    if (storage == spv::kPrivate || in_function) {
      add(private_bytes_, type.bytes, limits_.private_bytes, "variables");
    }
  }

  static void add(uint64_t& sum, uint64_t bytes, uint64_t limit, const std::string& what) {
    sum += bytes;
    if (sum > limit)
      refuse_spirv("a module has more than " + std::to_string(limit) + " bytes of " + what);
  }

  void check_push(uint32_t variable, const SpirvType& type) {
    if (facts_.push != 0) refuse_spirv("a module has two blocks of push constants");
    if (type.op != spv::kTypeStruct || type.memory_bytes == 0 || type.memory_bytes > 128 ||
        !type.aligned) {
      refuse_spirv(
          "a module reads push constants beyond the 128 bytes that there are, or across them");
    }
    facts_.push = variable;
  }

  void check_input(uint32_t variable, const SpirvType& type) const {
    bool found = false;
    m_.decoration_of(variable, -1, spv::kBuiltIn, found);
    const bool vector = type.op == spv::kTypeVector;
    const SpirvType& number = vector ? m_.type(type.element) : type;
    if (!found || number.op != spv::kTypeInt || number.width != 32) {
      refuse_spirv("a module has an input that is no builtin");
    }
  }

  // Functions and their blocks.
  size_t check_function(size_t at);
  size_t check_block(size_t at);
  void check_branches(size_t begin, size_t end);
  void check_branch(size_t at, uint32_t target);
  void check_sizes() const;

  const SpirvModule& m_;
  const SpirvLimits& limits_;
  SpirvFacts facts_;
  bool has_model_ = false, has_size_ = false;
  uint64_t shared_bytes_ = 0, private_bytes_ = 0;
  std::vector<uint32_t> sizes_;  ///< of the workgroup, as constants
  // Of the function that is being read.
  std::map<uint32_t, size_t> labels_;
  std::map<uint32_t, size_t> merges_;  ///< by label: the merge instruction of its block
  uint32_t return_type_ = 0;
  bool first_block_ = false;
};

size_t Rules::check_function(size_t at) {
  const auto& all = m_.instructions();
  const SpirvInstruction& function = all[at];
  if (function.op != spv::kFunction)
    refuse_spirv("a module has an instruction outside of functions");
  const SpirvType& type = m_.type(function.operand(1));
  if (type.op != spv::kTypeFunction || type.element != function.type) {
    refuse_spirv("a module has a function of a wrong type");
  }
  return_type_ = type.element;
  const SpirvType& result = m_.type(return_type_);
  if (result.op == spv::kTypePointer && result.storage != spv::kPhysical) {
    refuse_spirv("a module returns a pointer to a variable");
  }
  size_t end = at + 1;
  for (const uint32_t parameter : type.members) {
    if (end >= all.size() || all[end].op != spv::kFunctionParameter || all[end].type != parameter) {
      refuse_spirv("a module has a function whose parameters are not those of its type");
    }
    if (m_.type(parameter).storage == spv::kPushConstant)
      refuse_spirv("a module hands on its push constants");
    ++end;
  }
  labels_.clear();
  merges_.clear();
  first_block_ = true;
  const size_t begin = end;
  while (end < all.size() && all[end].op == spv::kLabel) {
    end = check_block(end);
    first_block_ = false;
  }
  if (end >= all.size() || all[end].op != spv::kFunctionEnd || end == begin) {
    refuse_spirv("a module has a function without an end or a body");
  }
  check_branches(begin, end);
  return end + 1;
}

/// One block, from its label; returns where the next begins.
size_t Rules::check_block(size_t at) {
  const auto& all = m_.instructions();
  const uint32_t label = all[at].result;
  labels_[label] = at;
  bool phis = true, variables = first_block_;
  for (size_t k = at + 1; k < all.size(); ++k) {
    const SpirvInstruction& i = all[k];
    if (i.op == spv::kVariable) {
      if (!variables) refuse_spirv("a module has a variable in the middle of a function");
      check_variable(i, /*in_function=*/true);
      continue;
    }
    variables = false;
    if (i.op == spv::kPhi) {
      if (!phis || first_block_) refuse_spirv("a module has OpPhi in a wrong place");
    } else {
      phis = false;
    }
    const bool merge = i.op == spv::kLoopMerge || i.op == spv::kSelectionMerge;
    if (merge) {
      if (k + 1 >= all.size() || !ends_block(all[k + 1].op))
        refuse_spirv("a module has a merge in a wrong place");
      merges_[label] = k;
      continue;
    }
    check_instruction(m_, i, return_type_);
    if (ends_block(i.op)) return k + 1;
    if (i.op == spv::kLabel || i.op == spv::kFunction || i.op == spv::kFunctionEnd ||
        i.op == spv::kFunctionParameter) {
      break;
    }
  }
  refuse_spirv("a module has a block without an end");
}

void Rules::check_branches(size_t begin, size_t end) {
  const auto& all = m_.instructions();
  for (size_t at = begin; at < end; ++at) {
    const SpirvInstruction& i = all[at];
    const auto operands = i.operands();
    if (i.op == spv::kBranch) check_branch(at, i.operand(0));
    if (i.op == spv::kBranchConditional) {
      if (operands.size() != 3 && operands.size() != 5)
        refuse_spirv("a module has a branch that is wrong");
      check_branch(at, i.operand(1));
      check_branch(at, i.operand(2));
    }
    if (i.op == spv::kSwitch) {
      if (operands.size() % 2 != 0) refuse_spirv("a module has a switch that is wrong");
      check_branch(at, i.operand(1));
      for (size_t k = 3; k < operands.size(); k += 2) check_branch(at, operands[k]);
    }
    if (i.op == spv::kLoopMerge || i.op == spv::kSelectionMerge) {
      if (!labels_.contains(i.operand(0))) refuse_spirv("a module has a merge that is nowhere");
      if (i.op == spv::kLoopMerge && !labels_.contains(i.operand(1))) {
        refuse_spirv("a module has a loop that continues nowhere");
      }
    }
    if (i.op == spv::kPhi) {
      for (size_t k = 1; k < operands.size(); k += 2) {
        if (!labels_.contains(operands[k]))
          refuse_spirv("a module has OpPhi of a block that is nowhere");
      }
    }
  }
}

/// Whatever runs in a circle goes back in the order of blocks somewhere, and there it is counted.
void Rules::check_branch(size_t at, uint32_t target) {
  const auto found = labels_.find(target);
  if (found == labels_.end()) refuse_spirv("a module branches to what is no block of the function");
  if (found->second > at) return;
  const auto& all = m_.instructions();
  const auto merge = merges_.find(target);
  if (merge == merges_.end() || all[merge->second].op != spv::kLoopMerge) {
    refuse_spirv("a module goes back to a block that is no loop's head");
  }
  size_t before = at;
  if (all[at - 1].op == spv::kLoopMerge && merge->second == at - 1)
    before = at - 1;  // a loop of one block
  else if (all[at - 1].op == spv::kLoopMerge || all[at - 1].op == spv::kSelectionMerge) {
    refuse_spirv("a module goes back from the head of another construct");
  }
  const uint32_t exit = all[merge->second].operand(0);
  const SpirvInstruction& branch = all[at];
  const bool plain = branch.op == spv::kBranch;
  if (!plain && (branch.op != spv::kBranchConditional ||
                 std::minmax(branch.operand(1), branch.operand(2)) != std::minmax(target, exit) ||
                 target == exit)) {
    refuse_spirv("a module goes back by a branch that leads elsewhere, too");
  }
  const size_t exit_at = labels_.contains(exit) ? labels_[exit] : 0;
  if (exit_at == 0 || (plain && exit_at + 1 < all.size() && all[exit_at + 1].op == spv::kPhi)) {
    refuse_spirv("a module has a loop whose values depend on how it was left");
  }
  facts_.back_edges.push_back({at, before, target, exit});
}

/// Of the workgroup: the builtin constant goes before the execution mode.
void Rules::check_sizes() const {
  const auto check = [&](std::span<const uint32_t> sizes) {
    uint64_t invocations = 1;
    for (const uint32_t size : sizes) {
      uint32_t value = 0;
      if (!m_.constant(size, value)) {
        refuse_spirv("a module's workgroup has a size that is no constant");
      }
      invocations = std::min<uint64_t>(invocations * value, UINT32_MAX);
    }
    check_invocations(invocations);
  };
  if (!has_size_) refuse_spirv("a module's workgroup has no size");
  if (!sizes_.empty()) check(sizes_);
  for (size_t at = 0; at < m_.first_function(); ++at) {
    const SpirvInstruction& i = m_.instructions()[at];
    if (i.op != spv::kDecorate || i.words[1] != spv::kBuiltIn || i.operand(2) != kWorkgroupSize)
      continue;
    const SpirvInstruction& sizes = m_.definition(i.words[0]);
    if (sizes.op != spv::kConstantComposite) {
      refuse_spirv("a module's workgroup has a size that is no constant");
    }
    check(sizes.operands());
  }
}

}  // namespace

SpirvFacts check_spirv(const SpirvModule& module, const SpirvLimits& limits) {
  return Rules(module, limits).check();
}

}  // namespace tv
