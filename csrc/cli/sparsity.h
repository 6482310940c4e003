#pragma once

#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::cli {

/// Makes the weights of products 2:4 sparse, whatever they were, by magnitude: `--sparsity=force`.
/// They are loaded pruned from then on. Says which results change.
void prune_weights(onnx::ImportedModel& model);

}  // namespace tv::cli
