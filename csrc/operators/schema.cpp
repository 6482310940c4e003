#include "csrc/operators/schema.h"

#include <algorithm>
#include <map>

#include "csrc/converter.h"
#include "csrc/types/fail.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr std::string_view kComplex = "complex::";
constexpr std::string_view kAten = "aten::";

constexpr const char* kSchemas[] = {
#include "csrc/operators/schemas.inc"
};

[[noreturn]] void malformed(std::string_view text) {
  throw Error(ErrorKind::kInternal, "[schema] cannot read " + std::string(text));
}

/// Reads a schema's text from its start on.
class SchemaReader {
 public:
  explicit SchemaReader(std::string_view text) : text_(text), rest_(text) {}

  std::string name() { return std::string(until("(")); }

  /// Puts arguments, which are the whole text, in the place of those of their names, or behind all.
  void amend(Schema& schema) {
    while (!rest_.empty()) {
      SchemaArg read = argument();
      const auto at = std::ranges::find(schema.args, read.name, &SchemaArg::name);
      if (at == schema.args.end()) {
        schema.args.push_back(std::move(read));
      } else {
        *at = std::move(read);
      }
      take(", ");
    }
  }

  Schema schema() {
    Schema made;
    while (!take(")")) {
      if (!take("*, ")) made.args.push_back(argument());
      take(", ");
    }
    if (!take(" -> ")) malformed(text_);
    if (rest_ == "Tensor[]") {
      made.list = true;
    } else {
      // Integers among the results are PyTorch's, and no values of the Graph.
      for (take("("); !rest_.empty(); take(", "), take(")")) {
        until(",)", /*keep=*/true);
        ++made.results;
      }
    }
    return made;
  }

 private:
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  /// What is before one of these characters, or all that is left; drops the character.
  std::string_view until(std::string_view ends, bool keep = false) {
    const size_t end = std::min(rest_.find_first_of(ends), rest_.size());
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(keep ? end : std::min(end + 1, rest_.size()));
    return found;
  }

  SchemaArg argument() {
    SchemaArg made;
    const std::string_view type = until(" ");
    set_type(made, type);
    made.name = until("=,)", /*keep=*/true);
    made.required = !take("=");
    if (!made.required) skip_default();
    return made;
  }

  void skip_default() {
    if (take("[")) {
      until("]");
    } else {
      until(",)", /*keep=*/true);
    }
  }

  void set_type(SchemaArg& arg, std::string_view type) const {
    if (type.ends_with("?")) {
      arg.optional = true;
      type.remove_suffix(1);
    }
    const bool list = type.ends_with("]");
    if (list) {
      const size_t bracket = type.find('[');
      for (const char c : type.substr(bracket + 1, type.size() - bracket - 2)) {
        arg.length = 10 * arg.length + (c - '0');
      }
      type = type.substr(0, bracket);
      arg.none_items = type.ends_with("?");
      if (arg.none_items) type.remove_suffix(1);
    }
    static const std::map<std::string_view, std::pair<ArgKind, ArgKind>> kKinds{
        {"Tensor", {ArgKind::kTensor, ArgKind::kTensors}},
        {"int", {ArgKind::kInt, ArgKind::kInts}},
        {"SymInt", {ArgKind::kInt, ArgKind::kInts}},
        {"float", {ArgKind::kFloat, ArgKind::kFloats}},
        {"bool", {ArgKind::kBool, ArgKind::kBools}},
        {"Scalar", {ArgKind::kScalar, ArgKind::kScalars}},
        {"str", {ArgKind::kText, ArgKind::kText}},
        {"ScalarType", {ArgKind::kDType, ArgKind::kDType}},
        {"Device", {ArgKind::kPlace, ArgKind::kPlace}},
        {"Layout", {ArgKind::kPlace, ArgKind::kPlace}},
        {"MemoryFormat", {ArgKind::kPlace, ArgKind::kPlace}},
        {"Generator", {ArgKind::kPlace, ArgKind::kPlace}}};
    const auto found = kKinds.find(type);
    if (found == kKinds.end()) malformed(text_);
    arg.kind = list ? found->second.second : found->second.first;
  }

  std::string_view text_, rest_;
};

std::map<std::string, Schema, std::less<>> read_all() {
  std::map<std::string, Schema, std::less<>> made;
  for (const char* text : kSchemas) {
    SchemaReader reader(text);
    std::string name = reader.name();
    made.emplace(std::move(name), reader.schema());
  }
  for (const std::string& op : Registry::instance().names()) {
    const std::string& own = Registry::instance().find(op)->schema;
    if (own.starts_with(op + "(")) {
      SchemaReader reader(own);
      reader.name();
      made.emplace(op, reader.schema());
    } else if (!own.empty()) {
      const auto of_library = made.find(op);
      if (of_library == made.end()) {
        throw Error(ErrorKind::kInternal, "the schema of " + op + " has to begin with '" + op +
                                              "(', as no library's is known: '" + own + "'");
      }
      SchemaReader(own).amend(of_library->second);
    }
  }
  // What FX's importer says of them: which arguments are complex, and whether the result is.
  const SchemaArg parts{.name = "complex", .kind = ArgKind::kText, .required = true};
  std::map<std::string, Schema, std::less<>> complex;
  for (const auto& [name, schema] : made) {
    const bool own = name.starts_with(kComplex);
    if (!own && !name.starts_with(kAten)) continue;
    Schema twin = schema;
    twin.args.push_back(parts);
    complex.emplace(own ? name : std::string(kComplex) + name.substr(kAten.size()),
                    std::move(twin));
  }
  for (auto& [name, schema] : complex) made.insert_or_assign(name, std::move(schema));
  return made;
}

const std::map<std::string, Schema, std::less<>>& all() {
  static const std::map<std::string, Schema, std::less<>> schemas = read_all();
  return schemas;
}

const char* name_of(ArgKind kind) {
  switch (kind) {
    case ArgKind::kTensor:
      return "a tensor";
    case ArgKind::kTensors:
      return "a list of tensors";
    case ArgKind::kInt:
      return "an integer";
    case ArgKind::kFloat:
    case ArgKind::kScalar:
      return "a number";
    case ArgKind::kBool:
      return "true or false";
    case ArgKind::kText:
      return "a text";
    case ArgKind::kDType:
      return "a dtype";
    case ArgKind::kPlace:
      return "a text";
    case ArgKind::kInts:
      return "a list of integers";
    case ArgKind::kFloats:
    case ArgKind::kScalars:
      return "a list of numbers";
    case ArgKind::kBools:
      return "a list of true and false";
  }
  return "";
}

/// Whether it is a list without items, which says nothing of their type.
struct IsEmptyList {
  template <class T>
  bool operator()(const T&) const {
    return false;
  }
  template <class T>
  bool operator()(const std::vector<T>& list) const {
    return list.empty();
  }
};

bool fits(const Attr& attr, ArgKind kind) {
  const bool truth = std::holds_alternative<bool>(attr);
  const bool integer = truth || std::holds_alternative<Expr>(attr);
  const bool number = integer || std::holds_alternative<double>(attr);
  const bool flags = std::holds_alternative<std::vector<bool>>(attr);
  const bool integers = flags || std::holds_alternative<std::vector<Expr>>(attr);
  const bool numbers = integers || std::holds_alternative<std::vector<double>>(attr);
  const bool empty = std::visit(IsEmptyList{}, attr);
  switch (kind) {
    case ArgKind::kTensor:
    case ArgKind::kTensors:
      return false;
    case ArgKind::kInt:
    case ArgKind::kBool:
      return integer;
    case ArgKind::kFloat:
      return number;
    case ArgKind::kScalar:  // a complex one is a list of two floats
      return number || std::holds_alternative<std::vector<double>>(attr);
    case ArgKind::kText:
      return std::holds_alternative<std::string>(attr);
    case ArgKind::kDType:
      return std::holds_alternative<DType>(attr);
    case ArgKind::kPlace:
      return std::holds_alternative<std::string>(attr) || integer;
    case ArgKind::kInts:  // one integer is a list of one
      return integer || integers || empty;
    case ArgKind::kFloats:
    case ArgKind::kScalars:
      return number || numbers || empty;
    case ArgKind::kBools:
      return integers || empty;
  }
  return false;
}

size_t length_of(const Attr& attr) {
  if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) return list->size();
  if (const auto* list = std::get_if<std::vector<double>>(&attr)) return list->size();
  if (const auto* list = std::get_if<std::vector<bool>>(&attr)) return list->size();
  return 1;
}

void check_tensors(const Node& node, const Arg& arg, const SchemaArg& want) {
  if (arg.is_list != (want.kind == ArgKind::kTensors)) {
    node_fails(node, "argument '" + arg.name + "' is to be " + name_of(want.kind));
  }
  if (!arg.is_list && arg.values.size() != 1) {
    node_fails(node, "argument '" + arg.name + "' is not one tensor");
  }
  const bool none = arg.is_list ? want.none_items : want.optional;
  for (const ValueId v : arg.values) {
    if (v == kNoValue && !none) node_fails(node, "argument '" + arg.name + "' must not be None");
  }
}

void check_arg(const Node& node, const Arg& arg, const SchemaArg& want) {
  const bool tensors = want.kind == ArgKind::kTensor || want.kind == ArgKind::kTensors;
  if (arg.is_tensor && tensors) return check_tensors(node, arg, want);
  if (!arg.is_tensor && std::holds_alternative<std::monostate>(arg.attr)) {
    // A default of None shows no kind, and one that only places a tensor does not count.
    if (want.optional || want.kind == ArgKind::kPlace) return;
    node_fails(node, "argument '" + arg.name + "' must not be None");
  }
  if (arg.is_tensor || tensors || !fits(arg.attr, want.kind)) {
    node_fails(node, "argument '" + arg.name + "' is to be " + name_of(want.kind));
  }
  const size_t length = length_of(arg.attr);
  if (want.length > 1 && length > 1 && length != static_cast<size_t>(want.length)) {
    node_fails(node, "argument '" + arg.name + "' has " + std::to_string(length) + " items, want " +
                         std::to_string(want.length));
  }
}

}  // namespace

const SchemaArg* Schema::find(std::string_view arg) const {
  for (const SchemaArg& a : args) {
    if (a.name == arg) return &a;
  }
  return nullptr;
}

const Schema* schema_of(std::string_view op) {
  const auto found = all().find(op);
  return found == all().end() ? nullptr : &found->second;
}

std::vector<std::string> operators_with_schemas() {
  std::vector<std::string> names;
  for (const auto& [name, schema] : all()) {
    if (!name.starts_with(kComplex)) names.push_back(name);
  }
  return names;
}

void check_schema(const Node& node, const Schema& schema) {
  for (const Arg& arg : node.args) {
    const SchemaArg* want = schema.find(arg.name);
    if (want == nullptr) node_fails(node, "has no argument '" + arg.name + "'");
    check_arg(node, arg, *want);
  }
  for (const SchemaArg& want : schema.args) {
    if (want.required && !want.optional && node.find(want.name) == nullptr) {
      node_fails(node, "argument '" + want.name + "' is missing");
    }
  }
  if (!schema.list && node.outputs.size() != schema.results) {
    node_fails(node, "has " + std::to_string(node.outputs.size()) + " results, want " +
                         std::to_string(schema.results));
  }
}

}  // namespace tv
