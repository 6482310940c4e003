#pragma once
// What the kernels of tv::attention are told (attention_flash.cpp says what it is).

#include <string>

#include "converters/kit/steps.h"

namespace tv {

inline constexpr int64_t kMaxFlashHead = 256;

/// Whether a node with the arguments query, key and value can become a tv::attention.
bool fits_flash(const NodeContext& context);

struct AttentionProblem {
  LoopNest heads;  ///< targets q, k, v and mask
  Expr queries, keys;
  int64_t d = 0, e = 0;  ///< head sizes of queries and values
  ValueId mask = kNoValue;
  Shape mask_strides;  ///< of a query and a key

  /// The same heads, those that share keys and values as one: `repeat` of them, which queries and
  /// mask step through by so many elements.
  LoopNest groups;
  Expr repeat = 1, q_group = 0, mask_group = 0;
};
AttentionProblem attention_problem(const NodeContext& context, const Builder& builder);

/// A launch with the operands, parameters and defines that all kernels share.
Step attention_step(const NodeContext& context, const Builder& builder,
                    const AttentionProblem& problem, const std::string& kernel);

/// The defines VECTOR, Q4, K4 and V4: how four elements of an operand are read at once.
void add_fours(const NodeContext& context, const Builder& builder, Step& step);

/// Elements of query, key and value may be read `count` neighbours of a row at a time.
bool reads_side_by_side(const NodeContext& context, const Builder& builder, int64_t count);

/// Tactics on matrix units, best first.
std::vector<Tactic> matrix_attention(const NodeContext& context, const Builder& builder,
                                     const AttentionProblem& problem);

/// Tactics for few queries, best first.
std::vector<Tactic> decode_attention(const NodeContext& context, Builder& builder,
                                     const AttentionProblem& problem);

}  // namespace tv
