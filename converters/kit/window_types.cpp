#include "converters/kit/window_types.h"

namespace tv::types {

Shape picture(const NodeTypes& t, const char* arg, size_t dims) {
  Shape shape = t.shape(arg);
  t.want(shape.size() == dims + 1 || shape.size() == dims + 2,
         std::string("argument '") + arg + "' is of rank " + std::to_string(shape.size()));
  return shape;
}

void check_window(NodeTypes& t, const Window& w) {
  t.positive(w.kernel, "a size of the kernel");
  t.positive(w.stride, "a stride");
  t.positive(w.dilation, "a dilation");
  for (const Expr& padding : w.padding) t.at_least(padding, 0, "a padding");
}

}  // namespace tv::types
