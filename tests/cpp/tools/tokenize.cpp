// Encodes and decodes by a tokenizer's file, for tests that compare with the tokenizers library.
// Usage: tokenize TOKENIZER.json <REQUESTS >ANSWERS; a request is JSON on a line: a text, answered
// by its tokens, or tokens, answered by their text and by the pieces in which it is streamed. The
// exit status is 1, and the reason on stderr, where the file is refused.

#include <cstdio>
#include <iostream>

#include "csrc/tokenizer/tokenizer.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace {

using tv::Json;
using tv::tokenizer::TextStream;
using tv::tokenizer::Tokenizer;

Json answer(const Tokenizer& tokenizer, const Json& request) {
  if (const auto* text = request.get<std::string>()) {
    Json::Array tokens;
    for (const int32_t token : tokenizer.encode(*text)) tokens.emplace_back(token);
    return tokens;
  }
  std::vector<int32_t> tokens;
  for (const Json& token : *request.get<Json::Array>()) {
    tokens.push_back(static_cast<int32_t>(*token.get<int64_t>()));
  }
  TextStream stream(tokenizer, {});
  Json::Array pieces;
  for (const int32_t token : tokens) pieces.emplace_back(stream.push(token));
  pieces.emplace_back(stream.end());
  return Json::Object{{"text", tokenizer.decode(tokens)}, {"pieces", pieces}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const Tokenizer tokenizer = Tokenizer::read(argv[1]);
    for (std::string line; std::getline(std::cin, line);) {
      std::puts(answer(tokenizer, Json::parse(line)).dump().c_str());
    }
  } catch (const tv::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
