#include "csrc/frontends/graph_file/graph_file.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "csrc/frontends/graph_file/fields.h"
#include "csrc/frontends/graph_file/graph_text.h"
#include "csrc/frontends/graph_file/input_ranges.h"
#include "csrc/frontends/safetensors.h"
#include "csrc/operators/check_operators.h"
#include "runtime/base/error.h"

namespace tv::graph_file {
namespace {

constexpr uint64_t kMostHeadBytes = 32 << 20;  // weights come behind it
constexpr size_t kAlignment = 64;
constexpr const char* kMetadata = "__metadata__";

std::string at(const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

Graph graph_of(const Safetensors& file, const std::string& path) {
  if (at(file.metadata, "format") != kFormat) {
    fail(path, "is no graph file: tv.export_graph writes such");
  }
  if (const std::string version = at(file.metadata, "version"); version != kVersion) {
    fail(path, "has the format's version " + quoted(version) + ", and this torch_vulkan reads " +
                   kVersion + ": upgrade it, or export the model again");
  }
  Graph graph = from_json(Json::parse(at(file.metadata, "graph"), "graph file"));
  check_nodes(graph);
  return graph;
}

std::vector<int64_t> sizes_of(const Value& weight) {
  std::vector<int64_t> sizes;
  for (const Expr& dim : weight.shape) sizes.push_back(dim.constant().value());
  return sizes;
}

std::string type_of(DType dtype, const std::vector<int64_t>& shape) {
  return type_text({.dtype = dtype, .shape = Shape(shape.begin(), shape.end())});
}

/// Why a tensor is not the weight; "": it is.
std::string differs(const StoredTensor& tensor, const Value& weight) {
  if (tensor.dtype == weight.dtype && tensor.shape == sizes_of(weight)) return "";
  return "the weight " + quoted(weight.name) + " is " + type_of(tensor.dtype, tensor.shape) +
         ", and the graph has " + type_text(weight);
}

/// Takes the weights' tensors out of the file's, of which none may be left.
std::vector<Weight> weights_of(const Graph& graph, StoredTensors tensors, const std::string& path) {
  std::vector<Weight> weights;
  for (const ValueId v : graph.weights) {
    const Value& value = graph.value(v);
    auto found = tensors.extract(value.name);
    if (found.empty()) fail(path, "has no tensor for the weight " + quoted(value.name));
    StoredTensor& tensor = found.mapped();
    if (const std::string why = differs(tensor, value); !why.empty()) fail(path, why);
    weights.push_back({.name = value.name,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .load = [bytes = tensor.bytes] { return bytes; }});
  }
  if (!tensors.empty()) {
    fail(path, "no weight of the graph has the name " + quoted(tensors.begin()->first));
  }
  return weights;
}

void check_data(const Safetensors& file, const std::string& path) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes.bytes.size();
  if (bytes != file.data_bytes) {
    fail(path, "has " + std::to_string(file.data_bytes) + " bytes of weights, want " +
                   std::to_string(bytes));
  }
}

void replace(Model& model, const std::string& path) {
  for (const auto& [name, tensor] : read_safetensors(path).tensors) {
    const auto weight = std::ranges::find(model.weights, name, &Weight::name);
    if (weight == model.weights.end()) {
      fail(path, "the graph has no weight " + quoted(name));
    }
    const auto place = static_cast<size_t>(weight - model.weights.begin());
    const Value& value = model.graph.value(model.graph.weights.at(place));
    if (const std::string why = differs(tensor, value); !why.empty()) fail(path, why);
    weight->load = [bytes = tensor.bytes] { return bytes; };
  }
}

int64_t bytes_of(const Value& weight) {
  int64_t bytes = size_bytes(weight.dtype);
  for (const int64_t size : sizes_of(weight)) bytes *= size;
  return bytes;
}

}  // namespace

void check_nodes(Graph& graph) {
  std::vector<Condition> demands;
  try {
    check_operators(graph, demands);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUser, std::string("[graph file] ") + error.what());
  }
  for (Condition& demand : demands) add_condition(graph.conditions, std::move(demand));
}

Model read(const std::string& path, const Options& options) {
  const Safetensors file = read_safetensors(path, kMostHeadBytes);
  Model model{.graph = graph_of(file, path)};
  model.weights = weights_of(model.graph, file.tensors, path);
  check_data(file, path);
  narrow(model.graph, options.inputs);
  if (!options.weights.empty()) replace(model, options.weights);
  if (options.sparse_weights) mark_sparse(model.graph, model.weights);
  return model;
}

Head head(const Graph& graph) {
  Head made;
  made.weights.resize(graph.weights.size());
  std::iota(made.weights.begin(), made.weights.end(), size_t{0});
  const auto weight = [&](size_t i) -> const Value& { return graph.value(graph.weights[i]); };
  // Larger elements first, so that all are aligned.
  std::ranges::stable_sort(made.weights, std::greater{},
                           [&](size_t i) { return size_bytes(weight(i).dtype); });
  const Json graph_json = to_json(graph);
  Graph read_again = from_json(graph_json);
  check_nodes(read_again);  // what could not be read again is not written
  Json::Object entries{
      {kMetadata,
       Json::Object{{"format", kFormat}, {"version", kVersion}, {"graph", graph_json.dump()}}}};
  int64_t offset = 0;
  for (const size_t i : made.weights) {
    const Value& value = weight(i);
    Json::Array shape;
    for (const int64_t size : sizes_of(value)) shape.emplace_back(size);
    const int64_t end = offset + bytes_of(value);
    Json::Object entry{{"dtype", std::string(safetensors_name(value.dtype))},
                       {"shape", std::move(shape)},
                       {"data_offsets", Json::Array{offset, end}}};
    if (!entries.emplace(value.name, std::move(entry)).second) {
      fail("the graph",
           "has a weight of the name " + value.name + (value.name == kMetadata ? "" : " twice"));
    }
    offset = end;
  }
  std::string& text = made.bytes;
  text = Json(std::move(entries)).dump();
  if (text.size() > kMostHeadBytes) fail("the graph", "is larger than a file may have it");
  constexpr size_t kLengthBytes = 8;
  while ((text.size() + kLengthBytes) % kAlignment != 0) text += ' ';
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i) length += static_cast<char>(text.size() >> 8 * i);
  text.insert(0, length);
  return made;
}

std::vector<uint8_t> file_of(const Model& model) {
  const Head made = head(model.graph);
  std::vector<uint8_t> file(made.bytes.begin(), made.bytes.end());
  for (const size_t i : made.weights) {
    const WeightBytes weight = model.weights.at(i).load();
    file.insert(file.end(), weight.bytes.begin(), weight.bytes.end());
  }
  return file;
}

}  // namespace tv::graph_file
