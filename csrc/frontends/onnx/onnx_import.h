#pragma once
// From an ONNX file to a Graph: operators become ATen's, shapes are inferred on the way.
//
// Operands that set shapes (shape, axes, pads, …) are read on the host where they are constants or
// arithmetic on sizes; they specialise the Graph. Everything in the file is checked before it is
// used: a file that is not well formed is an Error(kUser) that names the node.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "csrc/frontends/weight.h"
#include "csrc/graph/graph.h"
#include "runtime/base/error.h"

namespace tv {
struct Settings;  // csrc/settings.h: each row recompiles what includes it
}

namespace tv::onnx {

using tv::DimRange;
using tv::Weight;
using tv::WeightBytes;

/// Elements of an input that sets shapes, at most.
inline constexpr int64_t kMostShapeElements = 64;

/// Elements of an input: integers, bools (0 and 1) or float32.
struct ConstantInput {
  DType dtype = DType::kI64;
  std::vector<int64_t> dims, ints;
  std::vector<double> floats;
};

/// What the caller says of an input does not fit the model, whatever its nodes are.
class GivenInputError : public Error {
 public:
  explicit GivenInputError(const std::string& message) : Error(ErrorKind::kUser, message) {}
};

struct ImportOptions {
  /// Sizes by name of the input, one range a dimension. Inputs that are not named keep the file's:
  /// a dynamic dimension then has 1 or any larger size.
  std::map<std::string, std::vector<DimRange>> inputs;
  /// Such a dimension may be 0, too, unless it is a symbol of one of these names.
  bool may_be_empty = false;
  std::set<std::string> never_empty = {};
  /// Inputs that are given here and not when the engine runs, for operands that set shapes.
  std::map<std::string, ConstantInput> constants;
  std::string directory;  ///< where external data lies; "": beside the file, none for bytes
  /// Nodes that cannot be translated become nodes of the graph that refuse themselves
  /// (Origin::refusal), with the types that the file's value_info gives for what they make.
  bool partial = false;
  /// Of a partial import: sizes that are unequal symbols may be equal, or one of them 1, in a run.
  /// Others get the nodes that broadcast these; else they are taken for equal.
  bool broadcasts = false;
  /// Of a partial import: values of types that engines hold only as weights, in wider types, come
  /// in and go out so (Named::widened).
  bool widened = false;
  /// uint16, uint32 and uint64 come in and go out as int32 and int64 (Binding::format).
  bool unsigned_integers = false;
  /// Whether matrices among the weights are looked at for 2:4 sparsity (Value::two_four).
  bool sparse_weights = false;
  /// Of these nodes of the main graph, by number: why they are left to others, too.
  std::map<int32_t, std::string> left_out;
};

/// What settings say of an import, for callers that give unsigned integers as Binding::format says.
ImportOptions import_options(const Settings& settings);

/// An input or output of the model.
struct Binding {
  std::string name;
  DType dtype = DType::kOther;  ///< in the file, as far as it says one
  Shape shape;
  /// The format of kSmallFloats (csrc/graph/quantised.h) whose codes it holds as uint8, or "uint16"
  /// or "uint32" that int32 or int64 holds; "": it is as in the file.
  std::string format;
};

/// A node of the main graph: its number is Origin::index of what it became.
struct FileNode {
  std::string label, op;                   ///< `[Conv "name"]`, "Conv"
  std::vector<std::string> reads, writes;  ///< names; those that its bodies read included
  std::string refusal;                     ///< why it is left to others; "": it is not
};

struct Host;

/// What a name of the main graph stands for: a value of the graph, or elements that are known by
/// the sizes; neither for a tensor of the file and what is not known.
struct Named {
  ValueId id = kNoValue;
  std::shared_ptr<const Host> host;  ///< csrc/frontends/onnx/file/tensor.h
  int32_t widened = 0;               ///< as Tensor::widened, there
};

struct ImportedModel {
  Graph graph;
  std::vector<Weight> weights;
  std::vector<Binding> inputs, outputs;  ///< in the order of the graph's
  int64_t opset = 0;                     ///< of ai.onnx
  std::string producer;
  /// Tensors of the file whose elements the graph, or a check of it, depends on: with others it
  /// might be another one.
  std::set<std::string> elements_read;

  // Of a partial import.
  std::vector<FileNode> nodes;
  std::map<std::string, Named> names;
  /// Inputs whose values would have let more nodes be translated: they set shapes.
  std::set<std::string> shape_inputs;
};

/// Throws Error(kUser) for a file that is wrong, and Error(kUnsupported) that lists every node
/// which has no translation.
ImportedModel import_file(const std::string& path, const ImportOptions& options = {});
ImportedModel import_bytes(std::span<const uint8_t> model, const ImportOptions& options = {});

struct Model;  ///< csrc/frontends/onnx/file/model.h

/// Maps and parses a file; external data lies in `directory`, "": beside the file. Throws
/// Error(kUser).
std::shared_ptr<const Model> read_model(const std::string& path, const std::string& directory);

/// Imports a model that somebody has put together. What the result loads keeps it alive.
ImportedModel import_model(const std::shared_ptr<const Model>& model, ImportOptions options);

/// A model for several imports, with external data in `directory`; "": it has none. Throws
/// Error(kUser).
std::shared_ptr<const Model> read_bytes(std::span<const uint8_t> model,
                                        const std::string& directory);

/// Names and types (type_name) of the inputs that a run gives, in order: those without a default.
std::vector<std::pair<std::string, std::string>> inputs_of(std::span<const uint8_t> model);

/// Operators of ai.onnx that have a translation, in alphabetical order.
std::vector<std::string> translated_operators();

}  // namespace tv::onnx
