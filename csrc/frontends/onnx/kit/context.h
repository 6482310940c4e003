#pragma once
// What the translation of one ONNX operator sees, and how it registers itself.
//
// A new operator is one entry in a RegisterOnnx list of a file in operators/ or, for
// those of com.microsoft, microsoft/. Translations read
// `opset()` where an operator changed.

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/frontends/onnx/emit/emit.h"

namespace tv::onnx_proto {
class AttributeProto;
class GraphProto;
class NodeProto;
class TensorProto;
}  // namespace tv::onnx_proto

namespace tv::onnx {

struct Scope;

/// What translations ask of the import that they are part of.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual int64_t opset(const Scope& scope) const = 0;
  virtual std::shared_ptr<const Stored> stored(const onnx_proto::TensorProto& tensor) const = 0;
  /// A node would be translated if this tensor's elements were known: notes the inputs that it is
  /// computed from, where they alone decide.
  virtual void want_value(const Tensor& tensor) = 0;
  virtual std::vector<Tensor> run_body(const onnx_proto::GraphProto& body, const Scope& outer,
                                       const std::vector<Tensor>& inputs) = 0;
};

class OpContext {
 public:
  OpContext(Surroundings& importer, Emitter& emitter, const onnx_proto::NodeProto& node,
            std::vector<Tensor> inputs, const Scope& scope);

  Emitter& e;
  const std::string& type() const;
  int64_t opset() const;

  // --- inputs and outputs ---
  size_t count() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].present; }
  const Tensor& in(size_t i) const;  ///< throws Error(kUser) if it is left out
  Tensor maybe(size_t i) const { return has(i) ? inputs_[i] : Tensor{}; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  size_t output_count() const;
  bool wants(size_t i) const;  ///< the output has a name
  void out(size_t i, Tensor value);
  const std::vector<Tensor>& outputs() const { return outputs_; }
  /// A node of its body was refused (and is listed): all outputs are unknown.
  void poison() { outputs_.assign(outputs_.size(), {.present = true, .refused = true}); }

  // --- attributes ---
  bool has_attr(const std::string& name) const;
  /// Refuses a node with an attribute that is none of these: it would change the result.
  void only(std::initializer_list<std::string_view> names) const;
  /// Refuses an attribute with another value than the one that is supported.
  void want_attr(const std::string& name, int64_t supported) const;
  int64_t i(const std::string& name, int64_t otherwise) const;
  double f(const std::string& name, double otherwise) const;
  std::string s(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> ints(const std::string& name) const;  ///< empty if it is left out
  std::vector<double> floats(const std::string& name) const;
  std::vector<std::string> strings(const std::string& name) const;
  Tensor tensor(const std::string& name) const;
  /// The dtype that an attribute names; refused where engines do not hold it.
  DType dtype(const std::string& name, DType otherwise) const;
  int64_t axis(const std::string& name, int64_t otherwise, int64_t rank) const;

  // --- operands that are read while importing ---
  /// Elements of an input; refused where they are not known.
  std::vector<Expr> known(size_t i) const;
  std::vector<int64_t> known_ints(size_t i) const;  ///< … and do not depend on symbols
  std::vector<double> known_floats(size_t i) const;
  /// The attribute `name` or, from an opset on, input `i`; empty if neither is given.
  std::vector<int64_t> ints_or_input(const std::string& name, size_t i) const;

  // --- control flow ---
  /// The body that an attribute holds, run on these inputs; throws where it takes another number.
  std::vector<Tensor> run_body(const std::string& name, const std::vector<Tensor>& inputs) const;

 private:
  const onnx_proto::AttributeProto* find(const std::string& name, int kind) const;
  [[noreturn]] void refuse_unknown(size_t i) const;

  Surroundings& importer_;
  const onnx_proto::NodeProto& node_;
  std::vector<Tensor> inputs_, outputs_;
  const Scope& scope_;
};

using Translate = void (*)(OpContext&);

/// What an operator makes of inputs that are held in another type than the file's
/// (Tensor::widened): unsigned integers in int32 and int64, small floats as their codes.
enum class Widened : uint8_t {
  kRefused,
  kMoved,     ///< results are elements of the first input
  kRead,      ///< results do not show it
  kSaid,      ///< the same, and the translation says how its results are held
  kCut,       ///< computes with unsigned integers: of results beyond their range the low bits count
  kKept,      ///< computes with unsigned integers: results are in their range
  kCompared,  ///< computes with unsigned integers: results are of another type
  kExponent,  ///< the same of the second input alone
};

struct OnnxOperator {
  Translate translate;
  Widened widened = Widened::kRefused;
};

/// Of ai.onnx by name; others are called "com.microsoft::MatMulNBits".
std::map<std::string, OnnxOperator, std::less<>>& translations();

struct RegisterOnnx {
  struct Entry {
    const char* name;
    Translate translate;
    Widened widened = Widened::kRefused;
  };
  RegisterOnnx(std::initializer_list<Entry> list) {
    for (const auto& [name, translate, widened] : list) {
      translations().emplace(name, OnnxOperator{translate, widened});
    }
  }
};

}  // namespace tv::onnx
