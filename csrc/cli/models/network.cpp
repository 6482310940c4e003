#include "csrc/cli/models/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "csrc/cli/text/nearest.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/spec/vke.h"
#include "runtime/spec/vke_parts.h"

namespace tv::cli {
namespace {

[[noreturn]] void user_error(const std::string& message) { throw Error(ErrorKind::kUser, message); }

std::vector<int64_t> evaluate(const Shape& shape, std::span<const int64_t> symbols) {
  std::vector<int64_t> sizes;
  for (const Expr& dim : shape) sizes.push_back(dim.eval(symbols));
  return sizes;
}

WeightBytes owned(std::vector<uint8_t> bytes) {
  auto memory = std::make_shared<AlignedBytes>(static_cast<int64_t>(bytes.size()));
  if (!bytes.empty()) std::copy(bytes.begin(), bytes.end(), memory->data());
  return {{memory->data(), bytes.size()}, memory};
}

/// Shapes of all inputs from those of some.
std::vector<std::vector<int64_t>> complete(const EngineSpec& spec, const NamedShapes& shapes) {
  std::vector<std::optional<int64_t>> known(spec.symbols.size());
  for (const Binding& input : spec.inputs) {
    const auto given = shapes.find(input.name);
    if (given == shapes.end()) continue;
    for (size_t d = 0; d < std::min(input.shape.size(), given->second.size()); ++d) {
      const auto solved = input.shape[d].solve(given->second[d]);
      if (solved) known[static_cast<size_t>(solved->first)] = solved->second;
    }
  }
  std::vector<int64_t> symbols;
  for (size_t s = 0; s < known.size(); ++s)
    symbols.push_back(known[s].value_or(spec.symbols[s].opt));
  std::vector<std::vector<int64_t>> out;
  for (const Binding& input : spec.inputs) {
    const auto given = shapes.find(input.name);
    out.push_back(given != shapes.end() ? given->second : evaluate(input.shape, symbols));
  }
  return out;
}

double distance(const EngineSpec& spec, std::span<const int64_t> symbols) {
  double away = 0;
  for (size_t s = 0; s < symbols.size(); ++s) {
    away += std::fabs(std::log2(static_cast<double>(symbols[s] + 1) /
                                static_cast<double>(spec.symbols[s].opt + 1)));
  }
  return away;
}

}  // namespace

Network::Network(std::shared_ptr<Device> device, std::vector<EngineSpec> specs,
                 std::vector<WeightBytes> weights, EngineOptions options)
    : weights_(std::move(weights)) {
  for (EngineSpec& spec : specs) {
    engines_.push_back(Engine::create(device, std::move(spec), options));
  }
  const size_t count = spec().weights.size();
  if (weights_.empty()) weights_.resize(count);
  if (weights_.size() != count) {
    throw Error(ErrorKind::kInternal, "[vkexec] got " + std::to_string(weights_.size()) +
                                          " weights, want " + std::to_string(count));
  }
  prepare();
}

Network Network::load(std::shared_ptr<Device> device, const std::string& path,
                      EngineOptions options) {
  const std::vector<uint8_t> file = read_file(path, std::numeric_limits<int64_t>::max());
  std::vector<EngineSpec> specs;
  std::vector<WeightBytes> weights;
  try {
    for (const auto part : split_vke(file)) {
      VkeContents contents = from_vke(part);
      if (specs.empty()) {
        for (auto& bytes : contents.weights) weights.push_back(owned(std::move(bytes)));
      }
      specs.push_back(std::move(contents.spec));
    }
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) + " (in " + path + ")");
  }
  if (specs.empty()) user_error("[vke] " + path + " is empty");
  return {std::move(device), std::move(specs), std::move(weights), options};
}

std::vector<HostTensor> Network::host_weights() const {
  std::vector<HostTensor> tensors;
  for (const WeightBytes& w : weights_) {
    // Weights are read only; HostTensor serves outputs too.
    tensors.push_back({const_cast<uint8_t*>(w.bytes.data()), static_cast<int64_t>(w.bytes.size())});
  }
  return tensors;
}

void Network::prepare() {
  const bool complete = std::all_of(weights_.begin(), weights_.end(),
                                    [](const WeightBytes& w) { return w.owner != nullptr; });
  sets_.clear();
  if (!complete) return;
  const std::vector<HostTensor> tensors = host_weights();
  for (const auto& engine : engines_) sets_.push_back(engine->prepare_weights(tensors));
}

int64_t Network::weight_bytes() const {
  int64_t bytes = 0;
  for (const WeightBytes& w : weights_) bytes += static_cast<int64_t>(w.bytes.size());
  return bytes;
}

size_t Network::refit(const NewWeights& weights) {
  std::vector<WeightBytes> next = weights_;
  size_t taken = 0;
  const std::vector<Binding>& bindings = spec().weights;
  for (size_t i = 0; i < bindings.size(); ++i) {
    const auto found = weights.find(bindings[i].name);
    if (found == weights.end()) continue;
    const std::vector<int64_t> shape = evaluate(bindings[i].shape, {});
    if (found->second.dtype != bindings[i].dtype || found->second.shape != shape) {
      user_error("[refit] weight '" + bindings[i].name + "': got " +
                 std::string(name(found->second.dtype)) + " " + shape_text(found->second.shape) +
                 ", want " + std::string(name(bindings[i].dtype)) + " " + shape_text(shape));
    }
    next[i] = found->second.bytes;
    ++taken;
  }
  if (taken == 0 && !bindings.empty()) {
    user_error("[refit] none of the engine's " + std::to_string(bindings.size()) +
               " weights is there ('" + bindings.front().name + "', …); --dumpRefit lists them");
  }
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (!next[i].owner) {
      user_error("[refit] the engine was saved without its weights, and '" + bindings[i].name +
                 "' is not among the new ones");
    }
  }
  weights_ = std::move(next);
  prepare();
  return taken;
}

Bound Network::bind(const NamedShapes& shapes) const {
  std::vector<std::string> names;
  for (const Binding& input : spec().inputs) names.push_back(input.name);
  for (const auto& [name, shape] : shapes) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string all;
    for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
    const std::string near = nearest(name, names);
    user_error("[shapes] there is no input '" + name + "'; the inputs are " + all +
               (near.empty() ? "" : ": did you mean '" + near + "'?"));
  }
  std::optional<Bound> best;
  double best_away = 0;
  std::optional<Error> refusal;
  for (size_t e = 0; e < engines_.size(); ++e) {
    const EngineSpec& candidate = engines_[e]->spec();
    Bound bound{.engine = engines_[e], .input_shapes = complete(candidate, shapes)};
    try {
      bound.symbols = engines_[e]->bind_shapes(bound.input_shapes);
    } catch (const Error& error) {
      if (!refusal) refusal = error;
      continue;
    }
    const double away = distance(candidate, bound.symbols);
    if (best && away >= best_away) continue;
    if (has_weights()) bound.weights = sets_[e];
    for (const Binding& output : candidate.outputs) {
      bound.output_shapes.push_back(evaluate(output.shape, bound.symbols));
    }
    best = std::move(bound);
    best_away = away;
  }
  if (!best) throw *refusal;
  return std::move(*best);
}

void Network::save(const std::string& path, bool with_weights) const {
  if (with_weights && !has_weights()) {
    user_error("[save] the engine has no weights; --stripWeights writes it without");
  }
  std::vector<std::vector<uint8_t>> files;
  for (size_t e = 0; e < engines_.size(); ++e) {
    const bool here = with_weights && e == 0;
    files.push_back(to_vke(engines_[e]->spec(), here ? host_weights() : std::vector<HostTensor>{}));
  }
  const std::vector<std::span<const uint8_t>> pieces(files.begin(), files.end());
  if (const std::string fault = write_file(path, pieces); !fault.empty()) {
    user_error("[save] " + path + ": " + fault);
  }
}

}  // namespace tv::cli
