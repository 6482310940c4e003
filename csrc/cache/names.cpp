#include "csrc/cache/names.h"

#include <cctype>
#include <charconv>
#include <functional>
#include <map>

#include "csrc/graph/provenance.h"
#include "runtime/base/json.h"

namespace tv {
namespace {

constexpr size_t kMaxName = 96;  // as where fused nodes are named

using Table = std::map<std::string, std::string, std::less<>>;  // token → name

std::string token(char kind, int64_t position) {
  return std::string("#") + kind + std::to_string(position);
}

/// Calls `f(token, text)` for every name of the graph.
template <typename GraphType, typename F>
void for_each_name(GraphType& graph, const CanonicalGraph& canonical, const F& f) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    auto& node = graph.nodes[n];
    const int32_t at = canonical.node_position[n];
    f(token('n', at), node.name);
    f(token('p', at), node.module_path);
    f(token('s', at), node.source);
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    // A value that nothing makes has no position; nothing can name it either.
    const int32_t at = canonical.value_position[v];
    if (at >= 0) f(token('v', at), graph.values[v].name);
  }
}

/// `text` with each token replaced by its name.
std::string resolved(const std::string& text, const Table& table) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 2;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    const auto found = text[i] == '#' && end > i + 2
                           ? table.find(std::string_view(text).substr(i, end - i))
                           : table.end();
    if (found == table.end()) {
      out += text[i++];
    } else {
      out += found->second;
      i = end;
    }
  }
  return out;
}

/// A joined name that is too long is that of its last part.
std::string resolved_name(const std::string& text, const Table& table) {
  std::string name = resolved(text, table);
  if (name.size() <= kMaxName || text.find('+') == std::string::npos) return name;
  return resolved(text.substr(text.rfind('+') + 1), table);
}

std::string resolved_path(const std::string& text, const Table& table) {
  const size_t bar = text.find('|');
  if (bar == std::string::npos) return resolved(text, table);
  return common_module(resolved(text.substr(0, bar), table),
                       resolved_path(text.substr(bar + 1), table));
}

}  // namespace

Graph with_tokens(Graph graph, const CanonicalGraph& canonical) {
  for_each_name(graph, canonical, [](const std::string& token, std::string& text) {
    if (!text.empty()) text = token;
  });
  graph.name.clear();
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    graph.outputs[i].name = token('o', static_cast<int64_t>(i));
  for (size_t i = 0; i < graph.symbols.size(); ++i)
    graph.symbols[i].name = token('y', static_cast<int64_t>(i));
  for (Condition& condition : graph.conditions) condition.source.clear();
  return graph;
}

void restore_size_names(EngineSpec& spec, const Graph& graph) {
  for (size_t i = 0; i < spec.symbols.size() && i < graph.symbols.size(); ++i)
    spec.symbols[i].name = graph.symbols[i].name;
  // Their order depends on what they say alone.
  for (size_t i = 0; i < spec.conditions.size() && i < graph.conditions.size(); ++i)
    spec.conditions[i].source = graph.conditions[i].source;
}

void restore_names(EngineSpec& spec, const Graph& graph, const CanonicalGraph& canonical) {
  Table table;
  for_each_name(graph, canonical, [&](const std::string& token, const std::string& text) {
    table.emplace(token, text);
  });
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    table.emplace(token('o', static_cast<int64_t>(i)), graph.outputs[i].name);
  spec.name = graph.name;
  restore_size_names(spec, graph);
  for (auto* bindings : {&spec.inputs, &spec.outputs, &spec.weights}) {
    for (Binding& binding : *bindings) binding.name = resolved(binding.name, table);
  }
  for (Buffer& buffer : spec.buffers) buffer.name = resolved(buffer.name, table);
  for (auto* program : {&spec.weight_program, &spec.dispatches}) {
    for (Dispatch& dispatch : *program) {
      dispatch.name = resolved_name(dispatch.name, table);
      dispatch.module_path = resolved_path(dispatch.module_path, table);
      dispatch.source = resolved(dispatch.source, table);
    }
  }
}

bool names_matter(const Settings& settings) { return !settings.autocast_excluded_nodes.empty(); }

std::string names_text(const Graph& graph, const CanonicalGraph& canonical,
                       const Settings& settings) {
  if (!names_matter(settings)) return {};
  Table names;
  for_each_name(graph, canonical, [&](const std::string& token, const std::string& name) {
    names.emplace(token, name);
  });
  Json::Object made;
  for (auto& [token, name] : names) made.emplace(token, name);
  Json::Array outputs;
  for (const GraphOutput& output : graph.outputs) outputs.emplace_back(output.name);
  made.emplace("outputs", std::move(outputs));
  made.emplace("graph", graph.name);
  return "\nnames " + Json(std::move(made)).dump() + "\n";
}

}  // namespace tv
