#include "csrc/operators/rules.h"

#include <sstream>

#include "runtime/base/error.h"

namespace tv {

void TypeRules::add(std::string_view names, const TypeRule& rule) {
  std::istringstream words{std::string(names)};
  for (std::string name; words >> name;) {
    if (name.find("::") == std::string::npos) name = "aten::" + name;
    if (!rules_.emplace(name, rule).second) {
      throw Error(ErrorKind::kInternal, "[types] " + name + " has two rules");
    }
  }
}

void TypeRules::add(std::string_view names, const char* pattern_text) {
  add(names, pattern(pattern_text));
}

const TypeRule* TypeRules::find(std::string_view op) const {
  const auto found = rules_.find(op);
  return found == rules_.end() ? nullptr : &found->second;
}

const TypeRule* type_rule_of(std::string_view op) {
  static const TypeRules rules = [] {
    TypeRules made;
    add_creation_rules(made);
    add_indexing_rules(made);
    add_matrix_rules(made);
    add_row_rules(made);
    add_view_rules(made);
    add_window_rules(made);
    return made;
  }();
  if (const TypeRule* rule = rules.find(op)) return rule;
  constexpr std::string_view kComplex = "complex::";
  return op.starts_with(kComplex) ? rules.find("aten::" + std::string(op.substr(kComplex.size())))
                                  : nullptr;
}

}  // namespace tv
