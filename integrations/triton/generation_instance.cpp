#include "integrations/triton/generation_instance.h"

#include "csrc/cli/generate/text_generation.h"

namespace tv::triton {

void GenerationInstance::execute(std::span<TRITONBACKEND_Request* const> requests) noexcept {
  for (TRITONBACKEND_Request* request : requests) {
    answer(request);
    log_error(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
  }
}

void GenerationInstance::answer(TRITONBACKEND_Request* request) {
  Times times{.start = now_ns()};
  GenerationCall call(request, model_.config().is_decoupled());
  try {
    generate(call, times);
  } catch (const std::exception& error) {
    fail(call, error);
    report_failure(handle_, request, times);
    return;
  }
  times.end = now_ns();
  report_batch(handle_, std::span(&request, 1), times, 1);
}

void GenerationInstance::generate(GenerationCall& call, Times& times) {
  call.begin();
  follow_the_model();
  cli::GenerationRequest request = call.read(decoder_->info(), model_.tokenizer());
  request.together = model_.together();
  times.compute_start = now_ns();
  cli::TextGeneration text(*state_, model_.tokenizer(), std::move(request));
  for (cli::Finish finish = cli::Finish::kNotYet; finish == cli::Finish::kNotYet;) {
    call.check_cancelled();
    const cli::Piece piece = text.next();
    finish = piece.finish;
    times.compute_end = now_ns();
    call.give(piece);
  }
  model_.worked();
}

void GenerationInstance::fail(GenerationCall& call, const std::exception& error) {
  if (decoder_ && is_lost(*decoder_->device())) {
    try {
      model_.recover(decoder_);
    } catch (const std::exception& again) {
      return call.fail(again);
    }
  }
  call.fail(error);
}

void GenerationInstance::follow_the_model() {
  std::shared_ptr<cli::SavedDecoder> now = model_.decoder();
  if (now == decoder_) return;
  state_.reset();
  decoder_ = std::move(now);
  state_.emplace(decoder_);
}

}  // namespace tv::triton
