#pragma once
// A text that a saved decoder continues, token by token.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "csrc/cli/generate/decoder_state.h"
#include "csrc/cli/text/sampler.h"
#include "csrc/tokenizer/tokenizer.h"

namespace tv::cli {

/// Why a text ended: with one of the model's tokens that end one, or where as many tokens were
/// added as were asked for, or as the cache has room for.
enum class Finish { kNotYet, kStop, kLength };
/// "stop", "length"; "" for kNotYet.
const char* name_of(Finish finish);

struct GenerationRequest {
  std::vector<int32_t> prompt;
  int64_t most = 0;  ///< tokens to add; 0: until the text ends or the cache is full
  std::string most_name = "max_new_tokens";  ///< of `most`, in messages
  Sampling sampling;
  int64_t together = 1;  ///< the most likely tokens that one submission makes
};

/// `given`, else what the device gains from.
int64_t steps_of_a_submission(const Device& device, std::optional<int64_t> given);

/// Throws Error(kUser) for a tokenizer with tokens that the model does not know.
void check_tokenizer(const tokenizer::Tokenizer& tokenizer, const GenerationInfo& info);

/// A token of a prompt by its number. Throws Error(kUser) for one that the model does not know.
int32_t token_of(int64_t id, const GenerationInfo& info);

/// A token, and the text that is sure with it: the last one has all that is left.
struct Piece {
  int32_t token = 0;
  std::string text;  ///< "" without a tokenizer
  Finish finish = Finish::kNotYet;
};

class TextGeneration {
 public:
  /// Clears the state and reads the prompt. `tokenizer`: null where no text is wanted. Throws
  /// Error(kUser) for a prompt that does not fit, or is of tokens that the model does not know.
  TextGeneration(DecoderState& state, const tokenizer::Tokenizer* tokenizer,
                 GenerationRequest request);

  /// The next one; not after the last. Throws Error(kUser) where scores are no numbers.
  Piece next();
  int64_t added() const { return added_; }
  /// How tokens come from the device, in words.
  std::string way() const;

 private:
  int32_t next_token();

  DecoderState& state_;
  GenerationRequest request_;
  int64_t most_;
  Sampler sampler_;
  bool by_host_;  ///< which chooses from the scores of each step
  std::optional<tokenizer::TextStream> stream_;
  std::span<float> scores_;  ///< of what follows the prompt
  int64_t length_;           ///< of the text without `last_`
  int64_t added_ = 0;
  int32_t last_ = 0;
  std::deque<int32_t> ready_;
};

}  // namespace tv::cli
