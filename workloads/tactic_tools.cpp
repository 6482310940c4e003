#include "workloads/tactic_tools.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <regex>

#include "csrc/compile/compile.h"
#include "csrc/lowering/tactics.h"
#include "runtime/base/error.h"

namespace tv::test {

namespace {

double from_half(uint16_t h) {
  const int exponent = h >> 10 & 31;
  const double fraction = h & 1023;
  double value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) value = fraction != 0 ? NAN : INFINITY;
  return (h & 0x8000) != 0 ? -value : value;
}

/// Nearest half of a number within its normal range; smaller ones become 0.
uint16_t to_half(float f) {
  const auto u = std::bit_cast<uint32_t>(f);
  const uint32_t a = u & 0x7fffffffU, sign = u >> 16 & 0x8000U;
  if (a >= 0x7f800000U) return static_cast<uint16_t>(sign | (a > 0x7f800000U ? 0x7e00U : 0x7c00U));
  if (a < 0x38800000U) return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | ((a - 0x38000000U + 0xfffU + (a >> 13 & 1U)) >> 13));
}

/// The regular expression of one of some words, of which N stands for a number.
std::string any_of(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    text +=
        (text.empty() ? "" : "|") + std::regex_replace(std::string(word), std::regex("N"), "\\d+");
  }
  return text;
}

}  // namespace

void store_number(std::vector<uint8_t>& bytes, int64_t index, double value, DType dtype) {
  uint8_t* at = bytes.data() + index * size_bytes(dtype);
  const auto f = static_cast<float>(value);
  if (dtype == DType::kF32) {
    std::memcpy(at, &f, 4);
  } else if (dtype == DType::kF16) {
    const uint16_t half = to_half(f);
    std::memcpy(at, &half, 2);
  } else if (dtype == DType::kBF16) {
    const auto u = std::bit_cast<uint32_t>(f);
    const auto half = static_cast<uint16_t>((u + 0x7fffU + (u >> 16 & 1U)) >> 16);
    std::memcpy(at, &half, 2);
  } else {
    std::memset(at, 0, static_cast<size_t>(size_bytes(dtype)));
    *at = value > 0 ? 1 : 0;
  }
}

double load_number(const std::vector<uint8_t>& bytes, int64_t index, DType dtype) {
  const uint8_t* at = bytes.data() + index * size_bytes(dtype);
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof(T));
    return value;
  };
  switch (dtype) {
    case DType::kF32:
      return as(float{});
    case DType::kF16:
      return from_half(as(uint16_t{}));
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(as(uint16_t{})) << 16);
    case DType::kI64:
      return static_cast<double>(as(int64_t{}));
    case DType::kI32:
      return as(int32_t{});
    case DType::kU8:
      return as(uint8_t{});
    default:
      return as(int8_t{});
  }
}

HostTensor host_tensor(std::vector<uint8_t>& bytes) {
  return {bytes.data(), static_cast<int64_t>(bytes.size())};
}

TensorCall call_of(std::shared_ptr<Engine> engine, std::vector<int64_t> symbols) {
  return [engine = std::move(engine), symbols = std::move(symbols)](
             std::span<const HostTensor> weights, std::span<const HostTensor> inputs,
             std::span<const HostTensor> outputs) {
    const auto prepared = engine->prepare_weights(weights);
    engine->run(*prepared, symbols, inputs, outputs);
  };
}

bool is_tactic_name(const std::string& name) {
  static const std::string forms = "(_([a-z]{2,}|" + any_of(kWordsWithDigits) + "))*";
  static const std::string options = "(_(" + any_of(kTacticOptions) + "))*";
  static const std::regex grammar("[a-z]{2,}(3d)?" + forms +
                                  "(_(sub)?group\\d+)?"
                                  "(_b?f16(x[123])?)?"
                                  "(_\\d+(x\\d+){0,2})*(_w\\d+x\\d+(x\\d+)?)?" +
                                  options);
  return std::regex_match(name, grammar);
}

CandidateTactic candidate_of(const std::string& name, const std::string& refusal) {
  if (!is_tactic_name(name)) {
    throw Error(ErrorKind::kInternal, "[tactics] " + name +
                                          ": no name as in docs/kernels.md: words of two letters "
                                          "or more, precision, tile, options, in this order");
  }
  return {name, refusal};
}

std::vector<CandidateTactic> tactics_of(const Graph& graph, const Node& node,
                                        const Settings& settings, const DeviceProfile& profile) {
  ValueTable table(graph);
  std::vector<CandidateTactic> list;
  for (const Tactic& t : convert_node(node, table, profile, settings).candidates) {
    list.push_back(candidate_of(t.name, t.refusal));
  }
  return list;
}

EngineSpec compile_with_tactic(const Graph& graph, const std::string& tactic, Settings settings,
                               const DeviceProfile& profile) {
  settings.tactics = {tactic};
  EngineSpec spec = compile(graph, settings, profile);
  spec.runs_on.clear();
  spec.tuned_for.clear();
  return spec;
}

DeviceProfile as_gpu(DeviceProfile profile) {
  profile.type = DeviceType::kDiscrete;
  return profile;
}

}  // namespace tv::test
