#pragma once
// Walks an ONNX graph and translates its nodes in order.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "csrc/frontends/onnx/file/model.h"
#include "csrc/frontends/onnx/kit/context.h"
#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::onnx {

/// Names of one graph or function body; the body of an If or Loop sees those around it.
struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, Tensor, std::less<>> names;
  std::map<std::string, int64_t> opsets;  ///< by domain

  const Tensor* find(const std::string& name) const;
};

/// An import starts again for each; nodes of a partial one that need more are left out.
inline constexpr size_t kMaxMerged = 64;

constexpr int64_t kNewestOpset = 28;  ///< of ai.onnx

/// "opset 99 of ai.onnx; engines take 7 to 28"
std::string newer_opset(int64_t version);

class Importer : public Surroundings {
 public:
  /// `merged`: dynamic dimensions (by number, in order) that stand for earlier ones.
  Importer(std::shared_ptr<const Model> model, const ImportOptions& options,
           const std::map<int32_t, int32_t>& merged);
  /// Throws SameSymbol, by number of the dimensions.
  ImportedModel run();

  std::vector<Tensor> run_body(const onnx_proto::GraphProto& body, const Scope& outer,
                               const std::vector<Tensor>& inputs) override;
  std::shared_ptr<const Stored> stored(const onnx_proto::TensorProto& tensor) const override;
  int64_t opset(const Scope& scope) const override;
  void want_value(const Tensor& tensor) override;

 private:
  void add_inputs(Scope& scope);
  Tensor add_input(const onnx_proto::ValueInfoProto& value);
  Tensor constant_input(const std::string& name, const ConstantInput& given, DType dtype);
  void add_initializers(const onnx_proto::GraphProto& graph, Scope& scope);
  Shape input_shape(const onnx_proto::ValueInfoProto& value);
  Expr input_dim(const onnx_proto::ValueInfoProto& value, int index, const DimRange* range);
  void run_nodes(const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>& nodes,
                 Scope& scope);
  void run_node(const onnx_proto::NodeProto& node, Scope& scope);
  // Of partial imports, of nodes of the main graph:
  std::vector<Tensor> run_or_leave_out(const onnx_proto::NodeProto& node,
                                       std::vector<Tensor> inputs, Scope& scope);
  bool is_of_its_type(const onnx_proto::NodeProto& node, const std::string& name,
                      const Tensor& value) const;
  std::string reason_to_leave_out(const FileNode& as, const Scope& scope) const;
  std::vector<Tensor> leave_out(const FileNode& as, const Scope& scope);
  void read_infos();
  Tensor add_unknown_input(const onnx_proto::ValueInfoProto& value, const std::string& reason);
  std::pair<DType, Shape> type_in_file(const std::string& name);
  int32_t widened_in_file(const std::string& name) const;
  /// What a value of the type is held in where it comes in or goes out, and Tensor::widened of it.
  DType dtype_at_border(int32_t type) const;
  int32_t widened_at_border(int32_t type) const;
  bool is_wider_at_border(int32_t type) const;
  Expr size_in_file(const std::string& name, const std::string& dim_name, int index);
  void set_partial_outputs(const Scope& scope);
  void define(Scope& scope, const std::string& name, Tensor value, const std::string& node);
  std::vector<Tensor> translate(const onnx_proto::NodeProto& node, std::vector<Tensor> inputs,
                                Scope& scope);
  std::vector<Tensor> run_function(const onnx_proto::FunctionProto& function,
                                   const onnx_proto::NodeProto& node,
                                   const std::vector<Tensor>& inputs);
  void name_value(const Tensor& tensor, const std::string& name);
  void set_outputs(const Scope& scope);
  [[noreturn]] static void fail_without_maker(const std::string& output);
  void settle_usual_sizes();
  void refused(const onnx_proto::NodeProto& node, const std::string& reason);

  std::shared_ptr<const Model> model_;
  const ImportOptions& options_;
  std::map<int32_t, int32_t> merged_;
  ImportedModel result_;
  Emitter emitter_;
  ImportedModel import();

  std::vector<int32_t> dynamic_dims_;  ///< the symbol of each dynamic dimension
  std::set<int32_t> given_;            ///< symbols whose range the caller gave
  std::map<std::string, Expr> dims_;   ///< by dim_param
  std::set<ValueId> named_;            ///< go by a name of the file
  std::vector<std::string> refusals_;
  std::set<std::string> refusal_texts_;
  LeaveOut again_;                                                  ///< what this import is void by
  std::map<std::string, const onnx_proto::ValueInfoProto*> infos_;  ///< types that the file gives
  std::map<std::string, std::string> unknown_;                      ///< names, and why
  int depth_ = 0;
  int64_t steps_ = 0;
};

/// `[Conv "name"]`, what messages begin with.
std::string label(const onnx_proto::NodeProto& node);

}  // namespace tv::onnx
