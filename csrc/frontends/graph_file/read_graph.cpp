// A Graph from JSON of any origin.

#include <limits>

#include "csrc/frontends/graph_file/fields.h"
#include "csrc/frontends/graph_file/graph_text.h"
#include "csrc/graph/relation_names.h"
#include "csrc/partition/symbols.h"
#include "runtime/base/error.h"

namespace tv::graph_file {
namespace {

constexpr size_t kMostSymbols = 1024, kMostConditions = 1 << 14, kMostValues = 1 << 20,
                 kMostNodes = 1 << 19, kMostArgs = 256, kMostItems = 1 << 16, kMostRank = 64,
                 kLongestName = 4096, kLongestText = 1 << 16;
constexpr double kMostElements = 1LL << 40;  // of fixed sizes; engines take less

class GraphReader {
 public:
  Graph run(const Json& json) {
    Fields fields(json, "the graph");
    graph_.name = fields.optional_text("name", kLongestName);
    read_symbols(fields.at("symbols"));
    for (const Json& c : array_of(fields.at("conditions"), "conditions", kMostConditions)) {
      graph_.conditions.push_back(condition(c));
    }
    for (const Json& v : array_of(fields.at("values"), "values", kMostValues)) {
      graph_.values.push_back(value(v));
    }
    graph_.inputs = leaves(fields.at("inputs"), "inputs", ValueKind::kInput);
    graph_.weights = leaves(fields.at("weights"), "weights", ValueKind::kWeight);
    for (const Json& n : array_of(fields.at("nodes"), "nodes", kMostNodes)) {
      graph_.nodes.push_back(node(n));
    }
    read_outputs(fields.at("outputs"));
    fields.done();
    check_whole();
    return std::move(graph_);
  }

 private:
  void read_symbols(const Json& json) {
    std::set<std::string> names;
    for (const Json& item : array_of(json, "symbols", kMostSymbols)) {
      Fields fields(item, "a symbol");
      Symbol symbol{.name = fields.text("name", kLongestName)};
      fields.set_where("symbol " + quoted(symbol.name));
      symbol.min = integer_of(fields.at("min"), fields.where() + ": 'min'");
      symbol.opt = integer_of(fields.at("opt"), fields.where() + ": 'opt'");
      if (const Json* max = fields.find("max")) {
        symbol.max = integer_of(*max, fields.where() + ": 'max'");
      }
      fields.done();
      if (symbol.min < 0 || symbol.opt < symbol.min || symbol.max < symbol.opt) {
        fail(fields.where(), "want 0 <= min <= opt <= max");
      }
      if (!names.insert(symbol.name).second) fail(fields.where(), "the name is used twice");
      graph_.symbols.push_back(std::move(symbol));
    }
  }

  Condition condition(const Json& json) const {
    Fields fields(json, "a condition");
    const std::string relation = fields.text("relation", kLongestName);
    const auto known = relation_from_name(relation);
    if (!known) fail(fields.where(), "the relation " + quoted(relation) + " is unknown");
    Condition made{.relation = *known,
                   .left = expr(fields.at("left"), fields.where()),
                   .right = expr(fields.at("right"), fields.where()),
                   .source = fields.optional_text("source", kLongestName)};
    fields.done();
    return made;
  }

  Value value(const Json& json) const {
    Fields fields(json, "value " + std::to_string(graph_.values.size()));
    Value made{.name = fields.text("name", kLongestName)};
    fields.set_where("value " + quoted(made.name));
    made.dtype = dtype(fields.at("dtype"), fields.where());
    made.shape = exprs(fields.at("shape"), fields.where() + ": 'shape'", kMostRank);
    if (const Json* four_bits = fields.find("four_bits")) {
      made.four_bits = bool_of(*four_bits, fields.where() + ": 'four_bits'");
    }
    fields.done();
    if (made.four_bits && made.dtype != DType::kI8)
      fail(fields.where(), "has 'four_bits', and is not of int8");
    double elements = 1;
    for (const Expr& dim : made.shape) {
      const auto size = dim.constant();
      if (size && *size < 0) fail(fields.where(), "has a size of " + std::to_string(*size));
      if (size && *size > 0) elements *= static_cast<double>(*size);
    }
    if (elements > kMostElements) fail(fields.where(), "has more than 2^40 elements");
    return made;
  }

  std::vector<ValueId> leaves(const Json& json, const char* where, ValueKind kind) {
    std::vector<ValueId> made;
    std::set<std::string> names;
    for (const Json& item : array_of(json, where, kMostValues)) {
      const ValueId v = id(item, where);
      Value& leaf = graph_.value(v);
      if (leaf.kind != ValueKind::kNode) fail(where, quoted(leaf.name) + " is there twice");
      leaf.kind = kind;
      if (leaf.name.empty() || !names.insert(leaf.name).second) {
        fail(where, "the name " + quoted(leaf.name) + " is empty, or used twice");
      }
      for (const Expr& dim : leaf.shape) {
        if (kind == ValueKind::kWeight && !dim.is_constant()) {
          fail(where, quoted(leaf.name) + " has a dynamic size");
        }
      }
      made.push_back(v);
    }
    return made;
  }

  Node node(const Json& json) const {
    Fields fields(json, "node " + std::to_string(graph_.nodes.size()));
    Node made;
    made.name = fields.text("name", kLongestName);
    fields.set_where("node " + quoted(made.name));
    made.op = fields.text("op", kLongestName);
    made.source = fields.optional_text("source", kLongestName);
    made.module_path = fields.optional_text("module", kLongestName);
    made.origin.index = static_cast<int32_t>(graph_.nodes.size());
    std::set<std::string> names;
    for (const Json& a : array_of(fields.at("args"), fields.where() + ": 'args'", kMostArgs)) {
      made.args.push_back(arg(a, fields.where()));
      if (!names.insert(made.args.back().name).second) {
        fail(fields.where(), "the argument " + quoted(made.args.back().name) + " is there twice");
      }
    }
    made.outputs = ids(fields.at("outputs"), fields.where() + ": 'outputs'");
    fields.done();
    return made;
  }

  Arg arg(const Json& json, const std::string& node) const {
    Fields fields(json, node + ": an argument");
    const std::string name = fields.text("name", kLongestName);
    fields.set_where(node + ": argument " + quoted(name));
    Arg made = attr_arg(name, std::monostate{});
    size_t kinds = 0;
    for (const auto& [key, read] : kArgKinds) {
      const Json* content = fields.find(key);
      if (!content) continue;
      ++kinds;
      made = (this->*read)(name, *content, fields.where());
    }
    if (kinds > 1) fail(fields.where(), "has several values");
    fields.done();
    return made;
  }

  using ReadArg = Arg (GraphReader::*)(const std::string& name, const Json& content,
                                       const std::string& where) const;
  struct ArgKind {
    const char* key;
    ReadArg read;
  };
  static const ArgKind kArgKinds[10];

  Arg tensor(const std::string& name, const Json& json, const std::string& where) const {
    return tensor_arg(name, json.is_null() ? kNoValue : id(json, where));
  }
  Arg tensors(const std::string& name, const Json& json, const std::string& where) const {
    return tensor_list_arg(name, ids(json, where));
  }
  Arg flag(const std::string& name, const Json& json, const std::string& where) const {
    return attr_arg(name, bool_of(json, where));
  }
  Arg integer(const std::string& name, const Json& json, const std::string& where) const {
    return attr_arg(name, expr(json, where));
  }
  Arg real(const std::string& name, const Json& json, const std::string& where) const {
    return attr_arg(name, number(json, where));
  }
  Arg words(const std::string& name, const Json& json, const std::string& where) const {
    return attr_arg(name, text_of(json, where, kLongestText));
  }
  Arg type(const std::string& name, const Json& json, const std::string& where) const {
    return attr_arg(name, dtype(json, where));
  }
  Arg integers(const std::string& name, const Json& json, const std::string& where) const {
    return attr_arg(name, exprs(json, where, kMostItems));
  }
  Arg reals(const std::string& name, const Json& json, const std::string& where) const {
    std::vector<double> made;
    for (const Json& item : array_of(json, where, kMostItems)) made.push_back(number(item, where));
    return attr_arg(name, std::move(made));
  }
  Arg flags(const std::string& name, const Json& json, const std::string& where) const {
    std::vector<bool> made;
    for (const Json& item : array_of(json, where, kMostItems)) made.push_back(bool_of(item, where));
    return attr_arg(name, std::move(made));
  }

  void read_outputs(const Json& json) {
    std::set<std::string> names;
    for (const Json& item : array_of(json, "outputs", kMostItems)) {
      Fields fields(item, "an output");
      GraphOutput made{.name = fields.text("name", kLongestName)};
      fields.set_where("output " + quoted(made.name));
      made.value = id(fields.at("value"), fields.where());
      if (const Json* strides = fields.find("strides")) {
        made.strides = exprs(*strides, fields.where(), kMostRank);
        if (made.strides.size() != graph_.value(made.value).shape.size()) {
          fail(fields.where(), "has another number of strides than of sizes");
        }
      }
      fields.done();
      if (made.name.empty() || !names.insert(made.name).second) {
        fail(fields.where(), "the name is empty, or used twice");
      }
      graph_.outputs.push_back(std::move(made));
    }
    if (graph_.outputs.empty()) fail("the graph", "has no outputs");
  }

  void check_whole() const {
    try {
      check(graph_, "reading");
    } catch (const Error& error) {
      throw Error(ErrorKind::kUser, std::string("[graph file] ") + error.what());
    }
    std::set<int32_t> unbound;
    for (size_t s = 0; s < graph_.symbols.size(); ++s) unbound.insert(static_cast<int32_t>(s));
    for (const ValueId v : graph_.inputs) drop_bound(unbound, graph_.value(v));
    if (!unbound.empty()) {
      fail("symbol " + quoted(graph_.symbols[static_cast<size_t>(*unbound.begin())].name),
           "is not determined by the shape of any input");
    }
  }

  // --- parts ---

  ValueId id(const Json& json, const std::string& where) const {
    const int64_t v = integer_of(json, where);
    if (v < 0 || v >= static_cast<int64_t>(graph_.values.size())) {
      fail(where,
           "names value " + std::to_string(v) + " of " + std::to_string(graph_.values.size()));
    }
    return static_cast<ValueId>(v);
  }

  std::vector<ValueId> ids(const Json& json, const std::string& where) const {
    std::vector<ValueId> made;
    for (const Json& item : array_of(json, where, kMostItems)) {
      made.push_back(item.is_null() ? kNoValue : id(item, where));
    }
    return made;
  }

  Expr expr(const Json& json, const std::string& where) const {
    if (const auto* number = json.get<int64_t>()) return *number;
    Expr made;
    try {
      made = Expr::parse(text_of(json, where, kLongestText));
    } catch (const Error& error) {
      fail(where, error.what());
    }
    const std::vector<int32_t> symbols = made.symbols();
    if (!symbols.empty() &&
        (symbols.front() < 0 || static_cast<size_t>(symbols.back()) >= graph_.symbols.size())) {
      fail(where, "has an unknown symbol: " + quoted(made.str()));
    }
    return made;
  }

  std::vector<Expr> exprs(const Json& json, const std::string& where, size_t most) const {
    std::vector<Expr> made;
    for (const Json& item : array_of(json, where, most)) made.push_back(expr(item, where));
    return made;
  }

  static double number(const Json& json, const std::string& where) {
    if (const auto* d = json.get<double>()) return *d;
    if (const auto* i = json.get<int64_t>()) return static_cast<double>(*i);
    const std::string text = text_of(json, where, kLongestText);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "inf") return kInfinity;
    if (text == "-inf") return -kInfinity;
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    fail(where, quoted(text) + " is no number");
  }

  static DType dtype(const Json& json, const std::string& where) {
    const std::string text = text_of(json, where, kLongestName);
    const DType made = dtype_from_name(text);
    if (made == DType::kOther) fail(where, "the dtype " + quoted(text) + " is unknown");
    return made;
  }

  Graph graph_;
};

const GraphReader::ArgKind GraphReader::kArgKinds[] = {
    {"tensor", &GraphReader::tensor}, {"tensors", &GraphReader::tensors},
    {"bool", &GraphReader::flag},     {"int", &GraphReader::integer},
    {"float", &GraphReader::real},    {"text", &GraphReader::words},
    {"dtype", &GraphReader::type},    {"ints", &GraphReader::integers},
    {"floats", &GraphReader::reals},  {"bools", &GraphReader::flags}};

}  // namespace

Graph from_json(const Json& json) { return GraphReader().run(json); }

}  // namespace tv::graph_file
