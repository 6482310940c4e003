#pragma once

#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::onnx {

/// Constants of an attention's pieces that exporters write as initializers become what the compiler
/// knows: a zero that `where` chooses, and a mask of [1, …, M, N] - or where(seen, 0, -inf) of one
/// - that is added before a softmax and is zero (nothing is added), or -inf above its diagonal
/// (triu). The graph then depends on them: a refit from a file with others is one of another
/// network. Weights that nothing reads are dropped.
void bake_masks(ImportedModel& model);

}  // namespace tv::onnx
