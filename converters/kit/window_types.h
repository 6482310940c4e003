#pragma once
// Types of windows on pictures of one to three dimensions.

#include "csrc/types/types.h"

namespace tv::types {

/// What a window's steps give along each dimension.
struct Window {
  std::vector<Expr> kernel = {}, stride = {}, padding = {}, dilation = {};
};

void check_window(NodeTypes& t, const Window& window);

/// Channels and pictures of `dims` dimensions, with or without a batch.
Shape picture(const NodeTypes& t, const char* arg, size_t dims);

}  // namespace tv::types
