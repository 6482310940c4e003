#include "csrc/frontends/onnx/file/model.h"

#include <google/protobuf/io/coded_stream.h>

#include <charconv>
#include <cstring>

#include "csrc/frontends/onnx/file/external_data.h"
#include "csrc/frontends/onnx/file/fail.h"
#include "csrc/frontends/onnx/file/message_count.h"
#include "csrc/frontends/onnx/file/tensor.h"
#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

int64_t external_number(const std::string& text, const std::string& what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    fail(what + ": \"" + text + "\" is no offset or length of external data");
  }
  return value;
}

// Bytes of the typed fields, as raw_data would have them.
template <class To, class List>
WeightBytes repack(const List& list) {
  auto out = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(list.size()) * sizeof(To));
  for (int i = 0; i < list.size(); ++i) {
    const To value = static_cast<To>(list.Get(i));
    std::memcpy(out->data() + static_cast<size_t>(i) * sizeof(To), &value, sizeof(To));
  }
  return {*out, out};
}

WeightBytes repack_typed(const onnx_proto::TensorProto& t) {
  using T = onnx_proto::TensorProto;
  switch (t.data_type()) {
    case T::FLOAT:
      return repack<float>(t.float_data());
    case T::DOUBLE:
      return repack<double>(t.double_data());
    case T::INT64:
      return repack<int64_t>(t.int64_data());
    case T::UINT32:
      return repack<uint32_t>(t.uint64_data());
    case T::UINT64:
      return repack<uint64_t>(t.uint64_data());
    case T::INT32:
      return repack<int32_t>(t.int32_data());
    case T::INT16:
    case T::UINT16:
    case T::FLOAT16:
    case T::BFLOAT16:
      return repack<uint16_t>(t.int32_data());
    default:
      return repack<uint8_t>(t.int32_data());
  }
}

WeightBytes load(const Model& model, const onnx_proto::TensorProto& tensor, int64_t expected,
                 const std::string& what) {
  if (tensor.data_location() == onnx_proto::TensorProto::EXTERNAL && model.elements) {
    return model.elements(tensor.name());
  }
  if (tensor.data_location() == onnx_proto::TensorProto::EXTERNAL) {
    std::string location;
    int64_t offset = 0, length = -1;
    for (const auto& entry : tensor.external_data()) {
      if (entry.key() == "location") location = entry.value();
      if (entry.key() == "offset") offset = external_number(entry.value(), what);
      if (entry.key() == "length") length = external_number(entry.value(), what);
    }
    if (!model.external) fail(what + ": external data, but the model is not a file");
    if (length < 0) length = expected;
    return map_external(model.directory, location, offset, length, what);
  }
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    return {{reinterpret_cast<const uint8_t*>(raw.data()), raw.size()}, nullptr};
  }
  return repack_typed(tensor);
}

}  // namespace

std::shared_ptr<const Model> parse_model(std::span<const uint8_t> bytes) {
  if (bytes.size() >= size_t{1} << 31) fail("[onnx] the model is larger than 2 GiB");
  check_message_count(bytes);
  auto model = std::make_shared<Model>();
  google::protobuf::io::CodedInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(64);
  if (!model->proto.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    fail("[onnx] not an ONNX model, or it is damaged or nested too deeply");
  }
  if (!model->proto.has_graph()) fail("[onnx] the model has no graph");
  return model;
}

std::shared_ptr<const Stored> check_tensor(std::shared_ptr<const Model> model,
                                           const onnx_proto::TensorProto& tensor) {
  const std::string what = "[onnx] tensor \"" + tensor.name() + "\"";
  auto stored = std::make_shared<Stored>();
  stored->name = tensor.name();
  stored->type = tensor.data_type();
  stored->dtype = dtype_of(tensor.data_type(), /*as_weight=*/true);
  stored->dims = {tensor.dims().begin(), tensor.dims().end()};
  if (tensor.has_segment()) fail(what + ": segments are not supported");
  stored->count = checked_count(stored->dims, what);
  if (stored->dtype == DType::kOther) return stored;  // refused by whoever uses it
  const int64_t expected = stored_bytes(stored->type, stored->count);
  const WeightBytes bytes = load(*model, tensor, expected, what);
  if (static_cast<int64_t>(bytes.bytes.size()) < expected ||
      (!tensor.has_raw_data() ? false : static_cast<int64_t>(bytes.bytes.size()) != expected)) {
    fail(what + ": " + std::to_string(bytes.bytes.size()) + " bytes of data, want " +
         std::to_string(expected));
  }
  stored->load_raw = [model = std::move(model), &tensor, expected, what] {
    WeightBytes data = load(*model, tensor, expected, what);
    if (static_cast<int64_t>(data.bytes.size()) < expected) fail(what + ": data that has shrunk");
    data.bytes = data.bytes.first(static_cast<size_t>(expected));
    if (!data.owner) data.owner = model;
    return data;
  };
  return stored;
}

}  // namespace tv::onnx
