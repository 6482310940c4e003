#pragma once
// How many messages a serialised model has, before protobuf makes an object of each.

#include <cstdint>
#include <span>

namespace tv::onnx {

/// Walks the wire format without allocating. Throws Error(kUser) if the objects would take more
/// than a small multiple of the bytes: real files have few messages for their size.
void check_message_count(std::span<const uint8_t> bytes);

}  // namespace tv::onnx
