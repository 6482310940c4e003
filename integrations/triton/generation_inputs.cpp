#include "integrations/triton/generation_inputs.h"

#include <cstring>

#include "csrc/cli/text/shapes.h"
#include "integrations/triton/server_tensors.h"

namespace tv::triton {
namespace {

constexpr const char* kPrompt = "prompt";
constexpr const char* kIds = "input_ids";
constexpr double kMostFactor = 1e9;

[[noreturn]] void refuse(const char* input, const std::string& text) {
  throw Error(ErrorKind::kUser, "input '" + std::string(input) + "': " + text);
}

/// The bytes of an input of this type; none where the request does not have it.
std::optional<std::vector<uint8_t>> bytes_of(TRITONBACKEND_Request* request, const char* name,
                                             TRITONSERVER_DataType type, const char* type_text) {
  const std::optional<GivenInput> given = find_input(request, name);
  if (!given) return std::nullopt;
  if (given->type != type) refuse(name, std::string("it is not of ") + type_text);
  if (given->shape.size() != 1) {
    refuse(name, "got " + cli::shape_text(given->shape) + ", want 1 dimension");
  }
  std::vector<uint8_t> bytes;
  for (const HostTensor& piece : given->pieces) {
    const auto* data = static_cast<const uint8_t*>(piece.data);
    bytes.insert(bytes.end(), data, data + piece.size_bytes);
  }
  return bytes;
}

template <typename T>
std::optional<std::vector<T>> numbers(TRITONBACKEND_Request* request, const char* name) {
  const DType dtype = std::is_same_v<T, int64_t> ? DType::kI64 : DType::kF64;
  const auto bytes = bytes_of(request, name, type_of(dtype), type_name(dtype));
  if (!bytes) return std::nullopt;
  if (bytes->size() % sizeof(T) != 0) {
    refuse(name, "got " + std::to_string(bytes->size()) + " bytes");
  }
  std::vector<T> values(bytes->size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

template <typename T>
std::optional<T> number(TRITONBACKEND_Request* request, const char* name) {
  const auto values = numbers<T>(request, name);
  if (!values) return std::nullopt;
  if (values->size() != 1) {
    refuse(name, "got " + std::to_string(values->size()) + " numbers, want 1");
  }
  return values->front();
}

std::optional<std::string> text_of(TRITONBACKEND_Request* request, const char* name) {
  const auto bytes = bytes_of(request, name, TRITONSERVER_TYPE_BYTES, "BYTES");
  if (!bytes) return std::nullopt;
  uint32_t length = 0;  // of the first text, in front of it
  if (bytes->size() >= sizeof length) std::memcpy(&length, bytes->data(), sizeof length);
  if (bytes->size() != sizeof length + length) {
    refuse(name, "got " + std::to_string(bytes->size()) + " bytes, want one text");
  }
  return std::string(bytes->begin() + sizeof length, bytes->end());
}

struct Range {
  int64_t least = 1, most = int64_t{1} << 30;
};

/// A whole number; `without` where the request does not have it.
int64_t count(TRITONBACKEND_Request* request, const char* name, int64_t without, Range range = {}) {
  const std::optional<int64_t> value = number<int64_t>(request, name);
  if (!value) return without;
  if (*value < range.least || *value > range.most) {
    refuse(name, "got " + std::to_string(*value) + ", want " + std::to_string(range.least) +
                     " to " + std::to_string(range.most));
  }
  return *value;
}

/// A number above 0.
std::optional<double> factor(TRITONBACKEND_Request* request, const char* name) {
  const std::optional<double> value = number<double>(request, name);
  if (value && !(*value > 0 && *value <= kMostFactor)) {
    refuse(name, "got " + std::to_string(*value) + ", want more than 0, and 1e9 at most");
  }
  return value;
}

cli::Sampling read_sampling(TRITONBACKEND_Request* request) {
  cli::Sampling sampling;
  const std::optional<double> temperature = factor(request, "temperature");
  sampling.draws = temperature.has_value();
  sampling.temperature = temperature.value_or(1);
  sampling.repetition_penalty = factor(request, "repetition_penalty").value_or(1);
  sampling.top_k = count(request, "top_k", 0);
  sampling.seed = static_cast<uint64_t>(count(request, "seed", 0, {.least = 0, .most = INT64_MAX}));
  sampling.top_p = number<double>(request, "top_p").value_or(1);
  if (!(sampling.top_p >= 0 && sampling.top_p <= 1)) {
    refuse("top_p", "got " + std::to_string(sampling.top_p) + ", want 0 to 1");
  }
  for (const char* input : {"top_k", "top_p", "seed"}) {
    if (sampling.draws || !find_input(request, input)) continue;
    refuse(input, "it needs temperature, which draws tokens (1: by the model's own probabilities)");
  }
  return sampling;
}

std::vector<int32_t> read_prompt(TRITONBACKEND_Request* request, const cli::GenerationInfo& info,
                                 const tokenizer::Tokenizer* tokenizer) {
  const auto ids = numbers<int64_t>(request, kIds);
  const auto text = tokenizer ? text_of(request, kPrompt) : std::nullopt;
  if (ids.has_value() == text.has_value()) {
    if (!tokenizer) refuse(kIds, "it is missing");
    throw Error(ErrorKind::kUser, std::string("want one of the inputs 'prompt' and 'input_ids', ") +
                                      (ids ? "got both" : "got none"));
  }
  if (text) return tokenizer->encode(*text);
  std::vector<int32_t> tokens;
  for (const int64_t id : *ids) tokens.push_back(cli::token_of(id, info));
  return tokens;
}

}  // namespace

std::vector<ServedTensor> generation_inputs(bool has_tokenizer) {
  std::vector<ServedTensor> inputs;
  if (has_tokenizer) {
    inputs.push_back({.name = kPrompt, .dims = {1}, .text = true, .optional = true});
  }
  inputs.push_back({.name = kIds, .dtype = DType::kI64, .dims = {-1}, .optional = has_tokenizer});
  for (const char* name : {"max_new_tokens", "top_k", "seed"}) {
    inputs.push_back({.name = name, .dtype = DType::kI64, .dims = {1}, .optional = true});
  }
  for (const char* name : {"temperature", "top_p", "repetition_penalty"}) {
    inputs.push_back({.name = name, .dtype = DType::kF64, .dims = {1}, .optional = true});
  }
  return inputs;
}

cli::GenerationRequest read_generation(TRITONBACKEND_Request* request,
                                       const cli::GenerationInfo& info,
                                       const tokenizer::Tokenizer* tokenizer) {
  return {.prompt = read_prompt(request, info, tokenizer),
          .most = count(request, "max_new_tokens", 0),
          .sampling = read_sampling(request)};
}

}  // namespace tv::triton
