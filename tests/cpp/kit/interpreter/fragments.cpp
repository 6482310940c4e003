#include "tests/cpp/kit/interpreter/fragments.h"

namespace tv::interpreter {

uint32_t components(FragmentLayout layout) {
  return layout == FragmentLayout::kReplicated ? 16 : 8;
}

std::pair<uint32_t, uint32_t> place(FragmentLayout layout, const Fragment& fragment, uint32_t lane,
                                    uint32_t component) {
  uint32_t row = 0, column = 0;
  if (layout == FragmentLayout::kNvidia) {
    row = lane / 4 + component / 4 * 8;
    column = lane % 4 * 2 + component / 2 % 2 * 8 + component % 2;
  } else if (layout == FragmentLayout::kReplicated) {
    row = lane % 16;
    column = component;
  } else {
    const uint32_t number = ((lane * 8 + component) * 77 + fragment.use * 31U + 5) % 256;
    row = number / 16;
    column = number % 16;
  }
  if (fragment.use == Fragment::kRight) return {column, row};
  return {row, column};
}

}  // namespace tv::interpreter
