#pragma once
// What the graphs of one node share that are run by each of their tactics: for tests and for
// benchmarks/native.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/engine/engine.h"
#include "runtime/vulkan/device_profile.h"

namespace tv::test {

/// Numbers of every floating type, as stored, and back.
void store_number(std::vector<uint8_t>& bytes, int64_t index, double value, DType dtype);
double load_number(const std::vector<uint8_t>& bytes, int64_t index, DType dtype);

HostTensor host_tensor(std::vector<uint8_t>& bytes);

/// A call on weights, inputs and outputs, whoever makes it.
using TensorCall =
    std::function<void(std::span<const HostTensor> weights, std::span<const HostTensor> inputs,
                       std::span<const HostTensor> outputs)>;
/// That of an engine, whose symbols have these values.
TensorCall call_of(std::shared_ptr<Engine> engine, std::vector<int64_t> symbols = {});

/// A tactic's name, and why it does not apply, or "".
struct CandidateTactic {
  std::string name, refusal;
};
/// Words of a form that have digits, and options of a tactic, N for a number.
inline constexpr std::array<std::string_view, 2> kWordsWithDigits = {"matrix2", "vec4"};
inline constexpr std::array<std::string_view, 13> kTacticOptions = {
    "kN",    "ringN", "stageN", "sN",    "gN",    "uN",    "ahead",
    "keepN", "runN",  "keptN",  "unitN", "split", "splitN"};
/// Whether it is written by the grammar of docs/kernels.md: family, form, precision, tiles,
/// options.
bool is_tactic_name(const std::string& name);
/// Throws Error(kInternal) for a name of another grammar.
CandidateTactic candidate_of(const std::string& name, const std::string& refusal);
/// What the converter of one node of `graph` has for a device, in order.
std::vector<CandidateTactic> tactics_of(const Graph& graph, const Node& node,
                                        const Settings& settings, const DeviceProfile& profile);

/// The engine description of a graph with one tactic forced. The profile may differ from the device
/// that runs it (GPU tactics on a CPU driver): the fingerprints are left out.
EngineSpec compile_with_tactic(const Graph& graph, const std::string& tactic, Settings settings,
                               const DeviceProfile& profile);

/// `profile` as that of a GPU: a CPU driver runs the tactics of GPUs too, slowly.
DeviceProfile as_gpu(DeviceProfile profile);

}  // namespace tv::test
