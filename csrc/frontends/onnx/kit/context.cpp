#include "csrc/frontends/onnx/kit/context.h"

#include <algorithm>

#include "csrc/frontends/onnx/file/fail.h"
#include "csrc/frontends/onnx/file/model.h"

namespace tv::onnx {
namespace {

using Proto = onnx_proto::AttributeProto;

}  // namespace

std::map<std::string, OnnxOperator, std::less<>>& translations() {
  static std::map<std::string, OnnxOperator, std::less<>> map;
  return map;
}

OpContext::OpContext(Surroundings& importer, Emitter& emitter, const onnx_proto::NodeProto& node,
                     std::vector<Tensor> inputs, const Scope& scope)
    : e(emitter), importer_(importer), node_(node), inputs_(std::move(inputs)), scope_(scope) {
  outputs_.resize(static_cast<size_t>(node.output_size()));
}

const std::string& OpContext::type() const { return node_.op_type(); }
int64_t OpContext::opset() const { return importer_.opset(scope_); }
size_t OpContext::output_count() const { return outputs_.size(); }

bool OpContext::wants(size_t i) const {
  return i < outputs_.size() && !node_.output(static_cast<int>(i)).empty();
}

const Tensor& OpContext::in(size_t i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return inputs_[i];
}

void OpContext::out(size_t i, Tensor value) {
  value.present = true;
  if (i < outputs_.size()) outputs_[i] = std::move(value);
}

// --- attributes ---

const Proto* OpContext::find(const std::string& name, int kind) const {
  for (const Proto& attribute : node_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.type() != kind && attribute.type() != Proto::UNDEFINED) {
      fail("attribute " + name + " is of type " + std::to_string(attribute.type()) + ", want " +
           std::to_string(kind));
    }
    return &attribute;
  }
  return nullptr;
}

bool OpContext::has_attr(const std::string& name) const {
  for (const Proto& attribute : node_.attribute()) {
    if (attribute.name() == name) return true;
  }
  return false;
}

void OpContext::only(std::initializer_list<std::string_view> names) const {
  for (const Proto& attribute : node_.attribute()) {
    if (std::ranges::find(names, attribute.name()) == names.end()) {
      refuse("attribute " + attribute.name() + " is not known");
    }
  }
}

void OpContext::want_attr(const std::string& name, int64_t supported) const {
  const int64_t value = i(name, supported);
  if (value == supported) return;
  refuse("attribute " + name + " is " + std::to_string(value) + ", want " +
         std::to_string(supported));
}

int64_t OpContext::i(const std::string& name, int64_t otherwise) const {
  const Proto* attribute = find(name, Proto::INT);
  return attribute ? attribute->i() : otherwise;
}

double OpContext::f(const std::string& name, double otherwise) const {
  const Proto* attribute = find(name, Proto::FLOAT);
  return attribute ? attribute->f() : otherwise;
}

std::string OpContext::s(const std::string& name, const std::string& otherwise) const {
  const Proto* attribute = find(name, Proto::STRING);
  return attribute ? attribute->s() : otherwise;
}

std::vector<int64_t> OpContext::ints(const std::string& name) const {
  const Proto* attribute = find(name, Proto::INTS);
  if (!attribute) return {};
  if (attribute->ints_size() > 1024 && node_.op_type() != "Constant") {
    fail("attribute " + name + " has " + std::to_string(attribute->ints_size()) + " entries");
  }
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<double> OpContext::floats(const std::string& name) const {
  const Proto* attribute = find(name, Proto::FLOATS);
  if (!attribute) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> OpContext::strings(const std::string& name) const {
  const Proto* attribute = find(name, Proto::STRINGS);
  if (!attribute) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

Tensor OpContext::tensor(const std::string& name) const {
  const Proto* attribute = find(name, Proto::TENSOR);
  if (!attribute) return {};
  auto stored = importer_.stored(attribute->t());
  if (stored->dtype == DType::kOther) refuse("tensors of type " + type_name(stored->type));
  // Small constants are part of the network, not weights.
  if (auto host = stored->count <= 64 ? read_host(*stored) : nullptr) {
    Host baked = *host;
    baked.baked = true;
    Tensor made = e.from_host(std::move(baked));
    made.widened = widened_type(*stored);
    return made;
  }
  return e.stored(std::move(stored));
}

DType OpContext::dtype(const std::string& name, DType otherwise) const {
  const Proto* attribute = find(name, Proto::INT);
  if (!attribute) return otherwise;
  const auto type = static_cast<int32_t>(attribute->i());
  if (type != attribute->i()) fail("attribute " + name + " is no type");
  const DType dtype = dtype_of(type);
  if (dtype == DType::kOther) refuse("tensors of type " + type_name(type));
  return dtype;
}

int64_t OpContext::axis(const std::string& name, int64_t otherwise, int64_t rank) const {
  return Emitter::wrap(i(name, otherwise), rank);
}

// --- operands that are read while importing ---

void OpContext::refuse_unknown(size_t i) const {
  importer_.want_value(in(i));
  refuse("input " + std::to_string(i) + " is computed from data, want a constant");
}

std::vector<Expr> OpContext::known(size_t i) const {
  const auto host = e.host(in(i));
  if (!host) refuse_unknown(i);
  if (is_float(host->dtype)) fail("input " + std::to_string(i) + " is of floats, want integers");
  return host->ints;
}

std::vector<int64_t> OpContext::known_ints(size_t i) const {
  std::vector<int64_t> out;
  for (const Expr& value : known(i)) {
    const auto constant = value.constant();
    if (!constant) refuse("input " + std::to_string(i) + " depends on a size, " + value.str());
    out.push_back(*constant);
  }
  return out;
}

std::vector<double> OpContext::known_floats(size_t i) const {
  const auto host = e.host(in(i));
  if (!host) refuse_unknown(i);
  if (is_float(host->dtype)) return host->floats;
  std::vector<double> out;
  for (int64_t value : known_ints(i)) out.push_back(static_cast<double>(value));
  return out;
}

std::vector<int64_t> OpContext::ints_or_input(const std::string& name, size_t i) const {
  if (has_attr(name)) return ints(name);
  return has(i) ? known_ints(i) : std::vector<int64_t>{};
}

// --- control flow ---

std::vector<Tensor> OpContext::run_body(const std::string& name,
                                        const std::vector<Tensor>& inputs) const {
  const Proto* attribute = find(name, Proto::GRAPH);
  if (!attribute) fail("attribute " + name + " is missing");
  return importer_.run_body(attribute->g(), scope_, inputs);
}

}  // namespace tv::onnx
