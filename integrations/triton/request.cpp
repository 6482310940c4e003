#include "integrations/triton/request.h"

#include "csrc/cli/text/shapes.h"

namespace tv::triton {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::kUser, text); }

std::string shown(const std::vector<int64_t>& shape) { return cli::shape_text(shape); }

}  // namespace

void Request::read(const Signature& signature, bool batching) {
  batching_ = batching;
  bool cancelled = false;
  check(TRITONBACKEND_RequestIsCancelled(request_, &cancelled));
  if (cancelled) throw Cancelled();
  for (const ServedTensor& input : signature.inputs) read_input(input);
  if (!batching) return;
  rows_ = shapes_[0][0];
  if (rows_ < 1) refuse("input '" + signature.inputs[0].name + "' has no rows, want 1 or more");
  for (size_t i = 1; i < shapes_.size(); ++i) {
    if (shapes_[i][0] == rows_) continue;
    refuse("input '" + signature.inputs[i].name + "' has " + std::to_string(shapes_[i][0]) +
           " rows, '" + signature.inputs[0].name + "' " + std::to_string(rows_));
  }
}

void Request::read_input(const ServedTensor& input) {
  const std::string what = "input '" + input.name + "': ";
  std::optional<GivenInput> given = find_input(request_, input.name);
  if (!given) refuse(what + "it is missing");
  const std::vector<int64_t>& shape = given->shape;
  if (dtype_of(given->type) != input.dtype) refuse(what + "it is not of " + type_name(input.dtype));
  if (shape.size() != input.dims.size()) {
    refuse(what + "got " + shown(shape) + ", want " + std::to_string(input.dims.size()) +
           " dimensions");
  }
  for (const int64_t size : shape) {
    if (size < 0) refuse(what + "got " + shown(shape));
  }
  const int64_t want = cli::bytes_of(shape, input.dtype);
  if (given->size_bytes != static_cast<uint64_t>(want)) {
    refuse(what + "got " + std::to_string(given->size_bytes) + " bytes, want " +
           std::to_string(want) + " for " + shown(shape));
  }
  shapes_.push_back(std::move(given->shape));
  inputs_.push_back(std::move(given->pieces));
}

void Request::make_response() {
  if (!response_) check(TRITONBACKEND_ResponseNew(&response_, request_));
}

void Request::reserve(const Signature& signature, const std::vector<std::vector<int64_t>>& shapes) {
  if (!outputs_.empty()) return;
  make_response();
  std::vector<HostTensor> outputs;
  for (size_t o = 0; o < shapes.size(); ++o) {
    const ServedTensor& of = signature.outputs[o];
    std::vector<int64_t> shape = shapes[o];
    if (batching_) shape[0] = rows_;
    const int64_t size = cli::bytes_of(shape, of.dtype);
    if (!is_wanted(request_, of.name)) {
      unread_.emplace_back(size);
      outputs.push_back({unread_.back().data(), size});
      continue;
    }
    void* data = add_output(response_, {.name = of.name,
                                        .type = type_of(of.dtype),
                                        .shape = std::move(shape),
                                        .size_bytes = size});
    outputs.push_back({data, size});
  }
  outputs_ = std::move(outputs);
}

std::vector<int64_t> Request::key() const {
  std::vector<int64_t> key;
  for (const std::vector<int64_t>& shape : shapes_) {
    key.push_back(static_cast<int64_t>(shape.size()));
    key.insert(key.end(), shape.begin() + (batching_ ? 1 : 0), shape.end());
  }
  return key;
}

void Request::send(TRITONSERVER_Error* error) {
  sent_ = true;
  if (!response_) {
    if (TRITONSERVER_Error* failed = TRITONBACKEND_ResponseNew(&response_, request_)) {
      log_error(failed);
      if (error) TRITONSERVER_ErrorDelete(error);
      return;
    }
  }
  log_error(TRITONBACKEND_ResponseSend(response_, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
  if (error) TRITONSERVER_ErrorDelete(error);
}

}  // namespace tv::triton
