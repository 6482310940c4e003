#include "integrations/onnxruntime/context.h"

#include <algorithm>
#include <cstring>

#include "csrc/frontends/onnx/file/tensor.h"
#include "runtime/base/json.h"
#include "runtime/base/sha256.h"
#include "runtime/spec/vke.h"

namespace tv::ort {
namespace {

// A context: this line, the digest of the text in hexadecimal, the size of the text in decimal,
// each with a newline; the text, JSON; the engine, a .vke file, which has a digest of its own.
constexpr std::string_view kHead = "torch_vulkan EPContext 2\n";
constexpr const char* kFrom[] = {"engine", "input", "sizes"};

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorKind::kUser, "the EPContext node's data: " + what);
}

// --- to text ---

Json text_of(const std::vector<Expr>& exprs) {
  Json::Array list;
  for (const Expr& expr : exprs) list.push_back(expr.str());
  return list;
}

Json text_of(const FusedInput& input) {
  return Json::Object{{"name", input.name},
                      {"is_value", input.value != kNoValue},
                      {"dtype", std::string(name(input.dtype))},
                      {"shape", text_of(input.shape)},
                      {"elements", text_of(input.elements)},
                      {"widened", input.widened}};
}

Json text_of(const FusedOutput& output) {
  Json::Object fields{{"name", output.name},
                      {"from", kFrom[static_cast<size_t>(output.from)]},
                      {"index", static_cast<int64_t>(output.index)},
                      {"dtype", std::string(name(output.dtype))},
                      {"shape", text_of(output.shape)},
                      {"widened", output.widened}};
  if (output.numbers) {
    fields["ints"] = text_of(output.numbers->ints);
    fields["floats"] = Json::Array(output.numbers->floats.begin(), output.numbers->floats.end());
  }
  return fields;
}

Json text_of(const EngineInput& input) {
  Json::Object fields;
  fields["shape"] = text_of(input.shape);
  fields["from"] = input.from;
  return fields;
}

Json::Object fields_of(const Wiring& wiring) {
  Json::Array symbols, inputs, outputs, engine_inputs;
  for (const Symbol& symbol : wiring.symbols) symbols.push_back(symbol.name);
  for (const FusedInput& input : wiring.inputs) inputs.push_back(text_of(input));
  for (const FusedOutput& output : wiring.outputs) outputs.push_back(text_of(output));
  for (const EngineInput& input : wiring.engine_inputs) {
    engine_inputs.push_back(text_of(input));
  }
  Json::Object text;
  text.emplace("symbols", std::move(symbols));
  text.emplace("inputs", std::move(inputs));
  text.emplace("outputs", std::move(outputs));
  text.emplace("engine_inputs", std::move(engine_inputs));
  return text;
}

/// `kept`: the weights that the context has itself.
Json text_of(const WeightSource& source, const EngineSpec& spec, const std::string& kept) {
  Json::Object digests;
  for (const Binding& weight : spec.weights) {
    const auto found = source.digests.find(weight.name);
    if (found != source.digests.end()) digests.emplace(found->first, found->second);
  }
  return Json::Object{{"digests", std::move(digests)},
                      {"free", Json::Array(source.free.begin(), source.free.end())},
                      {"frozen", source.frozen},
                      {"network", source.network},
                      {"kept_bytes", static_cast<int64_t>(kept.size())},
                      {"kept", sha256_hex(kept)}};
}

// --- from text ---

const Json& field(const Json& json, const char* key) {
  const auto* object = json.get<Json::Object>();
  const auto found = object ? object->find(key) : Json::Object::const_iterator{};
  if (!object || found == object->end()) damaged(std::string("no ") + key);
  return found->second;
}

template <typename T>
const T& value_of(const Json& json, const char* key) {
  const T* value = field(json, key).get<T>();
  if (!value) damaged(std::string("a ") + key + " of another type");
  return *value;
}

std::vector<Expr> exprs_of(const Json& json, const char* key, size_t symbols) {
  std::vector<Expr> exprs;
  for (const Json& item : value_of<Json::Array>(json, key)) {
    const auto* text = item.get<std::string>();
    if (!text) damaged("a size that is no text");
    exprs.push_back(Expr::parse(*text));
    for (const int32_t symbol : exprs.back().symbols()) {
      if (symbol < 0 || static_cast<size_t>(symbol) >= symbols) damaged("an unknown symbol");
    }
  }
  return exprs;
}

DType dtype_of(const Json& json) { return dtype_from_name(value_of<std::string>(json, "dtype")); }

/// Of a type whose wider one the engine holds.
int32_t widened_of(const Json& json) {
  const int64_t type = value_of<int64_t>(json, "widened");
  if (type == 0) return 0;
  const auto small = static_cast<int32_t>(type);
  if (small != type || onnx::widened_type(small) != small ||
      onnx::dtype_of(small, true) != dtype_of(json)) {
    damaged("a type that is not held in another");
  }
  return small;
}

FusedInput input_of(const Json& json, size_t symbols) {
  FusedInput input{.name = value_of<std::string>(json, "name"),
                   .value = value_of<bool>(json, "is_value") ? 0 : kNoValue,
                   .dtype = dtype_of(json),
                   .shape = exprs_of(json, "shape", symbols),
                   .elements = exprs_of(json, "elements", symbols),
                   .widened = widened_of(json)};
  const bool numbers = input.dtype == DType::kI64 || input.dtype == DType::kI32;
  if (!input.elements.empty() && (!numbers || input.widened)) damaged("numbers of another type");
  return input;
}

FusedOutput output_of(const Json& json, size_t symbols) {
  FusedOutput output{.name = value_of<std::string>(json, "name"),
                     .index = static_cast<size_t>(value_of<int64_t>(json, "index")),
                     .dtype = dtype_of(json),
                     .shape = exprs_of(json, "shape", symbols),
                     .widened = widened_of(json)};
  const auto from = std::find(std::begin(kFrom), std::end(kFrom),
                              std::string_view(value_of<std::string>(json, "from")));
  if (from == std::end(kFrom)) damaged("a result from nowhere");
  output.from = static_cast<FusedOutput::From>(from - std::begin(kFrom));
  if (output.from != FusedOutput::From::kSizes) return output;
  auto numbers = std::make_shared<onnx::Host>();
  numbers->dtype = output.dtype;
  numbers->ints = exprs_of(json, "ints", symbols);
  for (const Json& item : value_of<Json::Array>(json, "floats")) {
    const auto* whole = item.get<int64_t>();
    const auto* number = item.get<double>();
    if (!whole && !number) damaged("a float that is no number");
    numbers->floats.push_back(whole ? static_cast<double>(*whole) : *number);
  }
  const bool other = is_float(output.dtype) ? !numbers->ints.empty() : !numbers->floats.empty();
  if (other || output.widened || output.dtype == DType::kOther) damaged("numbers of another type");
  output.numbers = std::move(numbers);
  return output;
}

WeightSource source_of(const Json& json) {
  WeightSource source{.frozen = value_of<std::string>(json, "frozen"),
                      .network = value_of<std::string>(json, "network")};
  for (const auto& [name, digest] : value_of<Json::Object>(json, "digests")) {
    const auto* text = digest.get<std::string>();
    if (!text) damaged("a digest that is no text");
    source.digests.emplace(name, *text);
  }
  for (const Json& name : value_of<Json::Array>(json, "free")) {
    const auto* text = name.get<std::string>();
    if (!text) damaged("a weight without a name");
    source.free.insert(*text);
  }
  return source;
}

/// Takes the weights that the context has itself from the front of `rest`.
std::string_view kept_in(const Json& source, std::string_view& rest) {
  const int64_t size = value_of<int64_t>(source, "kept_bytes");
  if (size < 0 || static_cast<size_t>(size) > rest.size()) damaged("it is cut off");
  const std::string_view kept = rest.substr(0, static_cast<size_t>(size));
  rest.remove_prefix(kept.size());
  if (sha256_hex(std::string(kept)) != value_of<std::string>(source, "kept")) {
    damaged("its weights are damaged");
  }
  return kept;
}

/// Gives an engine the weights that its context has; the others have no bytes yet.
void place(std::string_view kept, const WeightSource& source, CompiledBlock& compiled) {
  if (!compiled.weights.empty()) damaged("an engine with weights of its own");
  const auto own = std::make_shared<std::string>(kept);
  std::span<const uint8_t> rest(reinterpret_cast<const uint8_t*>(own->data()), own->size());
  for (const Binding& binding : compiled.spec.weights) {
    size_t size = 0;
    if (!source.digests.contains(binding.name)) {
      const int64_t count = onnx::checked_count(sizes_of(binding), "a weight");
      size = static_cast<size_t>(count * size_bytes(binding.dtype));
      if (size > rest.size()) damaged("it lacks a weight");
    }
    compiled.weights.push_back({rest.first(size), own});
    rest = rest.subspan(size);
  }
  if (!rest.empty()) damaged("weights that no engine has");
}

Wiring wiring_of(const Json& json) {
  Wiring wiring;
  for (const Json& symbol : value_of<Json::Array>(json, "symbols")) {
    const auto* known = symbol.get<std::string>();
    if (!known) damaged("a symbol without a name");
    wiring.symbols.push_back({.name = *known});
  }
  const size_t symbols = wiring.symbols.size();
  for (const Json& input : value_of<Json::Array>(json, "inputs")) {
    wiring.inputs.push_back(input_of(input, symbols));
  }
  for (const Json& output : value_of<Json::Array>(json, "outputs")) {
    wiring.outputs.push_back(output_of(output, symbols));
  }
  for (const Json& input : value_of<Json::Array>(json, "engine_inputs")) {
    wiring.engine_inputs.push_back(
        {.shape = exprs_of(input, "shape", symbols), .from = value_of<int64_t>(input, "from")});
  }
  return wiring;
}

/// What the text names is there; sizes are compared in each call.
void check(const Wiring& wiring, const EngineSpec& spec) {
  if (wiring.engine_inputs.size() != spec.inputs.size()) damaged("an engine of other inputs");
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const int64_t from = wiring.engine_inputs[i].from;
    if (from >= static_cast<int64_t>(wiring.inputs.size())) damaged("an input that is not there");
    if (from >= 0 && wiring.inputs[static_cast<size_t>(from)].dtype != spec.inputs[i].dtype) {
      damaged("an input of another type");
    }
    if (spec.inputs[i].written) damaged("an engine that writes to its inputs");
  }
  std::vector<bool> written(spec.outputs.size());
  for (const FusedOutput& output : wiring.outputs) {
    if (output.from == FusedOutput::From::kSizes) continue;
    const bool engine = output.from == FusedOutput::From::kEngine;
    const size_t count = engine ? spec.outputs.size() : wiring.inputs.size();
    if (output.index >= count) damaged("a result that is not there");
    const DType dtype =
        engine ? spec.outputs[output.index].dtype : wiring.inputs[output.index].dtype;
    const bool as_input = engine || wiring.inputs[output.index].widened == output.widened;
    if (dtype != output.dtype || !as_input) damaged("a result of another type");
    if (engine) written[output.index] = true;
  }
  if (std::find(written.begin(), written.end(), false) != written.end()) {
    damaged("a result that nothing reads");
  }
}

std::string line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string found(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return found;
}

}  // namespace

std::string to_context(const Wiring& wiring, const CompiledBlock& compiled,
                       const WeightSource* source) {
  std::vector<HostTensor> weights;
  std::string kept;
  for (size_t i = 0; i < compiled.weights.size(); ++i) {
    const std::span<const uint8_t> bytes = compiled.weights[i].bytes;
    if (!source) {  // which reads them only
      weights.push_back({const_cast<uint8_t*>(bytes.data()), static_cast<int64_t>(bytes.size())});
    } else if (!source->digests.contains(compiled.spec.weights[i].name)) {
      kept.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  Json::Object fields = fields_of(wiring);
  if (source) fields.emplace("source", text_of(*source, compiled.spec, kept));
  const std::string text = Json(std::move(fields)).dump();
  const std::vector<uint8_t> engine = to_vke(compiled.spec, weights);
  std::string out(kHead);
  out += sha256_hex(text) + "\n" + std::to_string(text.size()) + "\n" + text + kept;
  out.append(reinterpret_cast<const char*>(engine.data()), engine.size());
  return out;
}

Context from_context(std::span<const uint8_t> bytes) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!rest.starts_with(kHead)) damaged("not of this provider, or of another version of it");
  rest.remove_prefix(kHead.size());
  const std::string digest = line(rest), digits = line(rest);
  const bool number = !digits.empty() && digits.size() < 12 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  const size_t size = number ? std::stoull(digits) : rest.size() + 1;
  if (size > rest.size()) damaged("it is cut off");
  const std::string text(rest.substr(0, size));
  if (sha256_hex(text) != digest) damaged("it is damaged");
  rest.remove_prefix(size);
  const Json json = Json::parse(text, "EPContext");
  Context made{.wiring = wiring_of(json)};
  std::string_view kept;
  if (json.get<Json::Object>()->contains("source")) {
    const Json& source = field(json, "source");
    made.source = source_of(source);
    kept = kept_in(source, rest);
  }
  auto contents = std::make_shared<VkeContents>(from_vke(bytes.last(rest.size())));
  made.compiled.spec = std::move(contents->spec);
  check(made.wiring, made.compiled.spec);
  for (const std::vector<uint8_t>& weight : contents->weights) {
    made.compiled.weights.push_back({weight, contents});
  }
  if (made.source) place(kept, *made.source, made.compiled);
  return made;
}

std::string compatibility_of(const DeviceProfile& device) {
  return Json(Json::Object{{"runs_on", device.runs_on()}, {"tuned_for", device.tuned_for()}})
      .dump();
}

Fit fit_of(const std::string& compatibility, const DeviceProfile& device) {
  const Json json = Json::parse(compatibility, "compatibility");
  if (value_of<std::string>(json, "runs_on") != device.runs_on()) return Fit::kNot;
  return value_of<std::string>(json, "tuned_for") == device.tuned_for() ? Fit::kOptimal
                                                                        : Fit::kRuns;
}

}  // namespace tv::ort
