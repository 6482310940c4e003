#pragma once
// Mutations of an ONNX model that leave it one: of fields of its messages, in protobuf's wire
// format. Lengths around a field are put right, which mutations of bytes do not do.
// https://protobuf.dev/programming-guides/encoding, fields by onnx.proto.

#include <map>
#include <optional>
#include <random>
#include <utility>

#include "tests/fuzz/fuzz_file.h"

namespace tv::fuzz {

class OnnxMutator {
 public:
  explicit OnnxMutator(unsigned int seed) : random_(seed) {}

  /// Of a model of `size` bytes, in place; 0: it is none, or became too large.
  size_t run(uint8_t* data, size_t size, size_t max_size) {
    Bytes model(data, data + size);
    if (!change(model, kModel)) return 0;
    if (model.empty() || model.size() > max_size) return 0;
    std::copy(model.begin(), model.end(), data);
    return model.size();
  }

 private:
  enum Message : uint8_t {
    kNone,
    kModel,
    kGraph,
    kNode,
    kAttribute,
    kTensor,
    kValueInfo,
    kType,
    kTensorType,
    kShape,
    kDim,
    kOpset,
    kFunction,
    kSparse,
    kSequence
  };

  struct Field {
    uint32_t number;
    uint32_t wire;  ///< 0: varint, 1: 8 bytes, 2: length and bytes, 5: 4 bytes
    uint64_t value = 0;
    Bytes bytes = {};
  };

  /// What message a field of one holds; kNone: text, numbers or data.
  static Message inner(Message message, uint32_t number) {
    static const std::map<std::pair<Message, uint32_t>, Message> known = {
        {{kModel, 7}, kGraph},       {{kModel, 8}, kOpset},         {{kModel, 25}, kFunction},
        {{kGraph, 1}, kNode},        {{kGraph, 5}, kTensor},        {{kGraph, 11}, kValueInfo},
        {{kGraph, 12}, kValueInfo},  {{kGraph, 13}, kValueInfo},    {{kGraph, 15}, kSparse},
        {{kNode, 5}, kAttribute},    {{kAttribute, 5}, kTensor},    {{kAttribute, 6}, kGraph},
        {{kAttribute, 10}, kTensor}, {{kAttribute, 11}, kGraph},    {{kAttribute, 14}, kType},
        {{kAttribute, 22}, kSparse}, {{kValueInfo, 2}, kType},      {{kType, 1}, kTensorType},
        {{kType, 4}, kSequence},     {{kType, 9}, kSequence},       {{kSequence, 1}, kType},
        {{kTensorType, 2}, kShape},  {{kShape, 1}, kDim},           {{kFunction, 7}, kNode},
        {{kFunction, 9}, kOpset},    {{kFunction, 11}, kAttribute}, {{kSparse, 1}, kTensor},
        {{kSparse, 2}, kTensor}};
    const auto found = known.find({message, number});
    return found == known.end() ? kNone : found->second;
  }

  uint32_t below(size_t limit) { return static_cast<uint32_t>(random_() % limit); }

  bool change(Bytes& bytes, Message message) {
    std::optional<std::vector<Field>> fields = parse(bytes);
    if (!fields || fields->empty()) return false;
    const size_t place = below(fields->size());
    Field& field = (*fields)[place];
    const Message in = field.wire == 2 ? inner(message, field.number) : kNone;
    const bool deeper = in != kNone && below(8) != 0;
    if (!deeper || !change(field.bytes, in)) change_one(*fields, place, in);
    bytes = written(*fields);
    return true;
  }

  void change_one(std::vector<Field>& fields, size_t place, Message in) {
    const auto at = fields.begin() + static_cast<std::ptrdiff_t>(place);
    switch (below(8)) {
      case 0:
        fields.erase(at);
        return;
      case 1: {
        const Field copy = *at;
        fields.insert(fields.begin() + below(fields.size() + 1), copy);
        return;
      }
      case 2:
        std::swap(fields[place], fields[below(fields.size())]);
        return;
      case 3:  // in the place of another one of its kind
        for (const Field& other : fields) {
          if (other.number == at->number && below(2) == 0) {
            const Field copy = other;
            fields[place] = copy;
            return;
          }
        }
        return;
      default:
        change_value(fields[place], in);
    }
  }

  void change_value(Field& field, Message in) {
    static constexpr uint64_t kNumbers[] = {0,
                                            1,
                                            2,
                                            3,
                                            4,
                                            5,
                                            7,
                                            8,
                                            10,
                                            11,
                                            16,
                                            64,
                                            255,
                                            1 << 16,
                                            1ULL << 31,
                                            1ULL << 32,
                                            1ULL << 62,
                                            ~uint64_t{0},
                                            ~uint64_t{1},
                                            uint64_t{1} << 63};
    if (field.wire != 2) {
      field.value = below(4) == 0 ? random_() : kNumbers[below(std::size(kNumbers))];
    } else if (in == kNone) {  // text, packed numbers, data
      mutate(field.bytes, 16);
    } else if (below(4) == 0) {
      field.bytes.clear();
    } else {
      change(field.bytes, in);
    }
  }

  static std::optional<uint64_t> varint(const Bytes& bytes, size_t& at) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
      const uint8_t byte = bytes[at++];
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  static std::optional<std::vector<Field>> parse(const Bytes& bytes) {
    std::vector<Field> fields;
    for (size_t at = 0; at < bytes.size();) {
      const auto key = varint(bytes, at);
      if (!key || *key >> 3 == 0 || *key >> 32 != 0) return std::nullopt;
      Field field{.number = static_cast<uint32_t>(*key >> 3),
                  .wire = static_cast<uint32_t>(*key & 7)};
      if (field.wire == 0 || field.wire == 2) {
        const auto value = varint(bytes, at);
        if (!value) return std::nullopt;
        field.value = *value;
      }
      const size_t length = field.wire == 2   ? field.value
                            : field.wire == 1 ? 8
                            : field.wire == 5 ? 4
                                              : 0;
      if (field.wire == 3 || field.wire == 4 || field.wire > 5) return std::nullopt;
      if (length > bytes.size() - at) return std::nullopt;
      if (field.wire == 2) {
        field.bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                           bytes.begin() + static_cast<std::ptrdiff_t>(at + length));
      } else if (length != 0) {
        std::memcpy(&field.value, bytes.data() + at, length);
      }
      at += length;
      fields.push_back(std::move(field));
    }
    return fields;
  }

  static void put(Bytes& out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<uint8_t>(value | 0x80));
    out.push_back(static_cast<uint8_t>(value));
  }

  static Bytes written(const std::vector<Field>& fields) {
    Bytes out;
    for (const Field& field : fields) {
      put(out, uint64_t{field.number} << 3 | field.wire);
      if (field.wire == 0) put(out, field.value);
      if (field.wire == 2) {
        put(out, field.bytes.size());
        out.insert(out.end(), field.bytes.begin(), field.bytes.end());
      }
      const size_t length = field.wire == 1 ? 8 : field.wire == 5 ? 4 : 0;
      const auto* value = reinterpret_cast<const uint8_t*>(&field.value);
      out.insert(out.end(), value, value + length);
    }
    return out;
  }

  std::mt19937 random_;
};

}  // namespace tv::fuzz
