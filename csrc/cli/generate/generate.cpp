#include "csrc/cli/generate/generate.h"

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "csrc/cli/generate/text_generation.h"
#include "csrc/cli/text/lines.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

using tokenizer::Tokenizer;
using Clock = std::chrono::steady_clock;

Tokenizer read_tokenizer(const Options& options) {
  std::string path = options.tokenizer;
  if (path.empty()) {
    path = (std::filesystem::path(options.model) / "tokenizer.json").string();
    std::error_code unknown;
    if (!std::filesystem::exists(path, unknown)) {
      throw Error(ErrorKind::kUser, "[generate] " + options.model +
                                        " holds no tokenizer.json, want --tokenizer=FILE");
    }
  }
  return Tokenizer::read(path);
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

/// Submissions to the device that runs have taken.
uint64_t submissions(const Network& network) {
  uint64_t submissions = 0;
  for (const auto& engine : network.engines()) submissions += engine->stats().submissions;
  return submissions;
}

}  // namespace

void generate(const std::shared_ptr<Device>& device, const Options& options) {
  const auto decoder = std::make_shared<SavedDecoder>(
      device, options.model,
      EngineOptions{.check_addresses = options.check_addresses,
                    .weight_budget = options.settings.weight_budget});
  const Tokenizer tokenizer = read_tokenizer(options);
  check_tokenizer(tokenizer, decoder->info());
  GenerationRequest request{
      .prompt = tokenizer.encode(options.prompt),
      .most = options.tokens,
      .most_name = "--tokens",
      .sampling = options.sampling,
      .together = steps_of_a_submission(*device, options.steps_per_submission)};
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());

  DecoderState state(decoder);
  TextGeneration text(state, &tokenizer, std::move(request));
  const double prompt_s = state.run_s();
  decoder->release_prompt();  // before the step's weights are on the device, too
  const std::shared_ptr<const Network> step = decoder->step();
  const uint64_t before = submissions(*step);
  const auto stepping = Clock::now();
  std::string kept;
  for (Finish finish = Finish::kNotYet; finish == Finish::kNotYet;) {
    const Piece piece = text.next();
    finish = piece.finish;
    if (options.stream) {
      print(piece.text);
    } else {
      kept += piece.text;
    }
  }
  print(kept + "\n");
  if (!options.verbose) return;
  const std::chrono::duration<double> steps_s = Clock::now() - stepping;
  std::fprintf(stderr, "%s\n%s\nsubmissions: %llu, tokens %s\n",
               pace("prompt", prompt_tokens, prompt_s).c_str(),
               pace("added", text.added(), steps_s.count()).c_str(),
               static_cast<unsigned long long>(submissions(*step) - before), text.way().c_str());
}

}  // namespace tv::cli
