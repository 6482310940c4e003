#pragma once

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

}  // namespace tv::tokenizer
