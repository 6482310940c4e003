#pragma once

#include <string>

namespace tv::tokenizer {

/// A part of a text that is encoded by itself.
struct Word {
  std::string text;
  bool first = false;  ///< begins where the caller's text does
};

}  // namespace tv::tokenizer
