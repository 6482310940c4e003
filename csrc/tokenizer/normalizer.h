#pragma once
// What is done to a text before it is split.

#include <functional>

#include "csrc/tokenizer/word.h"
#include "runtime/base/json.h"

namespace tv::tokenizer {

using Normalizer = std::function<void(Word&)>;

/// The member "normalizer" of a file. Throws Error(kUser) naming a type that it does not know.
Normalizer read_normalizer(const Json& json);

}  // namespace tv::tokenizer
