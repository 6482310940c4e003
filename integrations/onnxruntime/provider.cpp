#include "integrations/onnxruntime/provider.h"

#include <filesystem>
#include <limits>

#include "csrc/division/trials.h"
#include "csrc/frontends/onnx/file/external_data.h"
#include "csrc/precision.h"
#include "csrc/version.h"
#include "integrations/onnxruntime/by_value.h"
#include "integrations/onnxruntime/context.h"
#include "runtime/base/file.h"

namespace tv::ort {
namespace {

Provider* of(OrtEp* self) { return static_cast<Provider*>(self); }

/// Attribute of an EPContext node: the file name of the model that has its weights.
constexpr const char* kModelName = "onnx_model_filename";

std::vector<std::string> names_of(const std::vector<Ort::ConstValueInfo>& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.GetName());
  return names;
}

std::string text_attribute(const Ort::ConstNode& node, const char* key) {
  Ort::ConstOpAttr attribute{nullptr};
  std::string text;
  const bool there = node.GetAttributeByName(key, attribute).IsOK() &&
                     static_cast<const OrtOpAttr*>(attribute) != nullptr;
  return there && attribute.GetValue(text).IsOK() ? text : std::string();
}

/// A flag of an EPContext node, 1 where it is not given. Throws Error(kUser) for another number.
bool flag_attribute(const Ort::ConstNode& node, const char* key) {
  Ort::ConstOpAttr attribute{nullptr};
  int64_t number = 1;
  const bool there = node.GetAttributeByName(key, attribute).IsOK() &&
                     static_cast<const OrtOpAttr*>(attribute) != nullptr;
  if (there && !attribute.GetValue(number).IsOK()) number = -1;
  if (number != 0 && number != 1) {
    throw Error(ErrorKind::kUser, "the EPContext node \"" + node.GetName() + "\": " + key +
                                      ": got " + std::to_string(number) + ", want 0 or 1");
  }
  return number == 1;
}

std::vector<int32_t> types_of(const std::vector<Ort::ConstValueInfo>& values) {
  std::vector<int32_t> types;
  for (const auto& value : values) {
    const Ort::ConstTypeInfo info = value.TypeInfo();
    const bool is_tensor = info.GetONNXType() == ONNX_TYPE_TENSOR;
    types.push_back(is_tensor ? onnx_type(info.GetTensorTypeAndShapeInfo().GetElementType()) : 0);
  }
  return types;
}

bool is_context(const Ort::ConstNode& node) {
  return node.GetOperatorType() == "EPContext" && text_attribute(node, "source") == kName;
}

std::filesystem::path model_path(const Ort::ConstGraph& graph) { return graph.GetModelPath(); }

/// The folder of a model, for files beside it.
std::string folder_of(const Ort::ConstGraph& graph) {
  return model_path(graph).parent_path().string();
}

}  // namespace

Provider::Provider(Options options, std::shared_ptr<Device> device, const OrtLogger* logger)
    : EpOfApi25{},
      options_(std::move(options)),
      device_(std::move(device)),
      logger_(logger),
      compatibility_(compatibility_of(profile(*device_))) {
  ort_version_supported = api().has_profiler ? 25 : ORT_API_VERSION;
  CreateProfiler = [](OrtEp* self, OrtEpProfilerImpl** made) noexcept {
    return guarded([&] { *made = make_profiler(of(self)->layers_); });
  };
  GetName = [](const OrtEp*) noexcept { return kName; };
  GetCapability = [](OrtEp* self, const OrtGraph* graph,
                     OrtEpGraphSupportInfo* info) noexcept -> OrtStatus* {
    return guarded([&] { of(self)->tell_capability(graph, info); });
  };
  Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, size_t count,
               OrtNodeComputeInfo** made, OrtNode** contexts) noexcept -> OrtStatus* {
    return guarded([&] {
      std::vector<Made> all;
      for (size_t i = 0; i < count; ++i) {
        all.push_back(of(self)->compile(Ort::ConstGraph{graphs[i]}, Ort::ConstNode{fused[i]}));
      }
      of(self)->by_result_.clear();  // with what was imported
      of(self)->sources_.clear();
      for (size_t i = 0; i < count; ++i) {
        made[i] = all[i].node.release();
        if (of(self)->options_.context.enable) contexts[i] = all[i].context.release();
      }
    });
  };
  GetCompiledModelCompatibilityInfo = [](OrtEp* self, const OrtGraph*) noexcept {
    return of(self)->compatibility_.c_str();
  };
  ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** made, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) delete static_cast<Computation*>(made[i]);
  };
}

void Provider::tell_capability(const OrtGraph* asked_about, OrtEpGraphSupportInfo* info) {
  const Ort::ConstGraph graph{asked_about};
  const OrtNode* parent = nullptr;
  Ort::ThrowOnError(api().ort->Graph_GetParentNode(graph, &parent));
  if (parent) return;  // a body goes with its node, or not at all
  GraphModel read = read_graph(graph);
  take_contexts(read, info);
  if (read.left_out.size() == read.nodes.size()) return;
  auto asked = std::make_shared<Asked>();
  asked->elements = read.elements;
  const Shown shown(*read.elements, graph);
  const onnx::DivisionRequest request = request_for(read);
  settle_int8(request);
  try {
    asked->division = divide_into_groups(request, options_.settings, profile(*device_));
    try_values(read, request, *asked);
  } catch (const onnx::GivenInputError& error) {
    refuse_in_compile(read, error, info);
    return;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    log(ORT_LOGGING_LEVEL_WARNING, std::string("all is left to others: ") + error.what());
    return;
  }
  // Now: a group is compiled when others' initializers are not shown.
  if (options_.context.enable && options_.strip_weights) {
    try {
      find_weights(graph, read, *asked);
    } catch (const Error& error) {
      asked->refusal = error;
    }
  }
  const onnx::GroupedDivision& division = asked->division;
  report(division);
  const OrtNodeFusionOptions fusion{.ort_version_supported = ORT_API_VERSION,
                                    .drop_constant_initializers = true};
  for (size_t g = 0; g < division.groups.size(); ++g) {
    std::vector<const OrtNode*> nodes;
    for (const int32_t n : division.groups[g].nodes) {
      nodes.push_back(read.nodes.at(static_cast<size_t>(n)));
      for (const std::string& name : division.model.nodes[static_cast<size_t>(n)].writes) {
        if (!name.empty()) by_result_[name] = {asked, g};
      }
    }
    Ort::ThrowOnError(
        api().ep->EpGraphSupportInfo_AddNodesToFuse(info, nodes.data(), nodes.size(), &fusion));
  }
}

void Provider::refuse_in_compile(const GraphModel& read, const Error& error,
                                 OrtEpGraphSupportInfo* info) {
  auto asked = std::make_shared<Asked>();
  asked->refusal = error;
  for (size_t n = 0; n < read.nodes.size(); ++n) {
    if (read.left_out.contains(static_cast<int32_t>(n))) continue;
    const OrtNode* node = read.nodes[n];
    for (const std::string& name : names_of(Ort::ConstNode{node}.GetOutputs())) {
      if (!name.empty()) by_result_[name] = {asked, 0};
    }
    const OrtNodeFusionOptions fusion{.ort_version_supported = ORT_API_VERSION};
    Ort::ThrowOnError(api().ep->EpGraphSupportInfo_AddNodesToFuse(info, &node, 1, &fusion));
    return;
  }
}

onnx::DivisionRequest Provider::request_for(const GraphModel& read) const {
  onnx::DivisionRequest request{.model = read.model,
                                .import = onnx::import_options(options_.settings)};
  request.import.inputs = options_.shapes;
  request.import.may_be_empty = request.import.broadcasts = request.import.widened = true;
  request.import.left_out = read.left_out;
  const auto& file = read.model->proto.graph();
  for (int n = 0; n < file.node_size(); ++n) {
    const std::string& op = file.node(n).op_type();
    if (options_.excluded.contains(op)) {
      request.import.left_out.emplace(n, "op_types_to_exclude names " + op);
    }
  }
  request.check = [](const onnx::Division& division, const onnx::Group& group,
                     const onnx::GroupBorder& border) {
    wire(division, group, border.inputs, border.outputs);
  };
  return request;
}

void Provider::settle_int8(const onnx::DivisionRequest& request) {
  Settings& settings = options_.settings;
  if (int8_settled_ || !permits_int8(settings)) return;
  int8_settled_ = true;  // asked again, about what is left, it would change what was promised
  try {
    const Plan whole = plan(onnx::import_of(request).graph, settings, profile(*device_));
    const CalibrationUse& use = whole.calibration;
    if (!use.refusal.empty()) log(ORT_LOGGING_LEVEL_WARNING, use.refusal);
    for (const std::string& name : use.missing) {
      log(ORT_LOGGING_LEVEL_WARNING,
          "the calibration has no scale for " + name + ": what reads it is computed in floats");
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    std::erase(settings.enabled_precisions, DType::kI8);
    settings.calibration.clear();
    log(ORT_LOGGING_LEVEL_WARNING,
        std::string("nothing is computed in int8 that is not in the model: ") + error.what());
  }
}

void Provider::try_values(const GraphModel& read, const onnx::DivisionRequest& request,
                          Asked& asked) const {
  const std::set<std::string> names = asked.division.model.shape_inputs;
  const bool wanted = !names.empty() && options_.max_shape_values > 0 && !options_.context.enable;
  if (!wanted || !read.left_out.empty()) return;
  if (auto trial = trial_of(request, names, options_.settings, profile(*device_))) {
    asked.division = std::move(trial->division);
    asked.by_value = std::move(trial->request);
  }
}

void Provider::take_contexts(const GraphModel& read, OrtEpGraphSupportInfo* info) {
  for (size_t n = 0; n < read.nodes.size(); ++n) {
    const OrtNode* node = read.nodes[n];
    if (read.left_out.contains(static_cast<int32_t>(n)) || !is_context(Ort::ConstNode{node})) {
      continue;
    }
    const OrtNodeFusionOptions fusion{.ort_version_supported = ORT_API_VERSION};
    Ort::ThrowOnError(api().ep->EpGraphSupportInfo_AddNodesToFuse(info, &node, 1, &fusion));
  }
}

Provider::Made Provider::compile(const Ort::ConstGraph& graph, const Ort::ConstNode& fused) {
  const std::vector<Ort::ConstNode> nodes = graph.GetNodes();
  if (nodes.size() == 1 && is_context(nodes[0])) {
    return load_context(graph, nodes[0], fused);
  }
  const std::vector<std::string> outputs = names_of(fused.GetOutputs());
  const auto place = outputs.empty() ? by_result_.end() : by_result_.find(outputs.front());
  if (place == by_result_.end()) {
    throw Error(ErrorKind::kInternal, "asked to compile nodes that were not offered");
  }
  if (!options_.refit_from.empty()) {
    throw Error(ErrorKind::kUser, "option refit_from_onnx: the model holds no engines");
  }
  Asked& asked = *place->second.asked;
  if (asked.refusal) throw Error(*asked.refusal);
  if (asked.by_value) {
    const Shown shown(*asked.elements, graph);
    asked.elements->keep();
    return {.node = std::make_unique<ValueNode>(
                ValueNode::Source{.request = *asked.by_value,
                                  .device = device_,
                                  .settings = options_.settings,
                                  .cache = options_.cache,
                                  .inputs = names_of(fused.GetInputs()),
                                  .outputs = outputs,
                                  .types = types_of(fused.GetOutputs()),
                                  .most = static_cast<size_t>(options_.max_shape_values),
                                  .layers = layers_})};
  }
  Wiring wiring = wire(asked.division, asked.division.groups.at(place->second.group),
                       names_of(fused.GetInputs()), outputs);
  check_types(wiring, types_of(fused.GetOutputs()));
  const Shown shown(*asked.elements, graph);
  CompiledBlock compiled = compile_block(wiring.block, profile(*device_), options_.settings,
                                         options_.cache, asked.division.model);
  Made made;
  if (options_.context.enable) {
    const WeightSource* source = asked.weights ? &*asked.weights : nullptr;
    made.context = context_node(graph, fused, to_context(wiring, compiled, source),
                                source ? model_path(graph).filename().string() : "");
  }
  BuiltEngine built = load_engine(device_, std::move(compiled), options_.settings.weight_budget);
  made.node = std::make_unique<FusedNode>(std::move(wiring), std::move(built), layers_);
  return made;
}

Provider::Made Provider::load_context(const Ort::ConstGraph& graph, const Ort::ConstNode& context,
                                      const Ort::ConstNode& fused) {
  const std::string data = text_attribute(context, "ep_cache_context");
  onnx::WeightBytes bytes{{reinterpret_cast<const uint8_t*>(data.data()), data.size()}, nullptr};
  if (!flag_attribute(context, "main_context")) {
    throw Error(ErrorKind::kUser, "the EPContext node \"" + context.GetName() +
                                      "\": main_context: got 0, want 1: a node has its engine");
  }
  if (!flag_attribute(context, "embed_mode")) {
    bytes = onnx::map_external(folder_of(graph), data, 0, -1, "EPContext");
  }
  Context loaded = from_context(bytes.bytes);
  Wiring& wiring = loaded.wiring;
  arrange(wiring, names_of(fused.GetInputs()), names_of(fused.GetOutputs()));
  check_types(wiring, types_of(fused.GetOutputs()));
  add_weights(graph, context, loaded);
  Made made;
  if (options_.context.enable) {  // of a model that holds contexts already: the same ones
    made.context = context_node(
        graph, fused, {reinterpret_cast<const char*>(bytes.bytes.data()), bytes.bytes.size()},
        text_attribute(context, kModelName));
  }
  BuiltEngine built =
      load_engine(device_, std::move(loaded.compiled), options_.settings.weight_budget);
  made.node = std::make_unique<FusedNode>(std::move(wiring), std::move(built), layers_);
  return made;
}

const SourceModel& Provider::source_model(const std::string& path) {
  const auto found = sources_.find(path);
  if (found != sources_.end()) return found->second;
  auto model = path.empty() ? onnx::parse_model(options_.model_bytes) : onnx::read_model(path, "");
  const std::string shown = path.empty() ? "the model at onnx_bytestream" : path;
  return sources_.emplace(path, SourceModel(std::move(model), shown)).first->second;
}

void Provider::find_weights(const Ort::ConstGraph& graph, const GraphModel& read, Asked& asked) {
  const std::string path = model_path(graph).string();
  if (path.empty() && options_.model_bytes.empty()) {
    throw Error(ErrorKind::kUser,
                "option weight_stripped_engine_enable: the model came from memory; "
                "onnx_bytestream and onnx_bytestream_size say where it is");
  }
  const SourceModel& source = source_model(options_.model_bytes.empty() ? path : "");
  asked.weights = source_of(asked.division, read.model->proto.graph(), source);
  const size_t all = asked.division.model.weights.size();
  if (const size_t kept = all - asked.weights->digests.size(); kept > 0) {
    log(ORT_LOGGING_LEVEL_INFO, std::to_string(kept) + " of " + std::to_string(all) +
                                    " weights are not as in the model and stay in the context");
  }
}

std::string Provider::model_of_weights(const Ort::ConstGraph& graph,
                                       const Ort::ConstNode& context) const {
  std::error_code unknown;
  if (const std::string& path = options_.context.source; !path.empty()) {
    if (std::filesystem::is_regular_file(path, unknown)) return path;
    throw Error(ErrorKind::kUser,
                "ep.context_source_model_path: there is no file \"" + path + "\"");
  }
  const std::string name = text_attribute(context, kModelName);
  const std::string folder =
      options_.model_folder.empty() ? folder_of(graph) : options_.model_folder;
  const bool plain = !name.empty() && std::filesystem::path(name).filename() == name;
  std::string path = (std::filesystem::path(folder) / name).string();
  if (plain && std::filesystem::is_regular_file(path, unknown)) return path;
  throw Error(
      ErrorKind::kUser,
      "the EPContext node was made without its weights, and the model that has them, \"" + name +
          "\", is not in \"" + folder +
          "\": onnx_model_folder_path names its folder, ep.context_source_model_path a file");
}

void Provider::add_weights(const Ort::ConstGraph& graph, const Ort::ConstNode& context,
                           Context& loaded) {
  const bool given = !options_.refit_from.empty() || !options_.model_bytes.empty();
  if (!loaded.source) {
    if (!given) return;
    throw Error(ErrorKind::kUser,
                "the EPContext node has its weights: one that was made with "
                "weight_stripped_engine_enable=1 takes those of another model");
  }
  const std::string path = given ? options_.refit_from : model_of_weights(graph, context);
  take_weights(loaded.compiled, *loaded.source, source_model(path), given);
}

Ort::Node Provider::context_node(const Ort::ConstGraph& graph, const Ort::ConstNode& fused,
                                 const std::string& data, const std::string& model_name) const {
  const int64_t main = 1, embed = options_.context.embed ? 1 : 0;
  std::string content = data;
  if (!embed) {
    const std::filesystem::path model =
        options_.context.file.empty() ? graph.GetModelPath() : options_.context.file;
    if (model.empty()) {
      throw Error(ErrorKind::kUser,
                  "ep.context_file_path says where an EPContext model goes; or "
                  "ep.context_embed_mode=1");
    }
    content = model.stem().string() + "_" + fused.GetName() + ".vke";
    const std::span<const uint8_t> piece(reinterpret_cast<const uint8_t*>(data.data()),
                                         data.size());
    const std::string path = (model.parent_path() / content).string();
    if (const std::string fault = write_file(path, std::vector{piece}); !fault.empty()) {
      throw Error(ErrorKind::kUser, path + ": " + fault);
    }
  }
  if (content.size() > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::kUser,
                "an engine of 2 GiB or more is embedded in no model: "
                "ep.context_embed_mode=0");
  }
  std::vector<Ort::OpAttr> attributes;
  const auto add = [&](const char* key, const void* value, size_t size, OrtOpAttrType type) {
    attributes.emplace_back(key, value, static_cast<int>(size), type);
  };
  const std::string version = kBuilderVersion;
  add("main_context", &main, 1, ORT_OP_ATTR_INT);
  add("embed_mode", &embed, 1, ORT_OP_ATTR_INT);
  add("ep_cache_context", content.data(), content.size(), ORT_OP_ATTR_STRING);
  add("source", kName, std::string_view(kName).size(), ORT_OP_ATTR_STRING);
  if (!model_name.empty()) {
    add(kModelName, model_name.data(), model_name.size(), ORT_OP_ATTR_STRING);
  }
  add("ep_sdk_version", version.data(), version.size(), ORT_OP_ATTR_STRING);
  return {"EPContext",
          "com.microsoft",
          fused.GetName(),
          names_of(fused.GetInputs()),
          names_of(fused.GetOutputs()),
          attributes};
}

void Provider::report(const onnx::GroupedDivision& division) const {
  size_t fused = 0;
  for (const onnx::Group& group : division.groups) fused += group.nodes.size();
  log(ORT_LOGGING_LEVEL_INFO, std::to_string(fused) + " of " +
                                  std::to_string(division.model.nodes.size()) + " nodes run in " +
                                  std::to_string(division.groups.size()) + " engines on " +
                                  profile(*device_).name);
  for (const auto& [n, reason] : division.reasons) {
    log(about_others(),
        division.model.nodes.at(static_cast<size_t>(n)).label + " is left to others: " + reason);
  }
}

void Provider::log(OrtLoggingLevel level, const std::string& message) const {
  OrtStatus* failed = api().ort->Logger_LogMessage(
      logger_, level, (std::string(kName) + ": " + message).c_str(), ORT_FILE, __LINE__, "report");
  if (failed) api().ort->ReleaseStatus(failed);
}

}  // namespace tv::ort
