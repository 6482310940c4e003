#include "csrc/frontends/onnx/message_count.h"

#include <optional>
#include <string>

#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

// The messages of onnx-ml.proto that a file can hold many of; the rest counts as one.
enum Kind : uint8_t {
  kLeaf,
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kFunction,
  kSparse
};

struct Field {
  Kind of;
  uint32_t number;
  Kind is;
};

// Fields that hold messages or strings; an empty one of either takes an object.
constexpr Field kFields[] = {
    {kModel, 7, kGraph},         {kModel, 8, kLeaf},        {kModel, 14, kLeaf},
    {kModel, 25, kFunction},     {kModel, 20, kLeaf},       {kModel, 26, kLeaf},
    {kGraph, 1, kNode},          {kGraph, 5, kTensor},      {kGraph, 11, kValueInfo},
    {kGraph, 12, kValueInfo},    {kGraph, 13, kValueInfo},  {kGraph, 14, kLeaf},
    {kGraph, 15, kSparse},       {kGraph, 16, kLeaf},       {kNode, 1, kLeaf},
    {kNode, 2, kLeaf},           {kNode, 5, kAttribute},    {kNode, 9, kLeaf},
    {kNode, 10, kLeaf},          {kAttribute, 5, kTensor},  {kAttribute, 6, kGraph},
    {kAttribute, 9, kLeaf},      {kAttribute, 10, kTensor}, {kAttribute, 11, kGraph},
    {kAttribute, 14, kType},     {kAttribute, 15, kType},   {kAttribute, 22, kSparse},
    {kAttribute, 23, kSparse},   {kTensor, 6, kLeaf},       {kTensor, 13, kLeaf},
    {kTensor, 16, kLeaf},        {kValueInfo, 2, kType},    {kValueInfo, 4, kLeaf},
    {kType, 1, kTensorType},     {kTensorType, 2, kShape},  {kShape, 1, kLeaf},
    {kFunction, 4, kLeaf},       {kFunction, 5, kLeaf},     {kFunction, 6, kLeaf},
    {kFunction, 7, kNode},       {kFunction, 9, kLeaf},     {kFunction, 11, kAttribute},
    {kFunction, 12, kValueInfo}, {kFunction, 14, kLeaf},    {kSparse, 1, kTensor},
    {kSparse, 2, kTensor},       {kType, 4, kType},         {kType, 9, kType}};

std::optional<Kind> kind_of(Kind parent, uint32_t number) {
  for (const Field& field : kFields) {
    if (field.of == parent && field.number == number) return field.is;
  }
  return std::nullopt;
}

[[noreturn]] void damaged() {
  throw Error(ErrorKind::kUser, "[onnx] not an ONNX model, or it is damaged");
}

uint64_t read_varint(std::span<const uint8_t>& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70 && !bytes.empty(); shift += 7) {
    const uint8_t byte = bytes[0];
    bytes = bytes.subspan(1);
    value |= shift < 64 ? static_cast<uint64_t>(byte & 127) << shift : 0;
    if (byte < 128) return value;
  }
  damaged();
}

void skip(std::span<const uint8_t>& bytes, size_t count) {
  if (count > bytes.size()) damaged();
  bytes = bytes.subspan(count);
}

// `cost`: bytes of the objects that protobuf would make, about.
void walk(std::span<const uint8_t> bytes, Kind kind, int depth, uint64_t& cost) {
  if (depth > 64) throw Error(ErrorKind::kUser, "[onnx] messages nest deeper than 64");
  while (!bytes.empty()) {
    const uint64_t tag = read_varint(bytes);
    const auto number = static_cast<uint32_t>(tag >> 3);
    if ((tag & 7) == 0) {
      read_varint(bytes);
    } else if ((tag & 7) == 1) {
      skip(bytes, 8);
    } else if ((tag & 7) == 5) {
      skip(bytes, 4);
    } else if ((tag & 7) == 2) {
      const uint64_t length = read_varint(bytes);
      if (length > bytes.size()) damaged();
      if (const auto inner = kind_of(kind, number)) {
        cost += *inner == kLeaf ? 48 : 200;
        if (*inner != kLeaf) walk(bytes.first(length), *inner, depth + 1, cost);
      }
      bytes = bytes.subspan(length);
    } else {
      damaged();  // groups are in no ONNX file
    }
  }
}

}  // namespace

void check_message_count(std::span<const uint8_t> bytes) {
  uint64_t cost = 0;
  walk(bytes, kModel, 0, cost);
  if (cost > (uint64_t{1} << 20) + 32 * static_cast<uint64_t>(bytes.size())) {
    throw Error(ErrorKind::kUser, "[onnx] " + std::to_string(bytes.size()) +
                                      " bytes would become " + std::to_string(cost) +
                                      " bytes of messages: not a model");
  }
}

}  // namespace tv::onnx
