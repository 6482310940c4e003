#include "csrc/graph/provenance.h"

#include <algorithm>

namespace tv {

std::string common_module(const std::string& a, const std::string& b) {
  if (a == b) return a;
  if (a.starts_with('#') && b.starts_with('#')) return a + "|" + b;
  size_t end = 0;
  for (size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool a_ends = i == a.size() || a[i] == '.', b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) end = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

}  // namespace tv
