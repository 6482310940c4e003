#pragma once
// Mutations of a graph file that leave it one: of its nodes, values and symbols as JSON. They find
// in seconds what mutations of the text do not.

#include <random>

#include "csrc/converter.h"
#include "csrc/frontends/graph_file/graph_file.h"
#include "csrc/frontends/graph_file/graph_text.h"
#include "csrc/operators/schema.h"
#include "runtime/base/error.h"
#include "tests/fuzz/fuzz_file.h"

namespace tv::fuzz {

class GraphMutator {
 public:
  explicit GraphMutator(unsigned int seed) : random_(seed) {}

  /// Of a graph file of `size` bytes, in place; 0: it is none, or became too large.
  size_t run(uint8_t* data, size_t size, size_t max_size) {
    Json graph;
    try {
      graph = below(24) == 0 ? example() : graph_of(data, size);
    } catch (const Error&) {
      return 0;
    }
    auto* object = std::get_if<Json::Object>(&graph.value);
    if (object == nullptr) return 0;
    weights_become_inputs(*object);
    for (uint32_t i = 0, changes = 1 + below(3); i < changes; ++i) change_something(*object);
    return write(data, max_size, graph);
  }

 private:
  uint32_t below(size_t limit) { return static_cast<uint32_t>(random_() % limit); }

  static Json graph_of(const uint8_t* data, size_t size) {
    uint64_t length = 0;
    if (size <= sizeof length) return {};
    std::memcpy(&length, data, sizeof length);
    if (length > size - sizeof length) return {};
    const std::string_view head(reinterpret_cast<const char*>(data) + sizeof length, length);
    const Json file = Json::parse(head);
    const Json* text = field(field(&file, "__metadata__"), "graph");
    const auto* graph = text == nullptr ? nullptr : text->get<std::string>();
    return graph == nullptr ? Json() : Json::parse(*graph);
  }

  static const Json* field(const Json* json, const char* name) {
    const auto* object = json == nullptr ? nullptr : json->get<Json::Object>();
    const auto found = object == nullptr ? Json::Object::const_iterator() : object->find(name);
    return object == nullptr || found == object->end() ? nullptr : &found->second;
  }

  /// A converter's own example, with the arguments that it leaves out.
  Json example() {
    const auto& all = Registry::instance().all();
    for (size_t tries = 0; tries < 200; ++tries) {
      const auto& [op, converter] = *std::next(all.begin(), below(all.size()));
      const Schema* schema = schema_of(op);
      if (!converter.examples || schema == nullptr) continue;
      std::vector<Graph> graphs = converter.examples();
      Graph graph = graphs[below(graphs.size())];
      for (const SchemaArg& arg : schema->args) {
        Node& node = graph.nodes.at(0);
        if (arg.required && node.find(arg.name) == nullptr) node.args.push_back(filled(arg, graph));
      }
      return graph_file::to_json(graph);
    }
    return {};
  }

  static Arg filled(const SchemaArg& arg, const Graph& graph) {
    switch (arg.kind) {
      case ArgKind::kTensor:
        return tensor_arg(arg.name, arg.optional ? kNoValue : graph.inputs.at(0));
      case ArgKind::kTensors:
        return tensor_list_arg(arg.name, {});
      case ArgKind::kDType:
        return attr_arg(arg.name, DType::kF32);
      case ArgKind::kText:
      case ArgKind::kPlace:
        return attr_arg(arg.name, std::string("cpu"));
      case ArgKind::kInts: {
        const Shape& shape = graph.value(graph.outputs.at(0).value).shape;
        const size_t count = arg.length > 0 ? static_cast<size_t>(arg.length) : shape.size();
        return attr_arg(
            arg.name, std::vector<Expr>(
                          shape.end() - static_cast<std::ptrdiff_t>(std::min(count, shape.size())),
                          shape.end()));
      }
      case ArgKind::kBools:
        return attr_arg(arg.name, std::vector<bool>(static_cast<size_t>(arg.length), true));
      default:
        return arg.optional ? attr_arg(arg.name, std::monostate{}) : attr_arg(arg.name, Expr(1));
    }
  }

  static void weights_become_inputs(Json::Object& graph) {
    auto* weights = std::get_if<Json::Array>(&graph["weights"].value);
    auto* inputs = std::get_if<Json::Array>(&graph["inputs"].value);
    if (weights == nullptr || inputs == nullptr) return;
    inputs->insert(inputs->end(), weights->begin(), weights->end());
    weights->clear();
  }

  void change_something(Json::Object& graph) {
    static constexpr const char* kParts[] = {"nodes",  "nodes",   "nodes",  "values",
                                             "values", "symbols", "outputs"};
    auto* list = std::get_if<Json::Array>(&graph[kParts[below(std::size(kParts))]].value);
    const auto* values = std::get_if<Json::Array>(&graph["values"].value);
    values_ = values == nullptr ? 0 : values->size();
    if (list == nullptr || list->empty()) return;
    change((*list)[below(list->size())], "");
  }

  void change(Json& json, const std::string& key) {
    if (auto* object = std::get_if<Json::Object>(&json.value)) {
      if (object->empty()) return;
      auto& [name, inner] = *std::next(object->begin(), below(object->size()));
      return change(inner, name);
    }
    if (auto* array = std::get_if<Json::Array>(&json.value)) return change_list(*array, key);
    if (auto* text = std::get_if<std::string>(&json.value)) return change_text(*text, key);
    if (auto* flag = std::get_if<bool>(&json.value)) {
      *flag = !*flag;
    } else if (key == "tensor" || key == "tensors" || key == "value") {
      json = Json(static_cast<int64_t>(below(values_ + 1)));
      if (below(8) == 0) json = Json();
    } else {
      json = number();
    }
  }

  void change_list(Json::Array& list, const std::string& key) {
    const uint32_t what = below(6);
    if (list.empty() || what == 0) {
      list.insert(list.begin() + below(list.size() + 1), list.empty() ? number() : list[0]);
    } else if (what == 1) {
      list.erase(list.begin() + below(list.size()));
    } else if (what == 2) {
      std::swap(list[below(list.size())], list[below(list.size())]);
    } else {
      change(list[below(list.size())], key);
    }
  }

  void change_text(std::string& text, const std::string& key) {
    static constexpr const char* kTypes[] = {"float32", "float16", "int64", "int32",
                                             "uint8",   "bool",    "int8",  "float64"};
    if (key == "op") {
      const auto& all = Registry::instance().all();
      text = std::next(all.begin(), below(all.size()))->first;
    } else if (key == "dtype") {
      text = kTypes[below(std::size(kTypes))];
    } else if (key == "shape" || key == "int" || key == "ints") {
      text = "s0";
    } else if (key == "text") {
      static constexpr const char* kTexts[] = {"mean", "amax", "left", "tanh", "floor", "", "self"};
      text = kTexts[below(std::size(kTexts))];
    }
  }

  Json number() {
    static constexpr int64_t kNumbers[] = {
        -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 64, 1 << 16, 1LL << 31, 1LL << 62, INT64_MIN, INT64_MAX};
    return kNumbers[below(std::size(kNumbers))];
  }

  static size_t write(uint8_t* data, size_t max_size, const Json& graph) {
    const std::string head =
        Json(Json::Object{{"__metadata__", Json::Object{{"format", graph_file::kFormat},
                                                        {"version", graph_file::kVersion},
                                                        {"graph", graph.dump()}}}})
            .dump();
    const uint64_t length = head.size();
    if (length + sizeof length > max_size) return 0;
    std::memcpy(data, &length, sizeof length);
    std::memcpy(data + sizeof length, head.data(), length);
    return length + sizeof length;
  }

  std::mt19937 random_;
  size_t values_ = 0;
};

}  // namespace tv::fuzz
