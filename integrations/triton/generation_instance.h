#pragma once
// An instance of a decoder: its state, which makes one text at a time.

#include <memory>
#include <optional>
#include <span>

#include "csrc/cli/generate/decoder_state.h"
#include "integrations/triton/generation_call.h"
#include "integrations/triton/served_decoder.h"
#include "integrations/triton/times.h"

namespace tv::triton {

class GenerationInstance : public ServedInstance {
 public:
  GenerationInstance(TRITONBACKEND_ModelInstance* handle, ServedDecoder& model)
      : handle_(handle), model_(model) {}

  /// One request after the other.
  void execute(std::span<TRITONBACKEND_Request* const> requests) noexcept override;

 private:
  void answer(TRITONBACKEND_Request* request);
  void generate(GenerationCall& call, Times& times);
  void fail(GenerationCall& call, const std::exception& error);
  void follow_the_model();

  TRITONBACKEND_ModelInstance* handle_;
  ServedDecoder& model_;
  std::shared_ptr<cli::SavedDecoder> decoder_;  ///< of the model's, that `state_` is of
  std::optional<cli::DecoderState> state_;
};

}  // namespace tv::triton
