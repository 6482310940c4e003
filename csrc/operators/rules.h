#pragma once
// What each operator wants of types: one table, by families.

#include <map>
#include <string>
#include <string_view>

#include "csrc/operators/types.h"

namespace tv {

class TypeRules {
 public:
  /// `names` are parted by blanks; those without a library are ATen's.
  void add(std::string_view names, const TypeRule& rule);
  void add(std::string_view names, const char* pattern_text);
  const TypeRule* find(std::string_view op) const;  ///< null where there is none

 private:
  std::map<std::string, TypeRule, std::less<>> rules_;
};

void add_creation_rules(TypeRules& rules);
void add_indexing_rules(TypeRules& rules);
void add_matrix_rules(TypeRules& rules);
void add_row_rules(TypeRules& rules);
void add_view_rules(TypeRules& rules);
void add_window_rules(TypeRules& rules);

/// Null where there is none: a pointwise operator, or one that is not known. An operator on complex
/// values has ATen's.
const TypeRule* type_rule_of(std::string_view op);

}  // namespace tv
