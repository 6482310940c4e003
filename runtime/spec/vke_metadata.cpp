#include "runtime/spec/vke_metadata.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <bit>
#include <limits>
#include <map>

#include "runtime/base/error.h"
#include "runtime/spec/vke.pb.h"

namespace tv {

namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr size_t kMaxExprText = 4096;
constexpr size_t kMaxRank = 64;
enum Tag : uint64_t { kConstant = 0, kTable = 1, kFloat = 2, kNumber = 3 };
constexpr int kNumberBits = 5;  // of a number's code: four of the dtype, one of which half

[[noreturn]] void fail_metadata(const std::string& what) {
  throw Error(ErrorKind::kUser, "[vke] the metadata is not valid: " + what);
}

uint64_t zigzag(int64_t v) {
  return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
}
int64_t unzigzag(uint64_t v) { return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1)); }

/// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<uint8_t>(bytes[i]);
    const size_t size = lead < 0x80       ? 1
                        : lead >> 5 == 6  ? 2
                        : lead >> 4 == 14 ? 3
                        : lead >> 3 == 30 ? 4
                                          : 0;
    if (size == 0 || size > bytes.size() - i) return false;
    uint32_t code = size == 1 ? lead : lead & (0x7Fu >> size);
    for (size_t k = 1; k < size; ++k) {
      const auto next = static_cast<uint8_t>(bytes[i + k]);
      if (next >> 6 != 2) return false;
      code = code << 6 | (next & 0x3Fu);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast[size] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    i += size;
  }
  return true;
}

const std::string& text(const std::string& value) {
  if (!is_utf8(value)) fail_metadata("a name is not UTF-8");
  return value;
}

class Encoder {
 public:
  explicit Encoder(vke::Engine& engine) : engine_(engine) {}

  uint64_t code(const Expr& expr) {
    const std::optional<int64_t> constant = expr.constant();
    if (constant && zigzag(*constant) >> 62 == 0) return zigzag(*constant) << 2 | kConstant;
    return row(expr) << 2 | kTable;
  }

  /// The number of an expression in the table.
  uint64_t row(const Expr& expr) {
    const std::string text = expr.str();
    if (text.size() > kMaxExprText)
      throw Error(ErrorKind::kInternal, "[vke] an expression has " + std::to_string(text.size()) +
                                            " characters, want " + std::to_string(kMaxExprText));
    const auto [found, is_new] = table_.try_emplace(text, table_.size());
    if (is_new) engine_.add_exprs(text);
    return found->second;
  }

  uint64_t code(const ParamWord& word) {
    if (const float* number = std::get_if<float>(&word))
      return uint64_t{std::bit_cast<uint32_t>(*number)} << 2 | kFloat;
    const auto* number = std::get_if<NumberWord>(&word);
    if (number == nullptr) return code(std::get<Expr>(word));
    const uint64_t kind = static_cast<uint64_t>(number->dtype) << 1 | (number->high ? 1 : 0);
    return (row(number->value) << kNumberBits | kind) << 2 | kNumber;
  }

  void add(const Binding& from, vke::Binding& to) {
    to.set_name(text(from.name));
    to.set_dtype(static_cast<uint32_t>(from.dtype));
    for (const Expr& dim : from.shape) to.add_shape(code(dim));
    for (const Expr& stride : from.strides) to.add_strides(code(stride));
    to.set_written(from.written);
  }

  void add(const Dispatch& from, vke::Dispatch& to) {
    to.set_name(text(from.name));
    to.set_pipeline(from.pipeline);
    for (const OperandRange& operand : from.operands) {
      to.add_operands(operand.buffer);
      to.add_operands(code(operand.offset_bytes));
      to.add_operands(code(operand.size_bytes));
      to.add_operands((operand.read ? 1 : 0) | (operand.write ? 2 : 0));
    }
    for (const ParamWord& word : from.words) to.add_words(code(word));
    for (const Expr& groups : from.grid) to.add_grid(code(groups));
    to.set_flat_grid(from.flat_grid);
    to.set_tactic(text(from.tactic));
    to.set_module_path(text(from.module_path));
    to.set_source(text(from.source));
    for (const std::string& op : from.ops) to.add_ops(text(op));
    to.set_time_us(from.time_us);
    to.set_iterations(code(from.iterations));
    to.set_looks_up(from.looks_up);
  }

 private:
  vke::Engine& engine_;
  std::map<std::string, uint64_t> table_;
};

class Decoder {
 public:
  explicit Decoder(const vke::Engine& engine) {
    for (const std::string& expr : engine.exprs()) {
      if (expr.size() > kMaxExprText) fail_metadata("an expression is too long");
      exprs_.push_back(Expr::parse(text(expr)));
    }
  }

  Expr expr(uint64_t code) const {
    if ((code & 3) == kConstant) return unzigzag(code >> 2);
    if ((code & 3) != kTable || code >> 2 >= exprs_.size())
      fail_metadata("an expression is unknown");
    return exprs_[code >> 2];
  }

  template <class Codes>
  Shape shape(const Codes& codes) const {
    if (static_cast<size_t>(codes.size()) > kMaxRank)
      fail_metadata("a shape has too many dimensions");
    Shape result;
    for (const uint64_t code : codes) result.push_back(expr(code));
    return result;
  }

  Binding binding(const vke::Binding& from) const {
    if (from.dtype() > static_cast<uint32_t>(DType::kBool)) fail_metadata("a dtype is unknown");
    return {text(from.name()), static_cast<DType>(from.dtype()), shape(from.shape()),
            shape(from.strides()), from.written()};
  }

  Buffer buffer(const vke::Buffer& from) const {
    if (from.kind() > static_cast<uint32_t>(BufferKind::kCheck))
      fail_metadata("a buffer's kind is unknown");
    return {static_cast<BufferKind>(from.kind()), from.index(), expr(from.size_bytes()),
            text(from.name())};
  }

  Condition condition(const vke::Condition& from) const {
    if (from.relation() > static_cast<uint32_t>(Relation::kMultiple))
      fail_metadata("a condition's relation is unknown");
    return {static_cast<Relation>(from.relation()), expr(from.left()), expr(from.right()),
            text(from.source())};
  }

  Dispatch dispatch(const vke::Dispatch& from) const {
    if (from.operands_size() % 4 != 0) fail_metadata("an operand is not complete");
    if (from.grid_size() != 3) fail_metadata("a grid does not have three dimensions");
    Dispatch to;
    to.name = text(from.name());
    to.pipeline = from.pipeline();
    for (int i = 0; i < from.operands_size(); i += 4) {
      const uint64_t buffer = from.operands(i), access = from.operands(i + 3);
      if (buffer > std::numeric_limits<uint32_t>::max() || access > 3)
        fail_metadata("an operand is out of range");
      to.operands.push_back({static_cast<uint32_t>(buffer), expr(from.operands(i + 1)),
                             expr(from.operands(i + 2)), (access & 1) != 0, (access & 2) != 0});
    }
    for (const uint64_t code : from.words()) to.words.push_back(word(code));
    for (int i = 0; i < 3; ++i) to.grid[i] = expr(from.grid(i));
    to.flat_grid = from.flat_grid();
    to.tactic = text(from.tactic());
    to.module_path = text(from.module_path());
    to.source = text(from.source());
    for (const std::string& op : from.ops()) to.ops.push_back(text(op));
    to.time_us = from.time_us();
    to.iterations = expr(from.iterations());
    to.looks_up = from.looks_up();
    return to;
  }

 private:
  ParamWord word(uint64_t code) const {
    if ((code & 3) == kNumber) return number(code >> 2);
    if ((code & 3) != kFloat) return expr(code);
    if (code >> 2 > std::numeric_limits<uint32_t>::max())
      fail_metadata("a parameter is out of range");
    return std::bit_cast<float>(static_cast<uint32_t>(code >> 2));
  }

  NumberWord number(uint64_t code) const {
    const uint64_t row = code >> kNumberBits, dtype = code >> 1 & 15;
    if (row >= exprs_.size()) fail_metadata("an expression is unknown");
    if (dtype == 0 || dtype > static_cast<uint64_t>(DType::kBool))
      fail_metadata("a dtype is unknown");
    return {exprs_[row], static_cast<DType>(dtype), (code & 1) != 0};
  }

  std::vector<Expr> exprs_;
};

/// An empty sub-message is two bytes in the file and a few hundred in memory. Each that we write
/// has more: refusing shorter ones before parsing bounds the memory that a crafted file can claim.
void check_message_sizes(std::span<const uint8_t> bytes) {
  CodedInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  while (const uint32_t tag = in.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    uint32_t least_bytes = 0;
    if (field == vke::Engine::kWeightProgramFieldNumber ||
        field == vke::Engine::kDispatchesFieldNumber)
      least_bytes = 5;  // the grid
    if (field == vke::Engine::kSymbolsFieldNumber || field == vke::Engine::kInputsFieldNumber ||
        field == vke::Engine::kOutputsFieldNumber || field == vke::Engine::kWeightsFieldNumber ||
        field == vke::Engine::kBuffersFieldNumber || field == vke::Engine::kPipelinesFieldNumber ||
        field == vke::Engine::kConditionsFieldNumber)
      least_bytes = 2;  // a symbol's maximum, a dtype, a kind, a module, a relation
    if (least_bytes == 0) {
      if (!WireFormatLite::SkipField(&in, tag)) fail_metadata("it cannot be parsed");
      continue;
    }
    uint32_t size = 0;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
        !in.ReadVarint32(&size) || size < least_bytes || size > bytes.size() ||
        !in.Skip(static_cast<int>(size)))
      fail_metadata("it cannot be parsed");
  }
}

}  // namespace

uint64_t weight_bytes(const Binding& binding) {
  int64_t bytes = size_bytes(binding.dtype);
  for (const Expr& dim : binding.shape) {
    const std::optional<int64_t> size = dim.constant();
    if (!size || *size < 0 || __builtin_mul_overflow(bytes, *size, &bytes))
      throw Error(ErrorKind::kUser, "[vke] weight \"" + binding.name +
                                        "\" has a size that is not constant or too large");
  }
  return static_cast<uint64_t>(bytes);
}

std::string encode_metadata(const EngineSpec& spec, std::span<const HostTensor> weights) {
  vke::Engine engine;
  Encoder encoder(engine);
  engine.set_name(text(spec.name));
  engine.set_builder_version(text(spec.builder_version));
  engine.set_runs_on(text(spec.runs_on));
  engine.set_tuned_for(text(spec.tuned_for));
  for (const Symbol& symbol : spec.symbols) {
    vke::Symbol& to = *engine.add_symbols();
    to.set_name(text(symbol.name));
    to.set_min(symbol.min);
    to.set_opt(symbol.opt);
    to.set_max(symbol.max);
  }
  for (const Condition& condition : spec.conditions) {
    vke::Condition& to = *engine.add_conditions();
    to.set_relation(static_cast<uint32_t>(condition.relation));
    to.set_left(encoder.code(condition.left));
    to.set_right(encoder.code(condition.right));
    to.set_source(text(condition.source));
  }
  for (const Binding& binding : spec.inputs) encoder.add(binding, *engine.add_inputs());
  for (const Binding& binding : spec.outputs) encoder.add(binding, *engine.add_outputs());
  for (const Binding& binding : spec.weights) encoder.add(binding, *engine.add_weights());
  for (const Buffer& buffer : spec.buffers) {
    vke::Buffer& to = *engine.add_buffers();
    to.set_kind(static_cast<uint32_t>(buffer.kind));
    to.set_index(buffer.index);
    to.set_size_bytes(encoder.code(buffer.size_bytes));
    to.set_name(text(buffer.name));
  }
  for (const auto& module : spec.modules) engine.add_module_words(module.size());
  for (const Pipeline& pipeline : spec.pipelines) {
    vke::Pipeline& to = *engine.add_pipelines();
    to.set_module(pipeline.module);
    for (const uint32_t word : pipeline.spec_constants) to.add_spec_constants(word);
    to.set_subgroup_size(pipeline.subgroup_size);
    to.set_full_subgroups(pipeline.full_subgroups);
    to.set_param_block(pipeline.param_block);
  }
  for (const Dispatch& d : spec.weight_program) encoder.add(d, *engine.add_weight_program());
  for (const Dispatch& d : spec.dispatches) encoder.add(d, *engine.add_dispatches());
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint64_t want = weight_bytes(spec.weights[i]);
    if (weights[i].size_bytes < 0 || static_cast<uint64_t>(weights[i].size_bytes) != want)
      throw Error(ErrorKind::kUser, "[vke] weight " + std::to_string(i) + " \"" +
                                        spec.weights[i].name + "\" has " +
                                        std::to_string(weights[i].size_bytes) + " bytes, want " +
                                        std::to_string(want));
    engine.add_weight_bytes(want);
  }
  return engine.SerializeAsString();
}

Metadata decode_metadata(std::span<const uint8_t> bytes) {
  if (bytes.size() > std::numeric_limits<int>::max()) fail_metadata("it is too long");
  check_message_sizes(bytes);
  vke::Engine engine;
  if (!engine.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail_metadata("it cannot be parsed");
  const Decoder decoder(engine);
  Metadata result;
  EngineSpec& spec = result.spec;
  spec.name = text(engine.name());
  spec.builder_version = text(engine.builder_version());
  spec.runs_on = text(engine.runs_on());
  spec.tuned_for = text(engine.tuned_for());
  for (const vke::Symbol& symbol : engine.symbols())
    spec.symbols.push_back({text(symbol.name()), symbol.min(), symbol.opt(), symbol.max()});
  for (const auto& condition : engine.conditions())
    spec.conditions.push_back(decoder.condition(condition));
  for (const auto& binding : engine.inputs()) spec.inputs.push_back(decoder.binding(binding));
  for (const auto& binding : engine.outputs()) spec.outputs.push_back(decoder.binding(binding));
  for (const auto& binding : engine.weights()) spec.weights.push_back(decoder.binding(binding));
  for (const auto& buffer : engine.buffers()) spec.buffers.push_back(decoder.buffer(buffer));
  for (const auto& from : engine.pipelines())
    spec.pipelines.push_back({from.module(),
                              {from.spec_constants().begin(), from.spec_constants().end()},
                              from.subgroup_size(),
                              from.full_subgroups(),
                              from.param_block()});
  for (const auto& d : engine.weight_program()) spec.weight_program.push_back(decoder.dispatch(d));
  for (const auto& d : engine.dispatches()) spec.dispatches.push_back(decoder.dispatch(d));
  result.module_words.assign(engine.module_words().begin(), engine.module_words().end());
  result.weight_bytes.assign(engine.weight_bytes().begin(), engine.weight_bytes().end());
  return result;
}

}  // namespace tv
