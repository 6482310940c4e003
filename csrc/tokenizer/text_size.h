#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/base/error.h"

namespace tv::tokenizer {

inline constexpr size_t kMostTextBytes = size_t{64} << 20;

/// What a text and what is made of it may take together: the steps of a short file can double it
/// any number of times. Throws Error(kUser).
inline void check_text_size(size_t bytes) {
  if (bytes <= kMostTextBytes) return;
  throw Error(ErrorKind::kUser,
              "[tokenizer] a text, or what the file's steps make of it, has more than 64 MiB");
}

/// The same of one step of a file among several, or of a token that it normalises: a long file asks
/// for many, and together they would take hours. What steps make of `given` bytes is rarely longer.
inline void check_growth(size_t bytes, size_t given) {
  check_text_size(bytes);
  if (bytes <= 4096 + 256 * std::min(given, kMostTextBytes)) return;
  throw Error(ErrorKind::kUser,
              "[tokenizer] the file's steps make more than 256 times as much of a text");
}

}  // namespace tv::tokenizer
