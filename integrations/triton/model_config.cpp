#include "integrations/triton/model_config.h"

#include <algorithm>

#include "csrc/cli/text/nearest.h"
#include "integrations/triton/calls.h"

namespace tv::triton {
namespace {

const Json::Array kNone;

const Json* find(const Json& json, std::string_view key) {
  const auto* object = json.get<Json::Object>();
  if (!object) return nullptr;
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &found->second;
}

const Json::Array& list(const Json& json, std::string_view key) {
  const Json* found = find(json, key);
  const auto* array = found ? found->get<Json::Array>() : nullptr;
  return array ? *array : kNone;
}

std::string text(const Json& json, std::string_view key) {
  const Json* found = find(json, key);
  const auto* value = found ? found->get<std::string>() : nullptr;
  return value ? *value : "";
}

bool is_true(const Json& json, std::string_view key) {
  const Json* found = find(json, key);
  const bool* value = found ? found->get<bool>() : nullptr;
  return value && *value;
}

/// Protobuf writes int64 as text, the server most of them as numbers.
int64_t number(const Json& json) {
  if (const auto* value = json.get<int64_t>()) return *value;
  const auto* digits = json.get<std::string>();
  const Json parsed = digits ? Json::parse(*digits, "a number") : Json();
  const auto* value = parsed.get<int64_t>();
  return value ? *value : 0;
}

std::vector<int64_t> numbers(const Json::Array& array) {
  std::vector<int64_t> out;
  for (const Json& item : array) out.push_back(number(item));
  return out;
}

/// The dims of a configured tensor, as the model has them.
std::vector<int64_t> dims_of(const Json& tensor) {
  const Json* reshape = find(tensor, "reshape");
  return numbers(reshape && !reshape->is_null() ? list(*reshape, "shape") : list(tensor, "dims"));
}

Json::Array json_of(const std::vector<int64_t>& dims) { return {dims.begin(), dims.end()}; }

std::string shown(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (const int64_t dim : dims) out += (out.size() > 1 ? ", " : "") + std::to_string(dim);
  return out + "]";
}

std::string type_text(const ServedTensor& tensor) {
  return tensor.text ? "TYPE_STRING" : std::string("TYPE_") + type_name(tensor.dtype);
}

/// What a configuration says of a tensor: without the batch where there is one.
std::vector<int64_t> configured(const ServedTensor& tensor, bool batching) {
  return {tensor.dims.begin() + (batching ? 1 : 0), tensor.dims.end()};
}

/// Configurations have no tensors without dimensions: they are reshaped from [1].
Json config_of(const ServedTensor& tensor, bool batching) {
  const std::vector<int64_t> dims = configured(tensor, batching);
  Json::Object fields{{"name", tensor.name}, {"data_type", type_text(tensor)}};
  fields.emplace("dims", json_of(dims.empty() ? std::vector<int64_t>{1} : dims));
  if (dims.empty()) fields.emplace("reshape", Json::Object{{"shape", Json::Array{}}});
  if (tensor.optional) fields.emplace("optional", true);
  return fields;
}

bool agree(const std::vector<int64_t>& config, const std::vector<int64_t>& model) {
  if (config.size() != model.size()) return false;
  for (size_t d = 0; d < model.size(); ++d) {
    if (config[d] != model[d] && config[d] != -1 && model[d] != -1) return false;
  }
  return true;
}

}  // namespace

void ModelConfig::fail(const std::string& text) const {
  throw Error(ErrorKind::kUser, "model '" + name_ + "': " + text);
}

ModelConfig::ModelConfig(const Json& json) {
  const auto* fields = json.get<Json::Object>();
  if (!fields) throw Error(ErrorKind::kInternal, "the server's configuration is no object");
  fields_ = *fields;
  name_ = text(json, "name");
  file_ = text(json, "default_model_filename");
  if (const Json* size = find(json, "max_batch_size")) max_batch_size_ = number(*size);
  if (const Json* given = find(json, "parameters"); given && given->get<Json::Object>()) {
    for (const auto& [key, value] : *given->get<Json::Object>()) {
      parameters_[key] = text(value, "string_value");
    }
  }
  refuse_what_is_not_done();
}

void ModelConfig::refuse_what_is_not_done() const {
  const Json json(fields_);
  if (find(json, "sequence_batching")) {
    fail("sequence_batching: engines keep no state between requests");
  }
  for (const char* field : {"batch_input", "batch_output"}) {
    if (!list(json, field).empty()) fail(std::string(field) + ": engines have no such tensors");
  }
  for (const Json& input : list(json, "input")) {
    for (const char* field : {"allow_ragged_batch", "is_shape_tensor"}) {
      if (!is_true(input, field)) continue;
      fail("input '" + text(input, "name") + "': " + field + " is not supported");
    }
  }
  for (const Json& group : list(json, "instance_group")) {
    if (text(group, "kind") == "KIND_GPU") {
      fail(
          "instance_group: KIND_GPU counts the GPUs of CUDA; want KIND_MODEL, and the parameter "
          "device, which takes any Vulkan device's index, name or UUID");
    }
    if (!list(group, "profile").empty()) {
      fail(
          "instance_group: profile is not supported: a batch runs in the shape profile whose usual "
          "sizes are nearest");
    }
    if (!list(group, "secondary_devices").empty()) {
      fail("instance_group: secondary_devices: engines run on one device");
    }
  }
  const Json* optimization = find(json, "optimization");
  if (optimization && find(*optimization, "execution_accelerators")) {
    fail(
        "optimization: there are no execution_accelerators; want the parameters of docs/triton.md");
  }
}

bool ModelConfig::is_decoupled() const {
  const Json json(fields_);
  const Json* policy = find(json, "model_transaction_policy");
  return policy && is_true(*policy, "decoupled");
}

bool ModelConfig::batching_is_open() const {
  const Json json(fields_);
  return max_batch_size_ == 0 && list(json, "input").empty() && list(json, "output").empty();
}

void ModelConfig::complete(const Signature& signature, int64_t usual_batch) {
  if (batching_is_open()) {
    max_batch_size_ = signature.max_batch == kUnbounded ? usual_batch : signature.max_batch;
    fields_["max_batch_size"] = max_batch_size_;
  }
  compare_given(signature);
  complete_tensors("input", signature.inputs);
  complete_tensors("output", signature.outputs);
  const Json json(fields_);
  if (signature.streams && !find(json, "model_transaction_policy")) {
    fields_["model_transaction_policy"] = Json::Object{{"decoupled", true}};
  }
  const bool scheduled = find(json, "dynamic_batching") || find(json, "ensemble_scheduling");
  if (max_batch_size_ > 1 && !scheduled) fields_["dynamic_batching"] = Json::Object{};
}

void ModelConfig::complete_tensors(const char* field, const std::vector<ServedTensor>& tensors) {
  Json::Array named = list(Json(fields_), field);
  for (const ServedTensor& tensor : tensors) {
    const bool there = std::ranges::any_of(
        named, [&](const Json& given) { return text(given, "name") == tensor.name; });
    if (!there) named.push_back(config_of(tensor, max_batch_size_ > 0));
  }
  fields_[field] = std::move(named);
}

void ModelConfig::compare(const Signature& signature) const {
  compare_given(signature);
  const Json json(fields_);
  for (const ServedTensor& input : signature.inputs) {
    if (input.optional) continue;
    const bool there = std::ranges::any_of(
        list(json, "input"), [&](const Json& given) { return text(given, "name") == input.name; });
    if (!there) {
      fail("there is no input '" + input.name + "' of " + type_text(input) + " and dims " +
           shown(configured(input, max_batch_size_ > 0)));
    }
  }
}

void ModelConfig::compare_given(const Signature& signature) const {
  if (is_decoupled() && !signature.streams) {
    fail("model_transaction_policy: a request has one response; want decoupled: false");
  }
  if (max_batch_size_ > 0 && signature.max_batch == 0) {
    fail("max_batch_size: got " + std::to_string(max_batch_size_) + ", want 0, as " +
         signature.why_no_batch);
  }
  if (max_batch_size_ > signature.max_batch && max_batch_size_ > 0) {
    fail("max_batch_size: got " + std::to_string(max_batch_size_) +
         ", but the engine's shape profiles take batches of 1 to " +
         std::to_string(signature.max_batch));
  }
  compare_tensors("input", signature.inputs);
  compare_tensors("output", signature.outputs);
}

void ModelConfig::compare_tensors(const char* field,
                                  const std::vector<ServedTensor>& tensors) const {
  std::vector<std::string> names;
  for (const ServedTensor& tensor : tensors) names.push_back(tensor.name);
  const Json json(fields_);
  for (const Json& given : list(json, field)) {
    const std::string name = text(given, "name"), what = std::string(field) + " '" + name + "'";
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      std::string all;
      for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
      const std::string near = cli::nearest(name, names);
      fail("there is no " + what + (near.empty() ? "." : "; did you mean '" + near + "'?") +
           " The model has " + all);
    }
    const ServedTensor& tensor = tensors[static_cast<size_t>(found - names.begin())];
    if (const std::string type = text(given, "data_type"); type != type_text(tensor)) {
      fail(what + ": got " + type + ", want " + type_text(tensor));
    }
    if (is_true(given, "optional") && !tensor.optional) {
      fail(what + ": optional is not supported");
    }
    const bool batching = max_batch_size_ > 0;
    const std::vector<int64_t> want = configured(tensor, batching), got = dims_of(given);
    if (!agree(got, want)) {
      fail(what + ": got dims " + shown(got) + ", want " + shown(want) +
           (batching ? " (the batch is not one of them)" : ""));
    }
  }
}

}  // namespace tv::triton
