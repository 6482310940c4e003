#include "csrc/lowering/buffers.h"

#include <algorithm>

#include "csrc/graph/strided.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

Expr bytes_of(const Value& value) { return product(value.shape) * Expr(size_bytes(value.dtype)); }

}  // namespace

BufferTable::BufferTable(const ValueTable& table, EngineSpec& spec)
    : table_(table), spec_(spec), is_output_(table.graph().values.size(), false) {
  const Graph& graph = table.graph();
  const auto bind = [&](ValueId id, ValueId base, BufferKind kind, std::vector<Binding>& bindings,
                        Binding binding) {
    const Value& value = graph.value(id);
    const auto index = static_cast<uint32_t>(bindings.size());
    if (!bound_.emplace(base, Buffer{kind, index, bytes_of(value), binding.name}).second) {
      throw Error(ErrorKind::kInternal, "[lower] two bindings share the storage of " + value.name);
    }
    binding.dtype = value.dtype;
    binding.shape = value.shape;
    bindings.push_back(std::move(binding));
  };
  for (ValueId id : graph.inputs) {
    bind(id, id, BufferKind::kInput, spec.inputs,
         {graph.value(id).name, {}, {}, contiguous_strides(graph.value(id).shape)});
  }
  for (ValueId id : graph.weights) {
    bind(id, id, BufferKind::kWeight, spec.weights,
         {graph.value(id).name, {}, {}, contiguous_strides(graph.value(id).shape)});
  }
  for (const GraphOutput& output : graph.outputs) {
    const View layout = layout_of(graph, output.value);
    if (output.over != kNoValue) {
      const auto input = std::ranges::find(graph.inputs, output.over) - graph.inputs.begin();
      if (layout.base != output.over) {
        throw Error(ErrorKind::kInternal, "[lower] " + output.name + " does not lie in its input");
      }
      spec.inputs.at(static_cast<size_t>(input)).written = true;
      is_output_.at(static_cast<size_t>(layout.base)) = true;
      continue;
    }
    const bool kept = same_strides(graph.value(output.value).shape, layout.strides, output.strides);
    bind(output.value, layout.base, BufferKind::kOutput, spec.outputs,
         {output.name, {}, {}, kept ? output.strides : layout.strides});
    is_output_.at(static_cast<size_t>(layout.base)) = true;
  }
}

BufferTable::BufferTable(const ValueTable& table, EngineSpec& spec, std::vector<bool> is_output)
    : table_(table), spec_(spec), is_output_(std::move(is_output)) {}

uint32_t BufferTable::buffer_of(ValueId base) {
  if (auto it = buffers_.find(base); it != buffers_.end()) return it->second;
  const auto index = static_cast<uint32_t>(spec_.buffers.size());
  if (auto it = bound_.find(base); it != bound_.end()) {
    spec_.buffers.push_back(it->second);
  } else {
    const Value& value = table_.value(base);
    const auto kind = table_.is_constant(base) ? BufferKind::kPersistent : BufferKind::kArena;
    spec_.buffers.push_back({kind, 0, bytes_of(value), value.name});
  }
  buffers_.emplace(base, index);
  bases_.push_back(base);
  return index;
}

OperandRange BufferTable::check_range(bool waits) {
  const auto is_check = [](const Buffer& b) { return b.kind == BufferKind::kCheck; };
  auto it = std::ranges::find_if(spec_.buffers, is_check);
  if (it == spec_.buffers.end()) {
    spec_.buffers.push_back({BufferKind::kCheck, waits ? 1u : 0u, Expr(4 * kCheckWords), "check"});
    bases_.push_back(kNoValue);
    it = std::prev(spec_.buffers.end());
  }
  return {.buffer = static_cast<uint32_t>(it - spec_.buffers.begin()),
          .offset_bytes = Expr(0),
          .size_bytes = Expr(4 * kCheckWords),
          .read = true,
          .write = true};
}

OperandRange BufferTable::range_of(ValueId value, const Expr& storage_elements) {
  const View layout = table_.layout(value);
  const Expr item = size_bytes(table_.value(value).dtype);
  OperandRange range;
  range.buffer = buffer_of(layout.base);
  range.offset_bytes = layout.offset * item;
  // Nothing lies at its start, so that an offset into an empty storage is not past its end.
  if (!(layout.offset == Expr(0)) && storage_elements.bounds(spec_.symbols).first < 1) {
    range.offset_bytes *= max(min(storage_elements, 1), 0);
  }
  range.size_bytes = storage_elements * item;
  return range;
}

}  // namespace tv
