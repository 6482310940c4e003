#pragma once
// What a fused node needs to know to call its engine.

#include <memory>
#include <string>
#include <vector>

#include "csrc/division/groups.h"

namespace tv::ort {

/// What a name that a fused node reads stands for: a value of the plan's graph, numbers that are
/// computed from sizes (int32 or int64), or something that the engine does not need.
struct FusedInput {
  std::string name;
  ValueId value = kNoValue;
  DType dtype = DType::kOther;
  Shape shape;                 ///< of a value
  std::vector<Expr> elements;  ///< of numbers
  int32_t widened = 0;         ///< TensorProto.DataType, where the engine's type is a wider one
};

/// Where a result comes from.
struct FusedOutput {
  enum class From { kEngine, kInput, kSizes };
  std::string name;
  From from = From::kEngine;
  size_t index = 0;  ///< of the engine's output, or of the fused node's input
  DType dtype = DType::kOther;
  Shape shape;
  std::shared_ptr<const onnx::Host> numbers;  ///< from sizes
  int32_t widened = 0;                        ///< as of an input
};

/// A value that the engine reads.
struct EngineInput {
  ValueId value = kNoValue;
  Shape shape;
  int64_t from = -1;  ///< the fused node's input; -1: only its sizes count
};

/// How a fused node calls its engine. Sizes are expressions over the plan's symbols.
struct Wiring {
  std::vector<FusedInput> inputs;
  std::vector<FusedOutput> outputs;
  std::vector<EngineInput> engine_inputs;
  Block block;  ///< what the engine is built of
  std::vector<Symbol> symbols;
};

/// Throws Error(kUnsupported) that says what is in the way. Its block is empty where the group has
/// none, or where nothing that it computes is read.
Wiring wire(const onnx::Division& division, const onnx::Group& group,
            const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

/// Whether a tensor of the runtime, by its TensorProto.DataType, is what a fused node's input or
/// output says.
bool is_of_type(int32_t type, DType dtype, int32_t widened);

/// The runtime allocates results by the types of its graph: TensorProto.DataType of each output, 0:
/// no tensor. Throws Error(kUser) for others.
void check_types(const Wiring& wiring, const std::vector<int32_t>& types);

/// The same with inputs and outputs in this order, which a node that was stored may have changed.
/// Throws Error(kUser) for other names.
void arrange(Wiring& wiring, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs);

}  // namespace tv::ort
