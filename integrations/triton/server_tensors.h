#pragma once
// Tensors of requests and responses, where the server keeps them.

#include <optional>
#include <string>
#include <vector>

#include "integrations/triton/calls.h"
#include "runtime/engine/host_tensors.h"

namespace tv::triton {

struct GivenInput {
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> shape;
  uint64_t size_bytes = 0;
  HostPieces pieces;
};

/// A request's input; none where it has no such. Throws Error(kUser) for memory of CUDA's.
std::optional<GivenInput> find_input(TRITONBACKEND_Request* request, const std::string& name);

/// Whether the response is to have an output. Throws Error.
bool is_wanted(TRITONBACKEND_Request* request, const std::string& output);

struct NewOutput {
  std::string name;
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> shape;
  int64_t size_bytes = 0;
};
/// Adds an output to a response; its memory. Throws Error, also where the client wants it in
/// CUDA's.
void* add_output(TRITONBACKEND_Response* response, const NewOutput& output);

}  // namespace tv::triton
