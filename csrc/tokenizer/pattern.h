#pragma once
// What splits or replaces: a literal, an expression or a set of characters; and how a text is
// split.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/tokenizer/fields.h"
#include "csrc/tokenizer/regex.h"

namespace tv::tokenizer {

/// Finds its matches in a text.
using Pattern = std::function<std::vector<Span>(std::string_view)>;

/// {"String": "…"} or {"Regex": "…"}.
Pattern read_pattern(const Fields& owner, std::string_view name);
/// Each character for which `matches` holds.
Pattern characters(std::function<bool(char32_t)> matches);

/// What happens to a match when a text is split at it.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
Behavior read_behavior(const Fields& owner, std::string_view name);

/// The parts of `text`, without empty ones. `inverted`: what lies between matches is the match.
std::vector<Span> split(std::string_view text, const Pattern& pattern, Behavior behavior,
                        bool inverted = false);

/// `text` with `content` in place of each match. Throws as check_text_size.
std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content);

}  // namespace tv::tokenizer
