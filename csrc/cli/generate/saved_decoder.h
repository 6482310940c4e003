#pragma once
// A decoder as tv.save_decoder writes it: a folder with an engine for prompts, one for a token,
// their weights, and what generation has to know.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "csrc/cli/models/network.h"

namespace tv::cli {

/// Throws Error(kUser).
[[noreturn]] void refuse_generation(const std::string& message);

/// The file generation.json.
struct GenerationInfo {
  std::string model;          ///< the class that it was
  int64_t vocabulary = 0;     ///< scores a token
  int64_t positions = 0;      ///< tokens that the cache has room for
  int64_t chunk = 0;          ///< tokens that the prompt's engine takes at most
  std::vector<int32_t> ends;  ///< tokens that end a text
};

/// Inputs of the engines that are not state of the model: what to read, where a step leaves the
/// token that it has chosen, too, and the tokens that steps have chosen.
inline constexpr const char* kTokensInput = "ids";
inline constexpr const char* kChosenInput = "chosen";

/// Shared by the texts that it makes; thread-safe.
class SavedDecoder {
 public:
  /// Reads the folder. Throws Error(kUser) naming the file that is missing or wrong.
  SavedDecoder(std::shared_ptr<Device> device, std::string folder, EngineOptions options);

  const GenerationInfo& info() const { return info_; }
  const std::shared_ptr<Device>& device() const { return device_; }

  /// The engine for prompts, and the one for a token more, with their weights. Each is loaded by
  /// the first call, which throws as the constructor.
  std::shared_ptr<const Network> prompt();
  std::shared_ptr<const Network> step();
  /// Lets go of the prompt's engine, so that the weights are on the device once.
  void release_prompt();

 private:
  std::shared_ptr<const Network> load(const std::string& file);

  std::shared_ptr<Device> device_;
  std::string folder_;
  EngineOptions options_;
  GenerationInfo info_;
  NewWeights weights_;
  std::mutex mutex_;
  /// Keys and values of the engine that was loaded first, by name.
  std::optional<std::map<std::string, std::vector<Expr>>> cache_;
  std::shared_ptr<const Network> prompt_, step_;
};

}  // namespace tv::cli
