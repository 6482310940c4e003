#include "tests/cpp/kit/interpreter/fragments.h"

namespace tv::interpreter {

uint32_t components(FragmentLayout layout, const Fragment& fragment) {
  const uint32_t own = fragment.rows * fragment.columns / kSubgroup;
  return layout == FragmentLayout::kReplicated ? own * 2 : own;
}

std::pair<uint32_t, uint32_t> place(FragmentLayout layout, const Fragment& fragment, uint32_t lane,
                                    uint32_t component) {
  const bool right = fragment.use == Fragment::kRight || fragment.rows > 16;
  const uint32_t length = right ? fragment.rows : fragment.columns;
  uint32_t row = 0, column = 0;
  if (layout == FragmentLayout::kNvidia && length == kMostSteps) {
    row = lane / 4 + component / 4 % 2 * 8;
    column = lane % 4 * 4 + component / 8 * 16 + component % 4;
  } else if (layout == FragmentLayout::kNvidia) {
    row = lane / 4 + component / 4 * 8;
    column = lane % 4 * 2 + component / 2 % 2 * 8 + component % 2;
  } else if (layout == FragmentLayout::kReplicated) {
    row = lane % 16;
    column = component;
  } else {
    const uint32_t count = length * 16, own = count / kSubgroup;
    const uint32_t number = ((lane * own + component) * 77 + fragment.use * 31U + 5) % count;
    row = number / length;
    column = number % length;
  }
  if (right) return {column, row};
  return {row, column};
}

}  // namespace tv::interpreter
