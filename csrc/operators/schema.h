#pragma once
// Schemas of operators: what arguments they have, and how many results.
//
// Those of PyTorch and its libraries are what PyTorch says (schemas.inc); what frontends write
// otherwise, and this project's own operators, stand with the registration (Converter::schema).
// Operators that passes make have none, and neither have those that users add after the first look.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

enum class ArgKind : uint8_t {
  kTensor,
  kTensors,
  kInt,
  kFloat,
  kBool,
  kScalar,  ///< a number of any kind
  kText,
  kDType,
  kPlace,  ///< a device, layout, memory format or generator: the compiler does not look at it
  kInts,
  kFloats,
  kBools,
  kScalars,
};

struct SchemaArg {
  std::string name;
  ArgKind kind = ArgKind::kTensor;
  bool optional = false;    ///< may be None
  bool none_items = false;  ///< of a list of tensors: items may be None
  bool required = false;    ///< has no default
  int64_t length = 0;       ///< of a list whose length the schema says; 1: any
};

struct Schema {
  std::vector<SchemaArg> args;
  size_t results = 0;
  bool list = false;  ///< the result is a list of tensors, of any length

  const SchemaArg* find(std::string_view arg) const;
};

/// Null where there is none. "complex::" operators have ATen's with "complex" (converters/complex).
const Schema* schema_of(std::string_view op);

/// All names that schema_of knows but those of complex values.
std::vector<std::string> operators_with_schemas();

/// Throws Error(kUser) where arguments or the number of results do not fit.
void check_schema(const Node& node, const Schema& schema);

}  // namespace tv
