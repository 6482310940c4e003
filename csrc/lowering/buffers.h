#pragma once

#include <map>
#include <vector>

#include "csrc/lowering/value_table.h"
#include "runtime/spec/engine_spec.h"

namespace tv {

/// Gives each storage its buffer in the engine, at first use.
class BufferTable {
 public:
  /// Fills the bindings of `spec` from the graph.
  BufferTable(const ValueTable& table, EngineSpec& spec);
  /// Without bindings: constants are kPersistent buffers, everything else is kArena.
  BufferTable(const ValueTable& table, EngineSpec& spec, std::vector<bool> is_output);

  /// The part of the engine's buffers that a value's layout covers.
  OperandRange range_of(ValueId value, const Expr& storage_elements);
  /// The buffer that kernels with address checks report to.
  OperandRange check_range(bool waits);
  /// True if the base value is the storage of a graph output.
  const std::vector<bool>& is_output() const { return is_output_; }
  /// The base value of each buffer; kNoValue for the check buffer.
  const std::vector<ValueId>& bases() const { return bases_; }

 private:
  uint32_t buffer_of(ValueId base);

  const ValueTable& table_;
  EngineSpec& spec_;
  std::map<ValueId, Buffer> bound_;      // inputs, outputs and weights by base value
  std::map<ValueId, uint32_t> buffers_;  // by base value
  std::vector<bool> is_output_;
  std::vector<ValueId> bases_;
};

}  // namespace tv
