#include "csrc/cli/generate/saved_decoder.h"

#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace tv::cli {

void refuse_generation(const std::string& message) {
  throw Error(ErrorKind::kUser, "[generate] " + message);
}

namespace {

constexpr int64_t kVersion = 2;
constexpr uint64_t kMostInfoBytes = 1 << 20;

GenerationInfo read_info(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMostInfoBytes);
  const Json json = Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  const auto* object = json.get<Json::Object>();
  if (!object) refuse_generation(path + ": got " + json.type_name() + ", want an object");
  const auto member = [&]<typename T>(const char* name, const T*) -> const T& {
    const auto found = object->find(name);
    const T* value = found == object->end() ? nullptr : found->second.get<T>();
    if (!value) refuse_generation(path + ": '" + name + "' is missing or of another type");
    return *value;
  };
  const auto whole = [&](const char* name, int64_t least) {
    const int64_t value = member(name, static_cast<const int64_t*>(nullptr));
    if (value < least || value > INT32_MAX) {
      refuse_generation(path + ": '" + name + "': got " + std::to_string(value) + ", want " +
                        std::to_string(least) + " to 2^31 - 1");
    }
    return value;
  };
  if (const int64_t version = whole("version", 0); version != kVersion) {
    refuse_generation(path + ": got version " + std::to_string(version) +
                      ", this program reads version " + std::to_string(kVersion) +
                      "; save the model again");
  }
  GenerationInfo info{.model = member("model", static_cast<const std::string*>(nullptr)),
                      .vocabulary = whole("vocabulary", 1),
                      .positions = whole("positions", 2),
                      .chunk = whole("chunk", 0)};
  if (info.chunk != 0 && info.chunk < 4)
    refuse_generation(path + ": 'chunk': want 0, or 4 or more");
  for (const Json& end : member("ends", static_cast<const Json::Array*>(nullptr))) {
    const auto* token = end.get<int64_t>();
    if (!token || *token < 0 || *token > INT32_MAX)
      refuse_generation(path + ": 'ends' are no tokens");
    info.ends.push_back(static_cast<int32_t>(*token));
  }
  return info;
}

/// Keys and values, [1, heads, positions, channels], by name.
std::map<std::string, std::vector<Expr>> cache_of(const EngineSpec& spec) {
  std::map<std::string, std::vector<Expr>> cache;
  for (const Binding& input : spec.inputs) {
    if (input.written && input.shape.size() == 4) cache.emplace(input.name, input.shape);
  }
  return cache;
}

/// Before memory is taken for what generation.json says.
void check_fits(const EngineSpec& spec, const GenerationInfo& info) {
  const std::vector<Expr> wanted = {Expr(int64_t{1}), Expr(info.vocabulary)};
  if (spec.outputs.size() != 1 || spec.outputs[0].dtype != DType::kF32 ||
      spec.outputs[0].shape != wanted) {
    refuse_generation("the engine does not make the scores of the next token (" +
                      std::to_string(info.vocabulary) +
                      " in generation.json) from tokens and state");
  }
  for (const Binding& input : spec.inputs) {
    if (input.name == kChosenInput &&
        input.shape != std::vector<Expr>{Expr(1), Expr(info.positions)}) {
      refuse_generation("the engine does not keep the tokens of " + std::to_string(info.positions) +
                        " positions; save the model again");
    }
  }
  for (const auto& [name, shape] : cache_of(spec)) {
    const int64_t room = shape[2].constant().value_or(0);
    if (info.positions > room) {
      refuse_generation("generation.json: 'positions': got " + std::to_string(info.positions) +
                        ", but the engine's cache '" + name + "' has room for " +
                        std::to_string(room));
    }
  }
}

}  // namespace

SavedDecoder::SavedDecoder(std::shared_ptr<Device> device, std::string folder,
                           EngineOptions options)
    : device_(std::move(device)), folder_(std::move(folder)), options_(options) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder_, unknown)) {
    refuse_generation(folder_ + " is no folder, want one that tv.save_decoder wrote");
  }
  info_ = read_info((std::filesystem::path(folder_) / "generation.json").string());
  const std::filesystem::path weights = std::filesystem::path(folder_) / "weights.safetensors";
  weights_ = read_safetensors(weights.string()).tensors;
}

std::shared_ptr<const Network> SavedDecoder::load(const std::string& file) {
  Network network =
      Network::load(device_, (std::filesystem::path(folder_) / file).string(), options_);
  check_fits(network.spec(), info_);
  const std::map<std::string, std::vector<Expr>> cache = cache_of(network.spec());
  if (!cache_) cache_ = cache;
  if (*cache_ != cache) {
    refuse_generation(folder_ +
                      ": prompt.vke and step.vke have different caches: they are of two models; "
                      "save the model again");
  }
  try {
    network.refit(weights_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    refuse_generation(folder_ + ": weights.safetensors does not fit " + file +
                      "; save the model again: " + error.what());
  }
  return std::make_shared<const Network>(std::move(network));
}

std::shared_ptr<const Network> SavedDecoder::prompt() {
  const std::lock_guard lock(mutex_);
  if (!prompt_) prompt_ = load("prompt.vke");
  return prompt_;
}

std::shared_ptr<const Network> SavedDecoder::step() {
  const std::lock_guard lock(mutex_);
  if (!step_) step_ = load("step.vke");
  return step_;
}

void SavedDecoder::release_prompt() {
  const std::lock_guard lock(mutex_);
  prompt_.reset();
}

}  // namespace tv::cli
