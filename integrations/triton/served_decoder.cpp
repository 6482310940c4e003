#include "integrations/triton/served_decoder.h"

#include <filesystem>

#include "csrc/cli/generate/text_generation.h"
#include "integrations/triton/generation_call.h"
#include "integrations/triton/generation_instance.h"

namespace tv::triton {
namespace {

namespace fs = std::filesystem;

}  // namespace

bool is_decoder(const std::string& folder) {
  std::error_code unknown;
  return fs::is_regular_file(fs::path(folder) / "generation.json", unknown);
}

ServedDecoder::ServedDecoder(const ModelPlace& place)
    : config_(place.config),
      folder_(place.folder),
      parameters_(parameters_of(config_, place, ModelKind::kDecoder)) {
  decoder_.set(load());
  const std::shared_ptr<cli::SavedDecoder> loaded = decoder();
  const fs::path tokenizer = fs::path(folder_) / "tokenizer.json";
  if (fs::exists(tokenizer)) {
    tokenizer_ = tokenizer::Tokenizer::read(tokenizer.string());
    cli::check_tokenizer(*tokenizer_, loaded->info());
  }
  together_ = cli::steps_of_a_submission(*loaded->device(), parameters_.steps_per_submission);
  const Signature signature = generation_signature(tokenizer_.has_value());
  if (place.auto_complete) config_.complete(signature, place.usual_batch);
  config_.compare(signature);
}

std::shared_ptr<cli::SavedDecoder> ServedDecoder::load() const {
  auto made = std::make_shared<cli::SavedDecoder>(open_device(parameters_.device), folder_,
                                                  parameters_.engine);
  if (made->info().chunk > 0) made->prompt();
  made->step();
  return made;
}

std::string ServedDecoder::description() const {
  const std::shared_ptr<cli::SavedDecoder> now = decoder();
  const cli::GenerationInfo& info = now->info();
  return "model '" + config_.name() + "': " + folder_ + " (" + info.model + ") on " +
         profile(*now->device()).name + ", texts of up to " + std::to_string(info.positions) +
         " tokens, " + std::to_string(together_) + " a submission, " +
         (config_.is_decoupled() ? "a response for each token" : "one response for all tokens");
}

std::unique_ptr<ServedInstance> ServedDecoder::make_instance(TRITONBACKEND_ModelInstance* handle) {
  return std::make_unique<GenerationInstance>(handle, *this);
}

}  // namespace tv::triton
