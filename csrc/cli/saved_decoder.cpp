#include "csrc/cli/saved_decoder.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace tv::cli {
namespace {

constexpr int64_t kVersion = 2;
// Inputs of engines that are no state of the model: what to read, where a step leaves the token
// that it has chosen, too, and the tokens that steps have chosen.
constexpr const char* kTokens = "ids";
constexpr const char* kChosen = "chosen";
constexpr uint64_t kMostInfoBytes = 1 << 20;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kUser, "[generate] " + message);
}

GenerationInfo read_info(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMostInfoBytes);
  const Json json = Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  const auto* object = json.get<Json::Object>();
  if (!object) refuse(path + ": got " + json.type_name() + ", want an object");
  const auto member = [&]<typename T>(const char* name, const T*) -> const T& {
    const auto found = object->find(name);
    const T* value = found == object->end() ? nullptr : found->second.get<T>();
    if (!value) refuse(path + ": '" + name + "' is missing or of another type");
    return *value;
  };
  const auto whole = [&](const char* name, int64_t least) {
    const int64_t value = member(name, static_cast<const int64_t*>(nullptr));
    if (value < least || value > INT32_MAX) {
      refuse(path + ": '" + name + "': got " + std::to_string(value) + ", want " +
             std::to_string(least) + " to 2^31 - 1");
    }
    return value;
  };
  if (const int64_t version = whole("version", 0); version != kVersion) {
    refuse(path + ": got version " + std::to_string(version) + ", this program reads version " +
           std::to_string(kVersion) + "; save the model again");
  }
  GenerationInfo info{.model = member("model", static_cast<const std::string*>(nullptr)),
                      .vocabulary = whole("vocabulary", 1),
                      .positions = whole("positions", 2),
                      .chunk = whole("chunk", 0)};
  if (info.chunk != 0 && info.chunk < 4) refuse(path + ": 'chunk': want 0, or 4 or more");
  for (const Json& end : member("ends", static_cast<const Json::Array*>(nullptr))) {
    const auto* token = end.get<int64_t>();
    if (!token || *token < 0 || *token > INT32_MAX) refuse(path + ": 'ends' are no tokens");
    info.ends.push_back(static_cast<int32_t>(*token));
  }
  return info;
}

Tensor ids_of(DType dtype, std::span<const int32_t> tokens) {
  if (dtype != DType::kI64 && dtype != DType::kI32) refuse("the engine takes no tokens");
  Tensor ids(dtype, {1, static_cast<int64_t>(tokens.size())});
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (dtype == DType::kI32) {
      std::memcpy(ids.bytes.data() + i * sizeof(int32_t), &tokens[i], sizeof(int32_t));
    } else {
      const int64_t token = tokens[i];
      std::memcpy(ids.bytes.data() + i * sizeof(int64_t), &token, sizeof(int64_t));
    }
  }
  return ids;
}

/// Before memory is taken for what generation.json says.
void check_fits(const EngineSpec& spec, const GenerationInfo& info) {
  const std::vector<Expr> wanted = {Expr(int64_t{1}), Expr(info.vocabulary)};
  if (spec.outputs.size() != 1 || spec.outputs[0].dtype != DType::kF32 ||
      spec.outputs[0].shape != wanted) {
    refuse("the engine does not make the scores of the next token (" +
           std::to_string(info.vocabulary) + " in generation.json) from tokens and state");
  }
  for (const Binding& input : spec.inputs) {
    if (input.name == kChosen && input.shape != std::vector<Expr>{Expr(1), Expr(info.positions)}) {
      refuse("the engine does not keep the tokens of " + std::to_string(info.positions) +
             " positions; save the model again");
    }
    // Keys and values: [1, heads, positions, channels].
    if (!input.written || input.shape.size() != 4) continue;
    const int64_t room = input.shape[2].constant().value_or(0);
    if (info.positions > room) {
      refuse("generation.json: 'positions': got " + std::to_string(info.positions) +
             ", but the engine's cache '" + input.name + "' has room for " + std::to_string(room));
    }
  }
}

}  // namespace

SavedDecoder::SavedDecoder(std::shared_ptr<Device> device, std::string folder,
                           EngineOptions options)
    : device_(std::move(device)), folder_(std::move(folder)), options_(options) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder_, unknown)) {
    refuse(folder_ + " is no folder, want one that tv.save_decoder wrote");
  }
  info_ = read_info((std::filesystem::path(folder_) / "generation.json").string());
  const std::filesystem::path weights = std::filesystem::path(folder_) / "weights.safetensors";
  weights_ = read_safetensors(weights.string()).tensors;
}

Network SavedDecoder::load(const std::string& file) const {
  Network network =
      Network::load(device_, (std::filesystem::path(folder_) / file).string(), options_);
  check_fits(network.spec(), info_);
  network.refit(weights_);
  return network;
}

const DeviceTensor& SavedDecoder::state(const Binding& input, int64_t size_bytes) {
  auto found = states_.find(input.name);
  if (found == states_.end()) {
    found =
        states_.emplace(input.name, std::pair(DeviceTensor(device_, size_bytes), size_bytes)).first;
  }
  if (found->second.second != size_bytes) {
    refuse("the engines disagree about the size of '" + input.name + "'; save the model again");
  }
  return found->second.first;
}

std::span<float> SavedDecoder::run(const Network& network, std::span<const int32_t> tokens,
                                   uint32_t times) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  const Bound bound = network.bind({{kTokens, {1, count}}});
  const EngineSpec& spec = bound.engine->spec();
  if (scores_.shape.empty()) scores_ = Tensor(DType::kF32, {1, info_.vocabulary});
  std::vector<HostTensor> inputs;
  Tensor ids;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Binding& input = spec.inputs[i];
    if (input.name == kTokens) {
      ids = ids_of(input.dtype, tokens);
      inputs.push_back(ids.host());
    } else if (!input.written) {
      refuse("the engine takes more than tokens and state");
    } else if (input.name == kChosen) {
      if (chosen_.shape.empty()) chosen_ = Tensor(input.dtype, bound.input_shapes[i]);
      inputs.push_back(chosen_.host());
    } else {
      inputs.push_back(
          state(input, numel_of(bound.input_shapes[i]) * size_bytes(input.dtype)).tensor());
    }
  }
  const HostTensor scores = scores_.host();
  const auto start = std::chrono::steady_clock::now();
  bound.engine->run(*bound.weights, bound.symbols, inputs, std::span(&scores, 1), times);
  run_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  length_ += count * times;
  return {reinterpret_cast<float*>(scores_.bytes.data()), static_cast<size_t>(info_.vocabulary)};
}

std::span<float> SavedDecoder::read_prompt(std::span<const int32_t> tokens) {
  if (tokens.size() == 1 || info_.chunk == 0) {
    std::span<float> scores;
    for (const int32_t token : tokens) scores = step(token);
    return scores;
  }
  const Network network = load("prompt.vke");
  std::span<float> scores;
  for (size_t done = 0; done < tokens.size();) {
    const size_t left = tokens.size() - done;
    size_t count = std::min(left, static_cast<size_t>(info_.chunk));
    if (left - count == 1) --count;  // the engine takes 2 or more
    scores = run(network, tokens.subspan(done, count));
    done += count;
  }
  return scores;
}

void SavedDecoder::load_step() {
  if (!step_) step_.emplace(load("step.vke"));
}

std::span<float> SavedDecoder::step(int32_t token) {
  load_step();
  const std::span<float> scores = run(*step_, std::span(&token, 1));
  ++steps_;
  return scores;
}

std::vector<int32_t> SavedDecoder::most_likely(int32_t token, int64_t count) {
  load_step();
  run(*step_, std::span(&token, 1), static_cast<uint32_t>(count));
  if (chosen_.shape.empty()) refuse("the engine chooses no tokens; save the model again");
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(chosen_.integer(steps_ + i)));
    if (tokens.back() < 0) refuse("the model gives scores that are no numbers (NaN)");
  }
  steps_ += count;
  return tokens;
}

uint64_t SavedDecoder::submissions() const {
  uint64_t submissions = 0;
  if (!step_) return submissions;
  for (const auto& engine : step_->engines()) submissions += engine->stats().submissions;
  return submissions;
}

}  // namespace tv::cli
