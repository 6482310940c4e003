#pragma once

#include <string>

#include "csrc/graph/graph.h"
#include "runtime/base/error.h"

namespace tv {

/// What of a node does not fit its operator, as an Error(kUser).
[[noreturn]] inline void node_fails(const Node& node, const std::string& what) {
  throw Error(ErrorKind::kUser, "[" + node.op + "] node '" + node.name + "': " + what);
}

}  // namespace tv
