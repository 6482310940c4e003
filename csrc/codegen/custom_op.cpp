#include "csrc/codegen/custom_op.h"

#include <cctype>
#include <utility>

#include "csrc/builder.h"
#include "csrc/codegen/kernel.h"
#include "csrc/converter.h"
#include "csrc/user_code.h"
#include "runtime/base/error.h"
#include "runtime/base/sha256.h"

namespace tv {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Whether `text` has `word` by itself.
bool mentions(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) {
      return true;
    }
  }
  return false;
}

/// The tensors of a node by their names in the shader.
std::vector<std::pair<std::string, ValueId>> tensors_of(const CustomOp& op, const Node& node) {
  std::vector<std::pair<std::string, ValueId>> found;
  for (const std::string& name : op.inputs) found.emplace_back(name, node.input(name));
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    found.emplace_back(op.outputs[i], node.outputs.at(i));
  }
  return found;
}

/// A size that the shader reads of a dimension that the tensor has not; "" if there is none.
std::string unsupported(const CustomOp& op, const NodeContext& c) {
  for (const auto& [name, value] : tensors_of(op, c.node)) {
    if (value == kNoValue) return "argument '" + name + "' is None";
    for (size_t k = c.graph.value(value).shape.size(); k < 8; ++k) {
      const std::string size = name + "_size_" + std::to_string(k);
      if (mentions(op.shader, size)) {
        return "its shader reads " + size + ", but '" + name + "' has " +
               std::to_string(c.graph.rank(value)) + " dimensions";
      }
    }
  }
  return "";
}

void convert(const CustomOp& op, const NodeContext& c, Builder& b) {
  Step step{.kernel = op.name, .local_size = op.local_size};
  const auto add = [&](const std::string& name, const Expr& value, DType number = DType::kOther) {
    if (!mentions(op.shader, name)) return;  // each one takes room in the push constants
    step.params.push_back({.name = name, .value = value, .number = number});
  };
  for (const auto& [name, value] : tensors_of(op, c.node)) {
    const bool is_input = step.operands.size() < op.inputs.size();
    step.operands.push_back(is_input ? src(name, value) : dst(name, value));
    const Shape& shape = c.graph.value(value).shape;
    add(name + "_numel", product(shape));
    for (size_t k = 0; k < shape.size(); ++k) {
      add(name + "_size_" + std::to_string(k), shape[k]);
    }
  }
  for (const std::string& name : op.integers) {
    const Attr& attr = c.node.arg(name).attr;
    const bool* flag = std::get_if<bool>(&attr);
    add(name, flag != nullptr ? Expr(*flag ? 1 : 0) : c.node.expr(name), DType::kI32);
  }
  for (const std::string& name : op.floats) {
    if (!mentions(op.shader, name)) continue;
    step.params.push_back({.name = name, .value = static_cast<float>(c.node.number(name))});
  }
  const std::vector<Expr> counts = c.node.exprs(kGridArg);
  if (counts.size() == 1) {
    step.grid = Grid::flat_groups(counts[0]);
  } else {
    for (size_t k = 0; k < counts.size(); ++k) step.grid.groups[k] = counts[k];
  }
  b.emit({{.name = "custom", .steps = {std::move(step)}}});
}

/// The kernel of a launch on vectors, for a device that has everything.
void compile_with(const CustomOp& op, DType other) {
  const DeviceProfile& device = DeviceProfile::builtin_default();
  KernelRequest request{.step = {.kernel = op.name, .local_size = op.local_size}};
  const auto add = [&](const std::string& name) {
    if (mentions(op.shader, name)) request.step.params.push_back({.name = name, .value = Expr(4)});
  };
  const auto add_tensor = [&](const std::string& name, bool write) {
    request.step.operands.push_back(write ? dst(name, 0) : src(name, 0));
    const auto given = op.dtypes.find(name);
    const DType dtype = given == op.dtypes.end() ? other : given->second;
    request.operands.push_back({.name = name,
                                .dtype = dtype,
                                .value_dtype = dtype,
                                .shape = {4},
                                .strides = {1},
                                .storage_elements = 4,
                                .read = !write,
                                .write = write});
    add(name + "_numel");
    for (int k = 0; k < 8; ++k) add(name + "_size_" + std::to_string(k));
  };
  for (const std::string& name : op.inputs) add_tensor(name, false);
  for (const std::string& name : op.outputs) add_tensor(name, true);
  for (const std::string& name : op.integers) add(name);
  for (const std::string& name : op.floats) {
    if (mentions(op.shader, name)) request.step.params.push_back({.name = name, .value = 1.0f});
  }
  compile_kernel(op.name, generate_kernel(request, Settings{}, device).glsl, Settings{});
}

/// Throws what the first of the tries said where all fail.
void try_shader(const CustomOp& op) {
  std::string first;
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kI64}) {
    try {
      return compile_with(op, dtype);
    } catch (const Error& error) {
      if (first.empty()) first = error.what();
      if (!op.dtypes.empty()) break;
    }
  }
  throw Error(ErrorKind::kUser, first);
}

}  // namespace

void add_custom_op(const CustomOp& op) {
  if (Registry::instance().find(op.name) != nullptr) {
    throw Error(ErrorKind::kUser, "[" + op.name + "] has a converter already");
  }
  add_kernel(op.name, op.shader);
  try {
    try_shader(op);
  } catch (const Error&) {
    remove_kernel(op.name);
    throw;
  }
  std::string code = op.shader;
  for (const uint32_t size : op.local_size) code += "\n" + std::to_string(size);
  for (const auto* names : {&op.inputs, &op.outputs, &op.integers, &op.floats}) {
    for (const std::string& name : *names) code += "\n" + name;
    code += "\n;";
  }
  set_code_digest(op.name, sha256_hex(code));
  Registry::instance().add(
      {.op = op.name,
       .unsupported = [op](const NodeContext& c) { return unsupported(op, c); },
       .convert = [op](const NodeContext& c, Builder& b) { convert(op, c, b); },
       .notes = "tv.custom_op"});
}

}  // namespace tv
