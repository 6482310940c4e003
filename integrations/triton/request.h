#pragma once
// One request: its tensors where the server keeps them, and its response.

#include <memory>
#include <string>
#include <vector>

#include "csrc/cli/tensors/tensor.h"
#include "integrations/triton/server_tensors.h"
#include "integrations/triton/signature.h"

namespace tv::triton {

class Request {
 public:
  explicit Request(TRITONBACKEND_Request* request) : request_(request) {}

  /// Finds the inputs. `batching`: dimension 0 counts rows of a batch, which all inputs have equal.
  /// Throws Error(kUser).
  void read(const Signature& signature, bool batching);
  /// Makes room for what the response needs of the outputs of these sizes, of which the first is
  /// replaced by the request's rows where it counts them; the second time nothing is left to do.
  /// Throws Error.
  void reserve(const Signature& signature, const std::vector<std::vector<int64_t>>& shapes);

  TRITONBACKEND_Request* handle() const { return request_; }
  int64_t rows() const { return rows_; }  ///< 1 where they are not counted
  const std::vector<std::vector<int64_t>>& shapes() const { return shapes_; }
  const HostPieces& input(size_t i) const { return inputs_[i]; }
  /// Where the response has an output; memory that nobody reads where it has not.
  const HostTensor& output(size_t i) const { return outputs_[i]; }
  /// Sizes of inputs that requests of a batch have in common.
  std::vector<int64_t> key() const;

  /// Sends the response, an error if one is given. The request stays until it is released.
  void send(TRITONSERVER_Error* error);
  bool is_sent() const { return sent_; }

 private:
  void read_input(const ServedTensor& input);
  void make_response();

  TRITONBACKEND_Request* request_;
  TRITONBACKEND_Response* response_ = nullptr;
  bool batching_ = false, sent_ = false;
  int64_t rows_ = 1;
  std::vector<std::vector<int64_t>> shapes_;  ///< of inputs
  std::vector<HostPieces> inputs_;
  std::vector<HostTensor> outputs_;
  std::vector<cli::AlignedBytes> unread_;
};

}  // namespace tv::triton
