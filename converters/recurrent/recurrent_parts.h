#pragma once
// What the tactics of tv::recurrent and tv::lstm share.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/builder.h"
#include "csrc/converter.h"

namespace tv::rnn {

/// A network, and what its kernels hold of it.
struct Kind {
  const char* name;
  const char* gates;  ///< in the kernels' order
  int64_t arrays;     ///< of H floats, for each entry of the batch
};

/// The kind of that name, or nullptr.
const Kind* kind_named(std::string_view name);
const Kind* kind_of(const Node& node);

bool is_lstm(const Kind& kind);
/// Whether a step has two products, one behind the other.
bool resets_first(const Kind& kind);

/// How many gates a node of the kind has.
int64_t gates_of(const Kind& kind);

/// Where `gates` are among those of a node, "ifgo"; "" if some are not there.
std::string places(std::string_view gates, const std::string& order);

const Expr& batch_of(const NodeContext& c);
int64_t hidden_size(const NodeContext& c);
const Expr& steps_of(const NodeContext& c);

/// Whether anything reads an output.
bool wanted(const NodeContext& c, size_t i);

/// Some gates of the weight, as kernels read them (recurrent_pack.comp).
struct Packing {
  std::string_view gates;
  int64_t k, fours, width;  ///< steps of k, of them side by side, and units of a tile
};

ValueId packed_weight(const NodeContext& c, Builder& b, const Packing& as, DType dtype,
                      std::vector<Step>& steps);

/// States on their way from launch to launch: by turns, as one is read where another is written.
struct States {
  std::vector<ValueId> hidden, cell;
};

States states_between(const NodeContext& c, Builder& b, const Kind& kind, int64_t launches);

/// What the state `arg` is before launch i, and where it goes after it.
ValueId state_before(const NodeContext& c, const char* arg, const std::vector<ValueId>& turns,
                     int64_t i);
ValueId state_after(const std::vector<ValueId>& turns, int64_t i);

/// Defines of a kernel that computes some of a node's gates. `kind`: as the kernel names it.
std::vector<std::pair<std::string, std::string>> kind_defines(const NodeContext& c,
                                                              const char* kind,
                                                              std::string_view gates);

/// A launch of recurrent.comp for no steps at all, the i-th of `launches`: it hands the states on,
/// in the types of where they go.
Step hand_on(const NodeContext& c, Builder& b, const Kind& kind, const States& states, int64_t i,
             int64_t launches, ValueId packed);

/// Why a CPU driver has no launches for the steps of a network of so many units, or "".
std::string simd_refusal(const DeviceProfile& device, int64_t hidden, const Expr& steps);

/// The most steps that it has launches for.
int64_t most_simd_steps(const Kind& kind, int64_t hidden);

/// The tactic of CPU drivers (recurrent_simd.comp).
Tactic by_simd(const NodeContext& c, Builder& b, const Kind& kind);

/// Launches of a node of which there is one, or more, for each step.
inline constexpr int64_t kMostLaunches = 16384;

}  // namespace tv::rnn
