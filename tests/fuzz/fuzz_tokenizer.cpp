// libFuzzer target over tokenizer.json: an input is the file, a byte of 0, and a text to encode.
// Mutations are made in the values of the JSON, in its bytes, or in the text.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "csrc/tokenizer/tokenizer.h"
#include "runtime/base/error.h"
#include "tests/fuzz/fuzz_file.h"

namespace {

using nlohmann::json;

constexpr size_t kMostText = 4096;

struct Input {
  std::string_view file, text;
};

Input parts(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find('\0'), size);
  return {all.substr(0, end), all.substr(std::min(end + 1, size))};
}

/// Every value in a document, that itself first.
void collect(json& value, std::vector<json*>& found) {
  found.push_back(&value);
  if (!value.is_structured()) return;
  for (json& inner : value) collect(inner, found);
}

void mutate_text(std::string& text) {
  tv::fuzz::Bytes bytes(text.begin(), text.end());
  tv::fuzz::mutate(bytes, 8);
  text.assign(bytes.begin(), bytes.end());
}

/// Another value in the place of one: its string or number mutated, one of the document's, or,
/// in a list, one more or one less.
void mutate_value(json& document, std::minstd_rand& random) {
  std::vector<json*> values;
  collect(document, values);
  const auto any = [&](const auto& of) { return random() % of.size(); };
  json& value = *values[any(values)];
  if (value.is_array() && !value.empty() && random() % 2 == 0) {
    const auto at = value.begin() + static_cast<json::difference_type>(any(value));
    if (random() % 2 == 0) {
      value.erase(at);
    } else {
      value.push_back(json(*at));
    }
  } else if (value.is_string() && random() % 2 == 0) {
    mutate_text(value.get_ref<std::string&>());
  } else if (value.is_number_integer() && random() % 2 == 0) {
    value = value.get<int64_t>() + static_cast<int64_t>(random() % 3) - 1;
  } else {
    value = json(*values[any(values)]);  // a copy: it may lie in the other
  }
}

size_t put(const std::string& file, const std::string& text, uint8_t* data, size_t max_size) {
  if (file.size() + 1 + text.size() > max_size) return 0;
  uint8_t* const end = std::copy(file.begin(), file.end(), data);
  *end = 0;
  std::copy(text.begin(), text.end(), end + 1);
  return file.size() + 1 + text.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto [file, text] = parts(data, size);
  try {
    const auto tokenizer = tv::tokenizer::Tokenizer::parse(file);
    const std::vector<int32_t> tokens = tokenizer.encode(text.substr(0, kMostText));
    for (const int32_t token : tokens) {
      if (token < 0 || token > tokenizer.largest_id()) std::abort();
    }
    tv::tokenizer::TextStream stream(tokenizer, {});
    std::string said = tokenizer.decode(tokens);
    for (const int32_t token : tokens) said += stream.push(token);
    said += stream.end();
    // All that is said is UTF-8: dump throws for what is not.
    (void)json(said).dump();
  } catch (const tv::Error& error) {
    if (error.kind() != tv::ErrorKind::kUser) std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::minstd_rand random(seed);
  const auto [file, given_text] = parts(data, size);
  json document = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() || random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(given_text);
  if (random() % 4 == 0) {
    mutate_text(text);
  } else {
    mutate_value(document, random);
  }
  const size_t made =
      put(document.dump(-1, ' ', false, json::error_handler_t::replace), text, data, max_size);
  return made != 0 ? made : LLVMFuzzerMutate(data, size, max_size);
}
