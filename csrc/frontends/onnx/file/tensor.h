#pragma once
// What a name stands for while an ONNX graph is imported.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/frontends/weight.h"
#include "csrc/graph/graph.h"

namespace tv::onnx {

/// Elements that are known while importing: integers (and bools) as expressions over the symbols,
/// floats as numbers that their type holds.
struct Host {
  DType dtype = DType::kI64;
  std::vector<int64_t> dims;
  std::vector<Expr> ints;
  std::vector<double> floats;
  /// From a Constant node or folded: written into the graph, not a weight, where it is uniform.
  bool baked = true;

  size_t count() const { return is_float(dtype) ? floats.size() : ints.size(); }
};

/// A tensor of the file, checked: its bytes are there and fit its dims.
struct Stored {
  std::string name;
  DType dtype = DType::kOther;  ///< as weights are held
  int32_t type = 0;             ///< TensorProto.DataType in the file
  std::vector<int64_t> dims;
  int64_t count = 0;
  std::function<WeightBytes()> load_raw;  ///< as in the file: little-endian, packed
};

struct Tensor {
  DType dtype = DType::kOther;
  Shape shape;
  ValueId id = kNoValue;                 ///< in the graph; made when it is first needed
  std::shared_ptr<const Host> host;      ///< where its elements are known
  std::shared_ptr<const Stored> stored;  ///< where it is a tensor of the file
  bool present = false;                  ///< false: an optional input that is left out
  bool refused = false;                  ///< made by a node that has no translation
  /// TensorProto.DataType of a value whose type engines do not hold: its elements are in a wider
  /// one. 0: it is of type `dtype`.
  int32_t widened = 0;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};

inline constexpr int64_t kMaxHostElements = 1 << 16;

/// Product of sizes; throws Error(kUser) below 0 or past 2^40.
int64_t checked_count(const std::vector<int64_t>& dims, const std::string& what);
/// The elements of a stored tensor; null if it has more than `limit`.
std::shared_ptr<const Host> read_host(const Stored& stored, int64_t limit = kMaxHostElements);
/// The bytes of a stored tensor as weights of `stored.dtype` are held.
WeightBytes read_weight(const Stored& stored);
/// Whether the file holds 4-bit integers; `is_signed`: from -8 to 7.
struct FourBits {
  bool yes = false, is_signed = false;
};
FourBits four_bits(const Stored& stored);
/// A matrix of them, transposed or not, as tv::dequantize reads it: uint8, two elements a byte
/// along the last dimension, which has an even size, the first in the low half; 8 is added to
/// signed ones.
std::shared_ptr<const Stored> packed_pairs(const std::shared_ptr<const Stored>& matrix,
                                           bool transposed);
/// The bytes of elements that do not depend on symbols.
std::vector<uint8_t> host_bytes(const Host& host);
/// Rounds to what the type holds.
double round_to(DType dtype, double value);

/// ONNX's types that engines hold; kOther for the others. `as_weight` allows a wider type for
/// integers that the file stores: 8 bits for the sub-byte ones, int32 for uint16, int64 for uint32;
/// and int64 for uint64, bit for bit (uint64.h).
DType dtype_of(int32_t onnx_type, bool as_weight = false);
/// What engines take and give a tensor of a type in: as `dtype_of`, and uint8, their codes, for
/// small floating-point numbers of 8 bits.
DType held_dtype(int32_t onnx_type);
/// Whether those are codes.
bool is_held_as_codes(int32_t onnx_type);
/// As Tensor::widened.
int32_t widened_type(const Stored& stored);
/// Likewise, of a value of this type.
int32_t widened_type(int32_t onnx_type);
/// Binding::format of a value that is Tensor::widened; "": of one that is not, or of less than a
/// byte.
std::string border_format(int32_t widened);
bool is_uint64(int32_t onnx_type);
/// Whether elements of the type are stored as those of the wider one.
bool stored_as_widened(int32_t onnx_type);
/// From elements as the file packs them to those of the wider type, and back.
void widen(int32_t onnx_type, const uint8_t* packed, int64_t count, uint8_t* wide);
void narrow(int32_t onnx_type, const uint8_t* wide, int64_t count, uint8_t* packed);
std::string type_name(int32_t onnx_type);
/// Bytes of `count` elements as the file packs them.
int64_t stored_bytes(int32_t onnx_type, int64_t count);

}  // namespace tv::onnx
