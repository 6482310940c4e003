#include <algorithm>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/spec/engine_spec.h"

namespace tv {

namespace {

constexpr uint32_t kSpirvMagic = 0x07230203;
constexpr size_t kSpirvHeaderWords = 5;
constexpr int64_t kMaxBytes = int64_t{1} << 47;  // what a device can address
constexpr int64_t kMaxGroups = (int64_t{1} << 32) - 1;
constexpr size_t kMaxParamBytes = 64 << 10;
constexpr size_t kMaxPushConstantBytes = 128;       // what Vulkan promises; more goes in a block
constexpr int64_t kMaxElements = int64_t{1} << 31;  // kernels count in 32 bits
constexpr uint32_t kMaxSubgroup = 128;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kUser, "[engine] " + what);
}

/// Right, but more than kernels can count: the caller computes it otherwise.
[[noreturn]] void fail_too_large(const std::string& what) {
  throw Error(ErrorKind::kUnsupported,
              "[engine] " + what + "; engines take tensors of fewer than 2^31 elements");
}

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

const Binding* binding_of(const EngineSpec& spec, const Buffer& buffer) {
  switch (buffer.kind) {
    case BufferKind::kInput:
      return &spec.inputs[buffer.index];
    case BufferKind::kOutput:
      return &spec.outputs[buffer.index];
    case BufferKind::kWeight:
      return &spec.weights[buffer.index];
    case BufferKind::kPersistent:
    case BufferKind::kArena:
    case BufferKind::kCheck:
      return nullptr;
  }
  return nullptr;
}

void check_index(size_t index, size_t count, const std::string& what) {
  if (index >= count)
    fail(what + " " + std::to_string(index) + " does not exist; there are " +
         std::to_string(count));
}

void check_symbols_of(const Expr& expr, const EngineSpec& spec, const std::string& where) {
  for (const int32_t id : expr.symbols())
    if (id < 0 || static_cast<size_t>(id) >= spec.symbols.size())
      fail(where + " uses symbol " + std::to_string(id) + "; there are " +
           std::to_string(spec.symbols.size()));
}

/// True where `dim` is c1 * s + c0, so that the caller's shape gives the value of symbol `id`.
bool determines(const Expr& dim, int32_t id, const EngineSpec& spec) {
  const std::vector<int32_t> ids = dim.symbols();
  if (ids.size() != 1 || ids[0] != id) return false;
  std::vector<int64_t> values;
  for (const Symbol& symbol : spec.symbols) values.push_back(symbol.opt);
  return dim.solve(dim.eval(values)).has_value();
}

void check_symbols(const EngineSpec& spec) {
  for (size_t i = 0; i < spec.symbols.size(); ++i) {
    const Symbol& s = spec.symbols[i];
    if (s.min > s.opt || s.opt > s.max)
      fail("symbol " + quoted(s.name) + " has the range " + std::to_string(s.min) + " to " +
           std::to_string(s.max) + " with optimum " + std::to_string(s.opt));
    const bool determined = std::ranges::any_of(spec.inputs, [&](const Binding& input) {
      return std::ranges::any_of(input.shape, [&](const Expr& dim) {
        return determines(dim, static_cast<int32_t>(i), spec);
      });
    });
    if (!determined) fail("symbol " + quoted(s.name) + " is determined by no input's shape");
  }
}

void check_conditions(const EngineSpec& spec) {
  for (const Condition& condition : spec.conditions) {
    if (condition.relation > Relation::kMultiple) fail("a condition of an unknown kind");
    check_symbols_of(condition.left, spec, "a condition");
    check_symbols_of(condition.right, spec, "a condition");
  }
}

void check_bindings(const EngineSpec& spec, const std::vector<Binding>& bindings,
                    const std::string& what, bool constant) {
  for (const Binding& binding : bindings) {
    const std::string where = what + " " + quoted(binding.name);
    if (size_bytes(binding.dtype) == 0) fail(where + " has no dtype that an engine can hold");
    if (binding.written && what != "input") fail(where + " is marked as a written input");
    if (binding.strides.size() != binding.shape.size())
      fail(where + " has " + std::to_string(binding.strides.size()) + " strides for " +
           std::to_string(binding.shape.size()) + " dimensions");
    for (const Shape* shape : {&binding.shape, &binding.strides}) {
      for (const Expr& dim : *shape) {
        check_symbols_of(dim, spec, where);
        if (constant && !dim.is_constant()) fail(where + " has a size that is not constant");
      }
    }
  }
}

void check_buffers(const EngineSpec& spec) {
  for (const Buffer& buffer : spec.buffers) {
    const std::string where = "buffer " + quoted(buffer.name);
    switch (buffer.kind) {
      case BufferKind::kInput:
        check_index(buffer.index, spec.inputs.size(), where + ": input");
        break;
      case BufferKind::kOutput:
        check_index(buffer.index, spec.outputs.size(), where + ": output");
        break;
      case BufferKind::kWeight:
        check_index(buffer.index, spec.weights.size(), where + ": weight");
        break;
      case BufferKind::kPersistent:
      case BufferKind::kArena:
        break;
      case BufferKind::kCheck:
        if (!(buffer.size_bytes == Expr(4 * kCheckWords))) fail(where + " has a wrong size");
        check_index(buffer.index, 2, where + ": whether calls wait");
        break;
      default:
        fail(where + " has an unknown kind");
    }
    check_symbols_of(buffer.size_bytes, spec, where);
    const bool constant =
        buffer.kind == BufferKind::kWeight || buffer.kind == BufferKind::kPersistent;
    if (constant && !buffer.size_bytes.is_constant())
      fail(where + " has a size that is not constant");
  }
}

void check_pipelines(const EngineSpec& spec) {
  for (size_t i = 0; i < spec.modules.size(); ++i)
    if (spec.modules[i].size() < kSpirvHeaderWords || spec.modules[i][0] != kSpirvMagic)
      fail("module " + std::to_string(i) + " is not SPIR-V");
  for (const Pipeline& pipeline : spec.pipelines) {
    check_index(pipeline.module, spec.modules.size(), "a pipeline's module");
    const uint32_t size = pipeline.subgroup_size;
    if (size > kMaxSubgroup || (size & (size - 1)) != 0)
      fail("a pipeline wants a subgroup of " + std::to_string(size));
  }
}

void check_parameters(const EngineSpec& spec, const Dispatch& dispatch, const std::string& where) {
  const size_t bytes = 8 * dispatch.operands.size() + 4 * dispatch.words.size();
  const size_t limit =
      spec.pipelines[dispatch.pipeline].param_block ? kMaxParamBytes : kMaxPushConstantBytes;
  if (bytes > limit)
    fail(where + " has " + std::to_string(bytes) + " bytes of parameters, at most " +
         std::to_string(limit) + " fit");
}

/// The weight program runs once, before any shape is known.
void check_constant(const Dispatch& dispatch, const std::string& where) {
  const auto is_symbolic = [](const Expr& expr) { return !expr.is_constant(); };
  const bool words = std::ranges::any_of(dispatch.words, [&](const ParamWord& word) {
    const Expr* expr = expr_of(word);
    return expr && is_symbolic(*expr);
  });
  const bool ranges = std::ranges::any_of(dispatch.operands, [&](const OperandRange& operand) {
    return is_symbolic(operand.offset_bytes) || is_symbolic(operand.size_bytes);
  });
  if (words || ranges || std::ranges::any_of(dispatch.grid, is_symbolic))
    fail(where + " of the weight program depends on a symbol");
}

/// Checks indices and access of one program. `written[i]`: an earlier dispatch wrote buffer i.
void check_program(const EngineSpec& spec, const std::vector<Dispatch>& program, bool for_weights,
                   std::vector<bool>& written) {
  for (const Dispatch& dispatch : program) {
    const std::string where = "dispatch " + quoted(dispatch.name);
    check_index(dispatch.pipeline, spec.pipelines.size(), where + ": pipeline");
    check_parameters(spec, dispatch, where);
    for (const ParamWord& word : dispatch.words)
      if (const Expr* expr = expr_of(word)) check_symbols_of(*expr, spec, where);
    for (const Expr& groups : dispatch.grid) check_symbols_of(groups, spec, where);
    check_symbols_of(dispatch.iterations, spec, where);
    if (for_weights) check_constant(dispatch, where);
    if (dispatch.flat_grid && !(dispatch.grid[1] == Expr(1) && dispatch.grid[2] == Expr(1)))
      fail(where + " has a flat grid of more than one dimension");
    for (const OperandRange& operand : dispatch.operands) {
      check_index(operand.buffer, spec.buffers.size(), where + ": buffer");
      check_symbols_of(operand.offset_bytes, spec, where);
      check_symbols_of(operand.size_bytes, spec, where);
      const Buffer& buffer = spec.buffers[operand.buffer];
      const bool constant = buffer.kind == BufferKind::kWeight ||
                            buffer.kind == BufferKind::kPersistent ||
                            buffer.kind == BufferKind::kCheck;
      if (for_weights && !constant)
        fail(where + " of the weight program touches " + quoted(buffer.name) +
             ", which is neither a weight nor made from weights");
      const bool read_only =
          (buffer.kind == BufferKind::kInput && !spec.inputs[buffer.index].written) ||
          buffer.kind == BufferKind::kWeight ||
          (buffer.kind == BufferKind::kPersistent && !for_weights);
      if (operand.write && read_only)
        fail(where + " writes " + quoted(buffer.name) + ", which is read only");
      const bool made_here =
          buffer.kind != BufferKind::kInput && buffer.kind != BufferKind::kWeight;
      const bool has_bytes = !(buffer.size_bytes == Expr(0));
      if (operand.read && !operand.write && made_here && has_bytes && !written[operand.buffer])
        fail(where + " reads " + quoted(buffer.name) + ", which nothing has written");
    }
    for (const OperandRange& operand : dispatch.operands)
      if (operand.write) written[operand.buffer] = true;
  }
}

void check_outputs_written(const EngineSpec& spec, const std::vector<bool>& written) {
  std::vector<bool> done(spec.outputs.size(), false);
  for (size_t i = 0; i < spec.buffers.size(); ++i)
    if (spec.buffers[i].kind == BufferKind::kOutput && written[i])
      done[spec.buffers[i].index] = true;
  for (size_t i = 0; i < done.size(); ++i) {
    const bool is_empty = std::ranges::any_of(
        spec.outputs[i].shape, [](const Expr& dim) { return dim.constant() == int64_t{0}; });
    if (!done[i] && !is_empty) fail("output " + quoted(spec.outputs[i].name) + " is never written");
  }
}

/// Bytes of a dense tensor; checks that the strides are a permutation of the row-major ones.
int64_t bytes_at(const Binding& binding, std::span<const int64_t> symbols) {
  std::vector<int64_t> sizes;
  for (const Expr& dim : binding.shape) {
    sizes.push_back(dim.eval(symbols));
    if (sizes.back() < 0)
      fail(quoted(binding.name) + " has a dimension of size " + std::to_string(sizes.back()));
  }
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;  // whatever the others are
  int64_t bytes = size_bytes(binding.dtype);
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size; sizes of 1 have any stride
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) dims.emplace_back(binding.strides[i].eval(symbols), sizes[i]);
    if (__builtin_mul_overflow(bytes, sizes[i], &bytes) || bytes > kMaxBytes)
      fail(quoted(binding.name) + " has more bytes than a device can address");
  }
  if (bytes / size_bytes(binding.dtype) >= kMaxElements)
    fail_too_large(quoted(binding.name) + " has " + std::to_string(bytes) + " bytes");
  std::sort(dims.begin(), dims.end());
  int64_t want = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != want)
      fail(quoted(binding.name) + " is not dense; got the stride " + std::to_string(stride) +
           ", want " + std::to_string(want));
    want *= size;
  }
  return bytes;
}

int64_t buffer_bytes_at(const EngineSpec& spec, const Buffer& buffer,
                        std::span<const int64_t> symbols) {
  const int64_t bytes = buffer.size_bytes.eval(symbols);
  const Binding* binding = binding_of(spec, buffer);
  const int64_t limit = binding ? bytes_at(*binding, symbols) : kMaxBytes;
  if (bytes < 0 || bytes > limit)
    fail("buffer " + quoted(buffer.name) + " has " + std::to_string(bytes) + " bytes, want 0 to " +
         std::to_string(limit));
  return bytes;
}

void check_words_at(const Dispatch& dispatch, const std::string& where,
                    std::span<const int64_t> symbols) {
  for (const ParamWord& word : dispatch.words) {
    try {
      word_at(word, symbols);
    } catch (const Error& error) {
      throw Error(error.kind(), "[engine] " + where + ": " + error.what());
    }
  }
}

void check_program_at(const std::vector<Dispatch>& program, const EngineSpec& spec,
                      std::span<const int64_t> buffer_bytes, std::span<const int64_t> symbols) {
  for (const Dispatch& dispatch : program) {
    const std::string where = "dispatch " + quoted(dispatch.name);
    bool empty = false;
    for (const Expr& expr : dispatch.grid) {
      const int64_t groups = expr.eval(symbols);
      if (groups < 0 || groups > kMaxGroups)
        fail(where + " has " + std::to_string(groups) + " workgroups");
      empty = empty || groups == 0;
    }
    if (empty) continue;  // it is not run
    check_words_at(dispatch, where, symbols);
    for (const OperandRange& operand : dispatch.operands) {
      const int64_t offset = operand.offset_bytes.eval(symbols);
      const int64_t size = operand.size_bytes.eval(symbols);
      const int64_t whole = buffer_bytes[operand.buffer];
      if (offset < 0 || size < 0 || offset > whole || size > whole - offset)
        fail(where + " touches " + std::to_string(size) + " bytes from " + std::to_string(offset) +
             " of " + quoted(spec.buffers[operand.buffer].name) + ", which has " +
             std::to_string(whole));
      // Of the engine's own, whose elements have four bytes or fewer; int64 is refused at half the
      // number.
      const bool own = binding_of(spec, spec.buffers[operand.buffer]) == nullptr;
      if (own && size >= kMaxElements * 4)
        fail_too_large(where + " touches " + std::to_string(size) + " bytes");
    }
  }
}

/// Symbol values worth trying: all at their optimum, minimum and maximum, and for few symbols every
/// combination of minima and maxima. Without a maximum, something beyond the optimum.
std::vector<std::vector<int64_t>> samples(const EngineSpec& spec) {
  constexpr size_t kMostCombined = 3;
  const size_t count = spec.symbols.size();
  std::vector<int64_t> low, middle, high;
  for (const Symbol& s : spec.symbols) {
    const bool is_size = s.min >= 0;  // else a number, of which most are no use as a size
    middle.push_back(s.opt);
    low.push_back(is_size ? s.min : s.opt);
    high.push_back(!is_size                 ? s.opt
                   : s.max < kUnbounded / 4 ? s.max
                                            : std::min(s.opt, kUnbounded / 4) * 2 + 1);
  }
  if (count == 0) return {middle};
  if (count > kMostCombined) return {middle, low, high};
  std::vector<std::vector<int64_t>> result = {middle};
  for (size_t corner = 0; corner < size_t{1} << count; ++corner) {
    std::vector<int64_t>& values = result.emplace_back(low);
    for (size_t i = 0; i < count; ++i)
      if (corner >> i & 1) values[i] = high[i];
  }
  return result;
}

/// False if a tensor or buffer would be larger than any device's memory: ranges may be generous.
bool is_addressable(const EngineSpec& spec, std::span<const int64_t> symbols) {
  try {
    for (const auto* bindings : {&spec.inputs, &spec.outputs})
      for (const Binding& binding : *bindings)
        if ((product(binding.shape) * size_bytes(binding.dtype)).eval(symbols) > kMaxBytes)
          return false;
    return std::ranges::none_of(spec.buffers, [&](const Buffer& buffer) {
      return buffer.size_bytes.eval(symbols) > kMaxBytes;
    });
  } catch (const Error&) {  // a size passes 2^63
    return false;
  }
}

}  // namespace

void validate_at(const EngineSpec& spec, std::span<const int64_t> symbols) {
  if (symbols.size() != spec.symbols.size())
    fail("got " + std::to_string(symbols.size()) + " symbol values, want " +
         std::to_string(spec.symbols.size()));
  if (const Condition* broken = first_broken(spec.conditions, symbols))
    fail(broken->refusal(spec.symbols, symbols));
  for (const auto* bindings : {&spec.inputs, &spec.outputs, &spec.weights})
    for (const Binding& binding : *bindings) bytes_at(binding, symbols);
  std::vector<int64_t> buffer_bytes;
  int64_t total_bytes = 0;  // each is at most 2^47, so the sum of what was accepted fits
  for (const Buffer& buffer : spec.buffers) {
    buffer_bytes.push_back(buffer_bytes_at(spec, buffer, symbols));
    total_bytes += buffer_bytes.back();
    if (total_bytes > kMaxBytes) fail("its buffers have more bytes than a device can address");
  }
  check_program_at(spec.weight_program, spec, buffer_bytes, symbols);
  check_program_at(spec.dispatches, spec, buffer_bytes, symbols);
}

void validate(const EngineSpec& spec) {
  check_bindings(spec, spec.inputs, "input", /*constant=*/false);
  check_bindings(spec, spec.outputs, "output", /*constant=*/false);
  check_bindings(spec, spec.weights, "weight", /*constant=*/true);
  check_symbols(spec);
  check_conditions(spec);
  check_buffers(spec);
  check_pipelines(spec);
  std::vector<bool> written(spec.buffers.size(), false);
  check_program(spec, spec.weight_program, /*for_weights=*/true, written);
  check_program(spec, spec.dispatches, /*for_weights=*/false, written);
  check_outputs_written(spec, written);
  const auto values = samples(spec);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0 && !is_addressable(spec, values[i])) continue;
    if (first_broken(spec.conditions, values[i])) continue;  // bind_shapes refuses them
    try {
      validate_at(spec, values[i]);
    } catch (const Error& error) {
      // A shape that is refused when it comes is no fault of the engine.
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
  }
}

}  // namespace tv
