#include "integrations/triton/signature.h"

#include <algorithm>
#include <set>

#include "integrations/triton/calls.h"

namespace tv::triton {
namespace {

std::vector<ServedTensor> tensors_of(const std::vector<Binding>& bindings) {
  std::vector<ServedTensor> tensors;
  for (const Binding& binding : bindings) {
    ServedTensor tensor{.name = binding.name, .dtype = binding.dtype};
    for (const Expr& dim : binding.shape) tensor.dims.push_back(dim.constant().value_or(-1));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// Sizes that differ between shape profiles vary.
void merge(std::vector<ServedTensor>& into, const std::vector<ServedTensor>& more) {
  for (size_t t = 0; t < into.size() && t < more.size(); ++t) {
    for (size_t d = 0; d < into[t].dims.size() && d < more[t].dims.size(); ++d) {
      if (into[t].dims[d] != more[t].dims[d]) into[t].dims[d] = -1;
    }
  }
}

struct Range {
  int64_t min = 0, max = kUnbounded;
};

/// Throws the reason, a text, why a tensor has no rows of a batch.
struct NoBatch {
  std::string why;
};

/// The symbol that is a tensor's dimension 0, which no other dimension depends on.
int32_t batch_symbol(const Binding& binding, const std::set<int32_t>& known) {
  const std::string where = "\"" + binding.name + "\"";
  if (binding.shape.empty()) throw NoBatch{where + " is a scalar"};
  const std::vector<int32_t> symbols = binding.shape[0].symbols();
  if (symbols.size() != 1 || !(binding.shape[0] == Expr::symbol(symbols[0]))) {
    throw NoBatch{"dimension 0 of " + where + " is not a batch of any size"};
  }
  if (!known.empty() && !known.contains(symbols[0])) {
    throw NoBatch{"dimension 0 of " + where + " is not that of the inputs"};
  }
  return symbols[0];
}

void refuse_other_dims(const Binding& binding, const std::set<int32_t>& batch) {
  for (size_t d = 1; d < binding.shape.size(); ++d) {
    for (const int32_t symbol : binding.shape[d].symbols()) {
      if (!batch.contains(symbol)) continue;
      throw NoBatch{"dimension " + std::to_string(d) + " of \"" + binding.name +
                    "\" depends on the batch"};
    }
  }
}

/// Batches that a shape profile takes.
Range batches_of(const EngineSpec& spec) {
  std::set<int32_t> batch;
  if (spec.inputs.empty()) throw NoBatch{"there are no inputs"};
  for (const Binding& input : spec.inputs) batch.insert(batch_symbol(input, {}));
  for (const Binding& output : spec.outputs) batch_symbol(output, batch);
  for (const auto* bindings : {&spec.inputs, &spec.outputs}) {
    for (const Binding& binding : *bindings) refuse_other_dims(binding, batch);
  }
  Range range;
  for (const int32_t symbol : batch) {
    const Symbol& of = spec.symbols[static_cast<size_t>(symbol)];
    range = {std::max(range.min, of.min), std::min(range.max, of.max)};
  }
  return range;
}

/// The largest batch up to which every one is in a range.
int64_t reach(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.min < b.min; });
  int64_t to = 0;
  for (const Range& range : ranges) {
    if (range.min <= to + 1) to = std::max(to, range.max);
  }
  return to;
}

void refuse_what_no_server_calls(const EngineSpec& spec) {
  for (const Binding& input : spec.inputs) {
    if (!input.written) continue;
    throw Error(ErrorKind::kUnsupported, "the engine writes to its input \"" + input.name +
                                             "\", and requests keep no state between each other");
  }
  for (const auto* bindings : {&spec.inputs, &spec.outputs}) {
    for (const Binding& binding : *bindings) {
      if (type_of(binding.dtype) != TRITONSERVER_TYPE_INVALID) continue;
      throw Error(ErrorKind::kUnsupported,
                  "\"" + binding.name + "\" is of a type that Triton has not");
    }
  }
}

}  // namespace

Signature signature_of(std::span<const EngineSpec* const> profiles) {
  Signature signature;
  std::vector<Range> ranges;
  for (const EngineSpec* spec : profiles) {
    refuse_what_no_server_calls(*spec);
    if (signature.inputs.empty()) {
      signature.inputs = tensors_of(spec->inputs);
      signature.outputs = tensors_of(spec->outputs);
    } else {
      merge(signature.inputs, tensors_of(spec->inputs));
      merge(signature.outputs, tensors_of(spec->outputs));
    }
    try {
      ranges.push_back(batches_of(*spec));
    } catch (const NoBatch& reason) {
      signature.why_no_batch = reason.why;
    }
  }
  if (!signature.why_no_batch.empty()) return signature;
  signature.max_batch = reach(ranges);
  if (signature.max_batch == 0) signature.why_no_batch = "a batch of 1 is in no shape profile";
  return signature;
}

}  // namespace tv::triton
