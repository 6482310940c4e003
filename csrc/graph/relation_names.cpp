#include "csrc/graph/relation_names.h"

#include <utility>

namespace tv {
namespace {

constexpr std::pair<std::string_view, Relation> kNames[] = {{"equal", Relation::kEqual},
                                                            {"differs", Relation::kDiffers},
                                                            {"at_least", Relation::kAtLeast},
                                                            {"multiple", Relation::kMultiple}};

}  // namespace

std::string_view name(Relation relation) {
  for (const auto& [text, known] : kNames) {
    if (known == relation) return text;
  }
  return "";
}

std::optional<Relation> relation_from_name(std::string_view name) {
  for (const auto& [text, known] : kNames) {
    if (text == name) return known;
  }
  return std::nullopt;
}

}  // namespace tv
