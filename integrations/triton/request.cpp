#include "integrations/triton/request.h"

#include "csrc/cli/shapes.h"

namespace tv::triton {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::kUser, text); }

std::string shown(const std::vector<int64_t>& shape) { return cli::shape_text(shape); }

}  // namespace

void Request::read(const Signature& signature, bool batching) {
  batching_ = batching;
  bool cancelled = false;
  check(TRITONBACKEND_RequestIsCancelled(request_, &cancelled));
  if (cancelled) refuse("the request was cancelled");
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
  TRITONBACKEND_Input* given = nullptr;
  if (TRITONSERVER_Error* error =
          TRITONBACKEND_RequestInput(request_, input.name.c_str(), &given)) {
    TRITONSERVER_ErrorDelete(error);
    refuse(what + "it is missing");
  }
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  const int64_t* sizes = nullptr;
  uint32_t rank = 0, buffers = 0;
  uint64_t bytes = 0;
  check(TRITONBACKEND_InputProperties(given, nullptr, &type, &sizes, &rank, &bytes, &buffers));
  if (dtype_of(type) != input.dtype) refuse(what + "it is not of " + type_name(input.dtype));
  std::vector<int64_t> shape(sizes, sizes + rank);
  if (shape.size() != input.dims.size()) {
    refuse(what + "got " + shown(shape) + ", want " + std::to_string(input.dims.size()) +
           " dimensions");
  }
  for (const int64_t size : shape) {
    if (size < 0) refuse(what + "got " + shown(shape));
  }
  const int64_t want = cli::numel_of(shape) * size_bytes(input.dtype);
  if (bytes != static_cast<uint64_t>(want)) {
    refuse(what + "got " + std::to_string(bytes) + " bytes, want " + std::to_string(want) +
           " for " + shown(shape));
  }
  HostPieces pieces;
  for (uint32_t b = 0; b < buffers; ++b) {
    const void* data = nullptr;
    uint64_t size = 0;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t memory_id = 0;
    check(TRITONBACKEND_InputBuffer(given, b, &data, &size, &memory, &memory_id));
    if (memory == TRITONSERVER_MEMORY_GPU) refuse(what + "it is in CUDA memory; want the host's");
    // Inputs are read only; HostTensor serves outputs too.
    pieces.push_back({const_cast<void*>(data), static_cast<int64_t>(size)});
  }
  shapes_.push_back(std::move(shape));
  inputs_.push_back(std::move(pieces));
}

bool Request::is_wanted(const std::string& output) const {
  uint32_t count = 0;
  check(TRITONBACKEND_RequestOutputCount(request_, &count));
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    check(TRITONBACKEND_RequestOutputName(request_, i, &name));
    if (output == name) return true;
  }
  return count == 0;
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
    const int64_t size = cli::numel_of(shape) * size_bytes(of.dtype);
    if (!is_wanted(of.name)) {
      unread_.emplace_back(size);
      outputs.push_back({unread_.back().data(), size});
      continue;
    }
    TRITONBACKEND_Output* output = nullptr;
    check(TRITONBACKEND_ResponseOutput(response_, &output, of.name.c_str(), type_of(of.dtype),
                                       shape.data(), static_cast<uint32_t>(shape.size())));
    void* data = nullptr;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t memory_id = 0;
    check(TRITONBACKEND_OutputBuffer(output, &data, static_cast<uint64_t>(size), &memory,
                                     &memory_id));
    if (memory == TRITONSERVER_MEMORY_GPU) {
      refuse("output '" + of.name + "' is to be in CUDA memory; want the host's");
    }
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
