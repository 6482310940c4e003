#pragma once
// A folder of tv.save_decoder that Triton serves: requests continue texts.

#include <memory>
#include <optional>
#include <string>

#include "csrc/cli/generate/saved_decoder.h"
#include "csrc/tokenizer/tokenizer.h"
#include "integrations/triton/loaded.h"
#include "integrations/triton/served.h"

namespace tv::triton {

/// Whether tv.save_decoder wrote a folder.
bool is_decoder(const std::string& folder);

class ServedDecoder : public Served {
 public:
  /// Loads both engines. Throws Error.
  explicit ServedDecoder(const ModelPlace& place);

  const ModelConfig& config() const override { return config_; }
  std::string description() const override;
  std::unique_ptr<ServedInstance> make_instance(TRITONBACKEND_ModelInstance* handle) override;

  /// Null where the folder has none: prompts are tokens, and there is no text.
  const tokenizer::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  /// The most likely tokens that one submission makes.
  int64_t together() const { return together_; }

  std::shared_ptr<cli::SavedDecoder> decoder() const { return decoder_.get(); }
  /// As those of Loaded.
  void recover(const std::shared_ptr<cli::SavedDecoder>& lost) {
    decoder_.recover(lost, [this] { return load(); });
  }
  void worked() { decoder_.worked(); }

 private:
  std::shared_ptr<cli::SavedDecoder> load() const;

  ModelConfig config_;
  std::string folder_;
  Parameters parameters_;
  std::optional<tokenizer::Tokenizer> tokenizer_;
  int64_t together_ = 1;
  Loaded<cli::SavedDecoder> decoder_;
};

}  // namespace tv::triton
