#pragma once
// The inputs of a request to continue a text.

#include <vector>

#include "csrc/cli/generate/text_generation.h"
#include "integrations/triton/calls.h"
#include "integrations/triton/signature.h"

namespace tv::triton {

std::vector<ServedTensor> generation_inputs(bool has_tokenizer);

/// `tokenizer`: null where prompts are tokens. Throws Error(kUser) that names the input that is
/// wrong.
cli::GenerationRequest read_generation(TRITONBACKEND_Request* request,
                                       const cli::GenerationInfo& info,
                                       const tokenizer::Tokenizer* tokenizer);

}  // namespace tv::triton
