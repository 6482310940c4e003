#include "integrations/triton/server_tensors.h"

namespace tv::triton {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::kUser, text); }

}  // namespace

std::optional<GivenInput> find_input(TRITONBACKEND_Request* request, const std::string& name) {
  TRITONBACKEND_Input* input = nullptr;
  if (TRITONSERVER_Error* error = TRITONBACKEND_RequestInput(request, name.c_str(), &input)) {
    TRITONSERVER_ErrorDelete(error);
    return std::nullopt;
  }
  GivenInput given;
  const int64_t* sizes = nullptr;
  uint32_t rank = 0, buffers = 0;
  check(TRITONBACKEND_InputProperties(input, nullptr, &given.type, &sizes, &rank, &given.size_bytes,
                                      &buffers));
  given.shape.assign(sizes, sizes + rank);
  for (uint32_t b = 0; b < buffers; ++b) {
    const void* data = nullptr;
    uint64_t size = 0;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t memory_id = 0;
    check(TRITONBACKEND_InputBuffer(input, b, &data, &size, &memory, &memory_id));
    if (memory == TRITONSERVER_MEMORY_GPU) {
      refuse("input '" + name + "': it is in CUDA memory; want the host's");
    }
    // Inputs are read only; HostTensor serves outputs too.
    given.pieces.push_back({const_cast<void*>(data), static_cast<int64_t>(size)});
  }
  return given;
}

bool is_wanted(TRITONBACKEND_Request* request, const std::string& output) {
  uint32_t count = 0;
  check(TRITONBACKEND_RequestOutputCount(request, &count));
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    check(TRITONBACKEND_RequestOutputName(request, i, &name));
    if (output == name) return true;
  }
  return count == 0;
}

void* add_output(TRITONBACKEND_Response* response, const NewOutput& output) {
  TRITONBACKEND_Output* made = nullptr;
  check(TRITONBACKEND_ResponseOutput(response, &made, output.name.c_str(), output.type,
                                     output.shape.data(),
                                     static_cast<uint32_t>(output.shape.size())));
  void* data = nullptr;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t memory_id = 0;
  check(TRITONBACKEND_OutputBuffer(made, &data, static_cast<uint64_t>(output.size_bytes), &memory,
                                   &memory_id));
  if (memory == TRITONSERVER_MEMORY_GPU) {
    refuse("output '" + output.name + "' is to be in CUDA memory; want the host's");
  }
  return data;
}

}  // namespace tv::triton
