#pragma once
// What a saved decoder remembers of the text that it is making: its cache, on the device.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "csrc/cli/generate/saved_decoder.h"
#include "runtime/engine/device_tensor.h"

namespace tv::cli {

/// One thread at a time; several states share a decoder.
class DecoderState {
 public:
  explicit DecoderState(std::shared_ptr<SavedDecoder> decoder) : decoder_(std::move(decoder)) {}

  SavedDecoder& decoder() const { return *decoder_; }
  const GenerationInfo& info() const { return decoder_->info(); }
  /// Seconds that engines have run.
  double run_s() const { return run_s_; }

  /// Forgets the text, and keeps the memory for the next one.
  void clear();
  /// The scores of what follows a prompt.
  std::span<float> read_prompt(std::span<const int32_t> tokens);
  /// The scores of what follows one more token.
  std::span<float> step(int32_t token);
  /// The most likely token behind `token`, then behind that one, `count` of them in all, made in
  /// one submission to the device. Throws Error(kUser) where scores are no numbers.
  std::vector<int32_t> most_likely(int32_t token, int64_t count);

 private:
  /// Reads `tokens`; of a step `times` tokens, all but the first those that it chose itself.
  std::span<float> run(const Network& network, std::span<const int32_t> tokens, uint32_t times = 1);
  /// The device's memory of an input that is state: one for all engines.
  const DeviceTensor& state(const Binding& input, int64_t size_bytes);

  std::shared_ptr<SavedDecoder> decoder_;
  std::map<std::string, std::pair<DeviceTensor, int64_t>> states_;  ///< by name, with their bytes
  Tensor scores_;
  Tensor chosen_;  ///< by the steps so far, in their order
  int64_t steps_ = 0;
  bool used_ = false;
  double run_s_ = 0;
};

}  // namespace tv::cli
