#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace tv::tokenizer {

/// A part of a text that is encoded by itself.
struct Word {
  std::string text;
  /// Bytes at its front that come from the first character of the caller's text, whatever a
  /// normalizer made of that or put in front of it.
  size_t front = 0;
  bool starts = false;  ///< made of what begins where the caller's text does

  /// As the library has it: by where it comes from.
  bool is_first() const { return front > 0; }
  Word part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), std::clamp(front, begin, end) - begin,
            starts && begin == 0};
  }
};

}  // namespace tv::tokenizer
