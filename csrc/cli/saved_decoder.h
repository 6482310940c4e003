#pragma once
// A decoder as tv.save_decoder writes it: a folder with an engine for prompts, one for a token,
// their weights, and what generation has to know.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "csrc/cli/network.h"
#include "runtime/engine/device_tensor.h"

namespace tv::cli {

/// The file generation.json.
struct GenerationInfo {
  std::string model;          ///< the class that it was
  int64_t vocabulary = 0;     ///< scores a token
  int64_t positions = 0;      ///< tokens that the cache has room for
  int64_t chunk = 0;          ///< tokens that the prompt's engine takes at most
  std::vector<int32_t> ends;  ///< tokens that end a text
};

class SavedDecoder {
 public:
  /// Reads the folder. Throws Error(kUser) naming the file that is missing or wrong.
  SavedDecoder(std::shared_ptr<Device> device, std::string folder, EngineOptions options);

  const GenerationInfo& info() const { return info_; }
  /// Tokens that it has seen, and that its cache holds.
  int64_t length() const { return length_; }
  /// Seconds that engines have run.
  double run_s() const { return run_s_; }

  /// The scores of what follows a prompt. The prompt's engine is loaded for this call alone, so
  /// that the weights are on the device once.
  std::span<float> read_prompt(std::span<const int32_t> tokens);
  /// Loads the engine that `step` runs, where it is not yet.
  void load_step();
  /// The scores of what follows one more token.
  std::span<float> step(int32_t token);
  /// The most likely token behind `token`, then behind that one, `count` of them in all, made in
  /// one submission to the device. Throws Error(kUser) where scores are no numbers.
  std::vector<int32_t> most_likely(int32_t token, int64_t count);
  /// Submissions to the device that steps have taken.
  uint64_t submissions() const;

 private:
  Network load(const std::string& file) const;
  /// Reads `tokens`; of a step `times` tokens, all but the first those that it chose itself.
  std::span<float> run(const Network& network, std::span<const int32_t> tokens, uint32_t times = 1);
  /// The device's memory of an input that is state: one for all engines.
  const DeviceTensor& state(const Binding& input, int64_t size_bytes);

  std::shared_ptr<Device> device_;
  std::string folder_;
  EngineOptions options_;
  GenerationInfo info_;
  NewWeights weights_;
  std::optional<Network> step_;
  std::map<std::string, std::pair<DeviceTensor, int64_t>> states_;  ///< by name, with their bytes
  Tensor scores_;
  Tensor chosen_;  ///< by the steps so far, in their order
  int64_t length_ = 0, steps_ = 0;
  double run_s_ = 0;
};

}  // namespace tv::cli
