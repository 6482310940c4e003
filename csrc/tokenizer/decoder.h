#pragma once
// How tokens become text again.

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/json.h"

namespace tv::tokenizer {

/// Pieces of text, at first one for each token.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

/// The member "decoder" of a file. Throws Error(kUser) naming a type that it does not know.
Decoder read_decoder(const Json& json);

}  // namespace tv::tokenizer
