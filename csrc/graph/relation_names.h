#pragma once
// What bindings and files call relations of conditions.

#include <optional>
#include <string_view>

#include "runtime/base/condition.h"

namespace tv {

/// "equal", "differs", "at_least", "multiple".
std::string_view name(Relation relation);
/// The inverse; nothing for another text.
std::optional<Relation> relation_from_name(std::string_view name);

}  // namespace tv
