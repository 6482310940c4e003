#pragma once
// A request to continue a text: what it asks for, and its responses.

#include <memory>
#include <string>
#include <vector>

#include "csrc/cli/generate/text_generation.h"
#include "integrations/triton/server_tensors.h"
#include "integrations/triton/signature.h"

namespace tv::triton {

/// What decoders take and give; prompts and answers as text with a tokenizer alone.
Signature generation_signature(bool has_tokenizer);

class GenerationCall {
 public:
  /// `decoupled`: a response for each token, else one at the end.
  GenerationCall(TRITONBACKEND_Request* request, bool decoupled)
      : request_(request), decoupled_(decoupled), factory_(nullptr, &delete_factory) {}

  /// Makes ready to respond. Throws Error, or Cancelled as `check_cancelled`.
  void begin();
  /// Throws Cancelled where the client does not want what is left.
  void check_cancelled() const;
  /// The inputs. Throws Error(kUser) that names the one that is wrong.
  cli::GenerationRequest read(const cli::GenerationInfo& info,
                              const tokenizer::Tokenizer* tokenizer) const;
  /// Sends a token, or keeps it for the one response; nothing comes behind the last. Throws Error.
  void give(const cli::Piece& piece);
  /// Ends the responses with an error.
  void fail(const std::exception& error);

 private:
  static void delete_factory(TRITONBACKEND_ResponseFactory* factory);
  void send(cli::Finish finish);
  void add_outputs(TRITONBACKEND_Response* response, cli::Finish finish) const;

  TRITONBACKEND_Request* request_;
  bool decoupled_;
  std::unique_ptr<TRITONBACKEND_ResponseFactory, decltype(&delete_factory)> factory_;
  std::vector<int64_t> tokens_;  ///< of the next response
  std::string text_;
};

}  // namespace tv::triton
