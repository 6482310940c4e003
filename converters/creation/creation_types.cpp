#include "converters/creation/creation_types.h"

namespace tv::types {

void of_size(NodeTypes& t) { t.gives(t.node().exprs("size")); }

void line(NodeTypes& t) {
  // Numbers are no tensors, so what is one is a scalar.
  for (const char* arg : {"start", "end"}) {
    if (t.node().arg(arg).is_tensor) t.equal(t.shape(arg), {}, arg);
  }
  t.gives({t.node().expr("steps")});
}

void eye(NodeTypes& t) {
  const Expr n = t.node().expr("n");
  t.gives({n, t.expr("m", n)});
}

}  // namespace tv::types
