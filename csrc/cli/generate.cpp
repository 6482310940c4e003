#include "csrc/cli/generate.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
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

  std::span<float> scores = decoder.read_prompt(prompt);
  Sampler sampler(options.sampling, static_cast<size_t>(info.vocabulary));
  for (const int32_t token : prompt) sampler.add(token);
  const double prompt_s = decoder.run_s();
  decoder.load_step();
  const auto stepping = Clock::now();
  int64_t added = 0;
  while (true) {
    const int32_t token = sampler.choose(scores, static_cast<int64_t>(prompt.size()) + added);
    ++added;
    give(stream.push(token));
    if (std::ranges::find(info.ends, token) != info.ends.end() || added == most) break;
    sampler.add(token);
    scores = decoder.step(token);
  }
  give(stream.end());
  print(text + "\n");
  if (!options.verbose) return;
  const std::chrono::duration<double> steps_s = Clock::now() - stepping;
  std::fprintf(stderr, "%s\n%s\n",
               pace("prompt", static_cast<int64_t>(prompt.size()), prompt_s).c_str(),
               pace("added", added, steps_s.count()).c_str());
}

}  // namespace tv::cli
