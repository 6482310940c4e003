#include "csrc/cli/generate.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>

#include "csrc/cli/lines.h"
#include "csrc/cli/sampler.h"
#include "csrc/cli/saved_decoder.h"
#include "csrc/tokenizer/tokenizer.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

using tokenizer::TextStream;
using tokenizer::Tokenizer;
using Clock = std::chrono::steady_clock;

constexpr int64_t kStepsOfASubmission = 8;  // by default; a CPU device gains nothing from them

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kUser, "[generate] " + message);
}

Tokenizer read_tokenizer(const Options& options) {
  std::string path = options.tokenizer;
  if (path.empty()) {
    path = (std::filesystem::path(options.model) / "tokenizer.json").string();
    std::error_code unknown;
    if (!std::filesystem::exists(path, unknown)) {
      refuse(options.model + " holds no tokenizer.json, want --tokenizer=FILE");
    }
  }
  return Tokenizer::read(path);
}

void check_vocabulary(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
                      const GenerationInfo& info) {
  int32_t largest = tokenizer.largest_id();
  for (const int32_t token : prompt) largest = std::max(largest, token);
  if (largest < info.vocabulary) return;
  refuse("the tokenizer's largest token is " + std::to_string(largest) + ", and the model (" +
         info.model + ") knows " + std::to_string(info.vocabulary) +
         " tokens; want the tokenizer of this model");
}

/// How many tokens may be added.
int64_t room_behind(const std::vector<int32_t>& prompt, const GenerationInfo& info,
                    int64_t wanted) {
  const auto length = static_cast<int64_t>(prompt.size());
  if (length == 0) refuse("the prompt is no token: want --prompt=TEXT with a text");
  const int64_t room = info.positions - length;
  if (room < 1 || wanted > room) {
    refuse("the prompt has " + std::to_string(length) + " tokens" +
           (wanted > 0 ? " and --tokens is " + std::to_string(wanted) : "") +
           "; the cache has room for " + std::to_string(info.positions) +
           " together (max_length of tv.save_decoder)");
  }
  return wanted > 0 ? wanted : room;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// What there is to say of the time that tokens took.
std::string pace(const char* what, int64_t tokens, double seconds) {
  return format("%s: %lld tokens in %.4g s, %.4g tokens/s", what, static_cast<long long>(tokens),
                seconds, seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0);
}

/// Chooses one token after the other.
class Chooser {
 public:
  Chooser(SavedDecoder& decoder, const Options& options, int64_t together,
          std::span<const int32_t> prompt)
      : decoder_(decoder),
        sampler_(options.sampling, static_cast<size_t>(decoder.info().vocabulary)),
        by_host_(options.sampling.draws || options.sampling.repetition_penalty != 1),
        together_(by_host_ ? 1 : together),
        length_(static_cast<int64_t>(prompt.size())) {
    for (const int32_t token : prompt) sampler_.add(token);
  }

  int32_t first(std::span<float> scores) { return last_ = sampler_.choose(scores, length_); }

  /// The next one, of at most `left`.
  int32_t next(int64_t left) {
    if (by_host_) {
      sampler_.add(last_);
      return last_ = sampler_.choose(decoder_.step(last_), ++length_);
    }
    if (ready_.empty()) {
      const auto made = decoder_.most_likely(last_, std::min(together_, left));
      ready_.assign(made.begin(), made.end());
    }
    last_ = ready_.front();
    ready_.pop_front();
    return last_;
  }

  /// How tokens come from the device, in words.
  std::string way(int64_t wanted) const {
    if (!by_host_) return std::to_string(together_) + " a submission";
    std::string text = "1 a submission";
    if (wanted > 1) text += ": the host draws tokens and penalises repetitions";
    return text;
  }

 private:
  SavedDecoder& decoder_;
  Sampler sampler_;
  bool by_host_;
  int64_t together_;
  int64_t length_;  ///< of the text without `last_`
  int32_t last_ = 0;
  std::deque<int32_t> ready_;
};

}  // namespace

void generate(const std::shared_ptr<Device>& device, const Options& options) {
  SavedDecoder decoder(device, options.model, {.check_addresses = options.check_addresses});
  const Tokenizer tokenizer = read_tokenizer(options);
  const GenerationInfo& info = decoder.info();
  const std::vector<int32_t> prompt = tokenizer.encode(options.prompt);
  check_vocabulary(tokenizer, prompt, info);
  const int64_t most = room_behind(prompt, info, options.tokens);
  TextStream stream(tokenizer, prompt);
  std::string text;
  const auto give = [&](const std::string& piece) {
    if (options.stream) {
      print(piece);
    } else {
      text += piece;
    }
  };

  const std::span<float> scores = decoder.read_prompt(prompt);
  const int64_t together =
      options.steps_per_submission.value_or(profile(*device).is_cpu() ? 1 : kStepsOfASubmission);
  Chooser chooser(decoder, options, together, prompt);
  const double prompt_s = decoder.run_s();
  decoder.load_step();
  const uint64_t before = decoder.submissions();
  const auto stepping = Clock::now();
  int64_t added = 0;
  for (int32_t token = chooser.first(scores);; token = chooser.next(most - added)) {
    ++added;
    give(stream.push(token));
    if (std::ranges::find(info.ends, token) != info.ends.end() || added == most) break;
  }
  give(stream.end());
  print(text + "\n");
  if (!options.verbose) return;
  const std::chrono::duration<double> steps_s = Clock::now() - stepping;
  std::fprintf(stderr, "%s\n%s\nsubmissions: %llu, tokens %s\n",
               pace("prompt", static_cast<int64_t>(prompt.size()), prompt_s).c_str(),
               pace("added", added, steps_s.count()).c_str(),
               static_cast<unsigned long long>(decoder.submissions() - before),
               chooser.way(together).c_str());
}

}  // namespace tv::cli
