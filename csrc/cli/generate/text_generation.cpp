#include "csrc/cli/generate/text_generation.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace tv::cli {
namespace {

constexpr int64_t kStepsOfASubmission = 8;  // by default; a CPU device gains nothing from them

/// How many tokens may be added.
int64_t room_behind(const GenerationRequest& request, const GenerationInfo& info) {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) refuse_generation("the prompt has no token, want one or more");
  const int64_t room = info.positions - length;
  if (room < 1 || request.most > room) {
    refuse_generation("the prompt has " + std::to_string(length) + " tokens" +
                      (request.most > 0
                           ? " and " + request.most_name + " is " + std::to_string(request.most)
                           : "") +
                      "; the cache has room for " + std::to_string(info.positions) +
                      " together (max_length of tv.save_decoder)");
  }
  return request.most > 0 ? request.most : room;
}

}  // namespace

const char* name_of(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kNotYet:
      break;
  }
  return "";
}

int64_t steps_of_a_submission(const Device& device, std::optional<int64_t> given) {
  return given.value_or(profile(device).is_cpu() ? 1 : kStepsOfASubmission);
}

void check_tokenizer(const tokenizer::Tokenizer& tokenizer, const GenerationInfo& info) {
  const int32_t largest = tokenizer.largest_id();
  if (largest < info.vocabulary) return;
  refuse_generation("the tokenizer's largest token is " + std::to_string(largest) +
                    ", and the model (" + info.model + ") knows " +
                    std::to_string(info.vocabulary) + " tokens; want the tokenizer of this model");
}

int32_t token_of(int64_t id, const GenerationInfo& info) {
  if (id >= 0 && id < info.vocabulary) return static_cast<int32_t>(id);
  refuse_generation("the prompt has the token " + std::to_string(id) + ", and the model (" +
                    info.model + ") knows 0 to " + std::to_string(info.vocabulary - 1));
}

TextGeneration::TextGeneration(DecoderState& state, const tokenizer::Tokenizer* tokenizer,
                               GenerationRequest request)
    : state_(state),
      request_(std::move(request)),
      most_(room_behind(request_, state.info())),
      sampler_(request_.sampling, static_cast<size_t>(state.info().vocabulary)),
      by_host_(request_.sampling.draws || request_.sampling.repetition_penalty != 1),
      length_(static_cast<int64_t>(request_.prompt.size())) {
  for (const int32_t token : request_.prompt) sampler_.add(token_of(token, state.info()));
  if (tokenizer) stream_.emplace(*tokenizer, request_.prompt);
  state_.clear();
  scores_ = state_.read_prompt(request_.prompt);
}

int32_t TextGeneration::next_token() {
  if (added_ == 0) return sampler_.choose(scores_, length_);
  if (by_host_) {
    sampler_.add(last_);
    return sampler_.choose(state_.step(last_), ++length_);
  }
  if (ready_.empty()) {
    const auto made = state_.most_likely(last_, std::min(request_.together, most_ - added_));
    ready_.assign(made.begin(), made.end());
  }
  const int32_t token = ready_.front();
  ready_.pop_front();
  return token;
}

Piece TextGeneration::next() {
  last_ = next_token();
  ++added_;
  const std::vector<int32_t>& ends = state_.info().ends;
  Piece piece{.token = last_};
  if (std::ranges::find(ends, last_) != ends.end()) {
    piece.finish = Finish::kStop;
  } else if (added_ == most_) {
    piece.finish = Finish::kLength;
  }
  if (stream_) {
    piece.text = stream_->push(last_);
    if (piece.finish != Finish::kNotYet) piece.text += stream_->end();
  }
  return piece;
}

std::string TextGeneration::way() const {
  if (!by_host_) return std::to_string(request_.together) + " a submission";
  std::string text = "1 a submission";
  if (most_ > 1) text += ": the host draws tokens and penalises repetitions";
  return text;
}

}  // namespace tv::cli
