#pragma once
// How a text is split into the words that the model sees.

#include <functional>
#include <vector>

#include "csrc/tokenizer/word.h"
#include "runtime/base/json.h"

namespace tv::tokenizer {

/// The words of a word, none of them empty.
using PreTokenizer = std::function<std::vector<Word>(const Word&)>;

/// The member "pre_tokenizer" of a file. Throws Error(kUser) naming a type that it does not know.
PreTokenizer read_pre_tokenizer(const Json& json);

}  // namespace tv::tokenizer
