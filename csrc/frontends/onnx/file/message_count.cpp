#include "csrc/frontends/onnx/file/message_count.h"

#include <onnx_ml.fields.h>  // generated

#include <algorithm>
#include <string>

#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

using onnx_proto::kMessageBytes;
using onnx_proto::kMessageFields;
using onnx_proto::MessageField;

constexpr size_t kSlot = 32;  // an allocation's head and a place in a list

static_assert(std::ranges::is_sorted(kMessageFields, {}, &MessageField::of));

const MessageField* field_of(int message, uint32_t number) {
  const MessageField* const end = std::end(kMessageFields);
  const auto before = [](const MessageField& field, int other) { return field.of < other; };
  const auto* field = std::lower_bound(std::begin(kMessageFields), end, message, before);
  while (field != end && field->of == message && field->number != number) ++field;
  return field != end && field->of == message ? field : nullptr;
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

// `cost`: bytes of the objects that protobuf would make. A string that is not one of a list is made
// once in its message, of two bytes or more, and not counted.
void walk(std::span<const uint8_t> bytes, int message, int depth, uint64_t& cost) {
  if (depth > 64) throw Error(ErrorKind::kUser, "[onnx] messages nest deeper than 64");
  while (!bytes.empty()) {
    const uint64_t tag = read_varint(bytes);
    if ((tag & 7) == 0) {
      read_varint(bytes);
    } else if ((tag & 7) == 1) {
      skip(bytes, 8);
    } else if ((tag & 7) == 5) {
      skip(bytes, 4);
    } else if ((tag & 7) == 2) {
      const uint64_t length = read_varint(bytes);
      if (length > bytes.size()) damaged();
      if (const MessageField* field = field_of(message, static_cast<uint32_t>(tag >> 3))) {
        cost += kSlot + (field->is < 0 ? sizeof(std::string) : kMessageBytes[field->is]);
        if (field->is >= 0) walk(bytes.first(length), field->is, depth + 1, cost);
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
  walk(bytes, 0, 0, cost);
  if (cost > (uint64_t{1} << 20) + 32 * static_cast<uint64_t>(bytes.size())) {
    throw Error(ErrorKind::kUser, "[onnx] " + std::to_string(bytes.size()) +
                                      " bytes would become " + std::to_string(cost) +
                                      " bytes of messages: not a model");
  }
}

}  // namespace tv::onnx
