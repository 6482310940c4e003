#include "integrations/triton/generation_call.h"

#include <cstring>

#include "integrations/triton/generation_inputs.h"

namespace tv::triton {
namespace {

constexpr const char* kText = "text";
constexpr const char* kTokens = "tokens";
constexpr const char* kFinish = "finish_reason";

using OwnedResponse =
    std::unique_ptr<TRITONBACKEND_Response, void (*)(TRITONBACKEND_Response* response)>;

/// A tensor of one text, as BYTES are: its length in four bytes, and the text.
void add_text(TRITONBACKEND_Response* response, const char* name, const std::string& text) {
  const auto length = static_cast<uint32_t>(text.size());
  auto* data = static_cast<uint8_t*>(
      add_output(response, {.name = name,
                            .type = TRITONSERVER_TYPE_BYTES,
                            .shape = {1},
                            .size_bytes = static_cast<int64_t>(sizeof length + text.size())}));
  std::memcpy(data, &length, sizeof length);
  std::memcpy(data + sizeof length, text.data(), text.size());
}

}  // namespace

Signature generation_signature(bool has_tokenizer) {
  Signature signature{.inputs = generation_inputs(has_tokenizer),
                      .why_no_batch = "a decoder makes one text at a time",
                      .streams = true};
  if (has_tokenizer) signature.outputs.push_back({.name = kText, .dims = {1}, .text = true});
  signature.outputs.push_back({.name = kTokens, .dtype = DType::kI64, .dims = {-1}});
  signature.outputs.push_back({.name = kFinish, .dims = {1}, .text = true});
  return signature;
}

void GenerationCall::delete_factory(TRITONBACKEND_ResponseFactory* factory) {
  log_error(TRITONBACKEND_ResponseFactoryDelete(factory));
}

void GenerationCall::begin() {
  TRITONBACKEND_ResponseFactory* factory = nullptr;
  check(TRITONBACKEND_ResponseFactoryNew(&factory, request_));
  factory_.reset(factory);
  check_cancelled();
}

void GenerationCall::check_cancelled() const {
  bool cancelled = false;
  check(TRITONBACKEND_ResponseFactoryIsCancelled(factory_.get(), &cancelled));
  if (cancelled) throw Cancelled();
}

cli::GenerationRequest GenerationCall::read(const cli::GenerationInfo& info,
                                            const tokenizer::Tokenizer* tokenizer) const {
  return read_generation(request_, info, tokenizer);
}

void GenerationCall::give(const cli::Piece& piece) {
  tokens_.push_back(piece.token);
  text_ += piece.text;
  if (!decoupled_ && piece.finish == cli::Finish::kNotYet) return;
  send(piece.finish);
  tokens_.clear();
  text_.clear();
}

void GenerationCall::send(cli::Finish finish) {
  TRITONBACKEND_Response* made = nullptr;
  check(TRITONBACKEND_ResponseNewFromFactory(&made, factory_.get()));
  OwnedResponse response(made, [](TRITONBACKEND_Response* unsent) {
    log_error(TRITONBACKEND_ResponseDelete(unsent));
  });
  add_outputs(made, finish);
  const uint32_t flags = finish == cli::Finish::kNotYet ? 0 : TRITONSERVER_RESPONSE_COMPLETE_FINAL;
  check(TRITONBACKEND_ResponseSend(response.release(), flags, nullptr));
}

void GenerationCall::add_outputs(TRITONBACKEND_Response* response, cli::Finish finish) const {
  if (is_wanted(request_, kText)) add_text(response, kText, text_);
  if (is_wanted(request_, kTokens)) {
    const size_t bytes = tokens_.size() * sizeof(int64_t);
    void* data = add_output(response, {.name = kTokens,
                                       .type = TRITONSERVER_TYPE_INT64,
                                       .shape = {static_cast<int64_t>(tokens_.size())},
                                       .size_bytes = static_cast<int64_t>(bytes)});
    std::memcpy(data, tokens_.data(), bytes);
  }
  if (is_wanted(request_, kFinish)) add_text(response, kFinish, cli::name_of(finish));
}

void GenerationCall::fail(const std::exception& error) {
  TRITONSERVER_Error* text = error_of(error);
  TRITONBACKEND_Response* response = nullptr;
  TRITONSERVER_Error* failed = factory_
                                   ? TRITONBACKEND_ResponseNewFromFactory(&response, factory_.get())
                                   : TRITONBACKEND_ResponseNew(&response, request_);
  if (failed) {
    log_error(failed);
  } else {
    log_error(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, text));
  }
  TRITONSERVER_ErrorDelete(text);
}

}  // namespace tv::triton
