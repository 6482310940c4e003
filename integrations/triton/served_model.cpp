#include "integrations/triton/served_model.h"

#include <algorithm>
#include <filesystem>

#include "csrc/frontends/graph_file/graph_file.h"
#include "csrc/plan/plan.h"
#include "integrations/triton/instance.h"
#include "runtime/base/error.h"

namespace tv::triton {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const ModelConfig& config, const std::string& text) {
  throw Error(ErrorKind::kUser, "model '" + config.name() + "': " + text);
}

bool is_engine(const std::string& path) { return fs::path(path).extension() == ".vke"; }

constexpr const char* kSuffixes[] = {".vke", ".onnx", ".vkg"};

/// The model's file: the one that the configuration names, else the only one called "model".
std::string find_file(const ModelConfig& config, const std::string& folder) {
  if (!config.file_name().empty()) {
    const fs::path path = fs::path(folder) / config.file_name();
    if (std::ranges::find(kSuffixes, path.extension().string()) == std::end(kSuffixes)) {
      fail(config, "default_model_filename: got '" + config.file_name() +
                       "', want a name that ends with .vke, .onnx or .vkg");
    }
    if (!fs::is_regular_file(path)) fail(config, path.string() + " is not there");
    return path.string();
  }
  std::string found;
  for (const char* suffix : kSuffixes) {
    const fs::path path = fs::path(folder) / (std::string("model") + suffix);
    if (!fs::is_regular_file(path)) continue;
    if (!found.empty()) {
      fail(config, folder + " has " + fs::path(found).filename().string() + " and " +
                       path.filename().string() + "; default_model_filename says which");
    }
    found = path.string();
  }
  if (found.empty()) fail(config, folder + " has neither model.vke, model.onnx nor model.vkg");
  return found;
}

using Ranges = std::map<std::string, std::vector<DimRange>>;

/// Sizes of the inputs: dimension 0, where the file leaves it open, from 1 to `batch`, and chosen
/// for that, as far as the file goes; others as they are.
Ranges batched(const Graph& graph, int64_t batch) {
  Ranges ranges;
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    if (input.shape.empty() || input.shape[0].is_constant()) return {};
    std::vector<DimRange>& dims = ranges[input.name];
    for (const Expr& dim : input.shape) {
      if (const auto size = dim.constant()) {
        dims.push_back({*size, *size, *size});
        continue;
      }
      const auto& symbol = graph.symbols[static_cast<size_t>(dim.symbols().front())];
      dims.push_back({symbol.min, symbol.opt, symbol.max});
    }
    const auto [least, most] = input.shape[0].bounds(graph.symbols);
    const int64_t low = std::max<int64_t>(1, least), high = std::max(low, std::min(batch, most));
    dims[0] = {low, high, high};
  }
  return ranges;
}

struct FileModel {
  Graph graph;
  std::vector<Weight> weights;
};

FileModel read_model(const std::string& path, const Ranges& inputs, const Settings& settings) {
  if (fs::path(path).extension() == ".vkg") {
    graph_file::Model model =
        graph_file::read(path, {.inputs = inputs, .sparse_weights = settings.sparse_weights});
    return {std::move(model.graph), std::move(model.weights)};
  }
  onnx::ImportOptions options = onnx::import_options(settings);
  options.inputs = inputs;
  options.unsigned_integers = false;  // requests bring them as they are in the file
  onnx::ImportedModel model = onnx::import_file(path, options);
  return {std::move(model.graph), std::move(model.weights)};
}

std::vector<cli::WeightBytes> weights_of(const EngineSpec& spec, const FileModel& model) {
  std::map<std::string, const Weight*> by_name;
  for (const Weight& weight : model.weights) by_name.emplace(weight.name, &weight);
  std::vector<cli::WeightBytes> out;
  for (const Binding& binding : spec.weights) {
    const auto found = by_name.find(binding.name);
    if (found == by_name.end()) {
      throw Error(ErrorKind::kInternal, "the model has no weight '" + binding.name + "'");
    }
    WeightBytes bytes = found->second->load();
    if (!bytes.owner) bytes.owner = std::make_shared<int>();  // it is there, with or without bytes
    out.push_back(std::move(bytes));
  }
  return out;
}

}  // namespace

ServedModel::ServedModel(const ModelPlace& place) : config_(place.config) {
  path_ = find_file(config_, place.folder);
  const bool built = is_engine(path_);
  parameters_ = parameters_of(config_, place, built ? ModelKind::kEngine : ModelKind::kBuilt);
  const bool open = place.auto_complete && config_.batching_is_open();
  batch_ = open ? place.usual_batch : config_.max_batch_size();
  read();
  if (open && !built && batch_ > 0 && signature_.max_batch == 0) {
    batch_ = 0;  // dimension 0 is open, and no batch: the model's own sizes hold
    read();
  }
  if (place.auto_complete) config_.complete(signature_, place.usual_batch);
  config_.compare(signature_);
}

void ServedModel::read() {
  network_.set(load());
  std::vector<const EngineSpec*> profiles;
  for (const auto& engine : network()->engines()) profiles.push_back(&engine->spec());
  signature_ = signature_of(profiles);
}

std::shared_ptr<const cli::Network> ServedModel::load() const {
  const std::shared_ptr<Device> device = open_device(parameters_.device);
  auto made = std::make_shared<const cli::Network>(
      is_engine(path_) ? cli::Network::load(device, path_, parameters_.engine) : build(device));
  if (!made->has_weights()) fail(config_, path_ + " was saved without its weights");
  return made;
}

cli::Network ServedModel::build(std::shared_ptr<Device> device) const {
  FileModel model = read_model(path_, parameters_.shapes, parameters_.settings);
  if (parameters_.shapes.empty() && batch_ > 0) {
    const Ranges ranges = batched(model.graph, batch_);
    if (!ranges.empty()) model = read_model(path_, ranges, parameters_.settings);
  }
  const DeviceProfile& target = profile(*device);
  const Plan whole = plan(model.graph, parameters_.settings, target, Rest::kNobody);
  if (whole.parts.blocks.empty()) {
    std::string message =
        "model '" + config_.name() + "': nodes of " + path_ + " cannot run on " + target.name + ":";
    for (const std::string& line : refusals(whole)) message += "\n  " + line;
    throw Error(ErrorKind::kUnsupported, message);
  }
  std::vector<EngineSpec> specs;
  specs.push_back(tv::build(whole, 0, {.cache = parameters_.cache}));
  std::vector<cli::WeightBytes> weights = weights_of(specs.front(), model);
  return {std::move(device), std::move(specs), std::move(weights), parameters_.engine};
}

std::string ServedModel::description() const {
  const std::shared_ptr<const cli::Network> now = network();
  const std::string batches = config_.max_batch_size() > 0
                                  ? "batches of up to " + std::to_string(config_.max_batch_size())
                                  : "one request at a time, as " + (signature_.why_no_batch.empty()
                                                                        ? "the configuration says"
                                                                        : signature_.why_no_batch);
  return "model '" + config_.name() + "': " + path_ + " on " +
         profile(*now->engines().front()->device()).name + ", " + std::to_string(now->profiles()) +
         " shape profiles, " + batches;
}

std::unique_ptr<ServedInstance> ServedModel::make_instance(TRITONBACKEND_ModelInstance* handle) {
  return std::make_unique<Instance>(handle, *this);
}

}  // namespace tv::triton
