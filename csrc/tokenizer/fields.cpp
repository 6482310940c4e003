#include "csrc/tokenizer/fields.h"

#include <algorithm>

#include "csrc/tokenizer/unicode.h"
#include "runtime/base/error.h"

namespace tv::tokenizer {
namespace {

constexpr size_t kMostSteps = 256, kMostDepth = 8;

/// Adds the steps of a sequence, and of those within it, to `steps`.
void count_steps(const Json& section, const std::string& what, size_t depth, size_t& steps) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kUser, "[tokenizer] " + what + ": " + why);
  };
  const auto* object = section.get<Json::Object>();
  if (!object) return;  // its reader says so
  for (const char* name : {"normalizers", "pretokenizers", "decoders", "processors"}) {
    const auto found = object->find(name);
    const auto* inner = found == object->end() ? nullptr : found->second.get<Json::Array>();
    if (!inner) continue;
    if (depth == kMostDepth) {
      refuse("its sequences lie more than " + std::to_string(kMostDepth) + " deep");
    }
    if ((steps += inner->size()) > kMostSteps) {
      refuse("it has more than " + std::to_string(kMostSteps) + " steps");
    }
    for (const Json& step : *inner) count_steps(step, what, depth + 1, steps);
  }
}

/// What a file says, on one line.
std::string one_line(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string line;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (code >= 0x20 && code != 0x7F) {
      line += byte;
    } else {
      line += {'\\', 'x', kDigits[code / 16], kDigits[code % 16]};
    }
  }
  return line;
}

}  // namespace

Fields::Fields(const Json& json, std::string what)
    : object_(json.get<Json::Object>()), what_(std::move(what)) {
  if (!object_) refuse(std::string("got ") + json.type_name() + ", want an object");
}

void Fields::refuse(const std::string& why) const {
  throw Error(ErrorKind::kUser, "[tokenizer] " + what_ + ": " + one_line(why));
}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->second.is_null() ? nullptr : &found->second;
}

const Json& Fields::at(std::string_view name) const {
  const Json* found = find(name);
  if (!found) refuse("'" + std::string(name) + "' is missing");
  return *found;
}

const Json::Array& Fields::array(std::string_view name) const {
  const auto* found = at(name).get<Json::Array>();
  if (!found) refuse("'" + std::string(name) + "' is no array");
  return *found;
}

const std::string& Fields::text(std::string_view name) const {
  const auto* found = at(name).get<std::string>();
  if (!found) refuse("'" + std::string(name) + "' is no string");
  return *found;
}

char32_t Fields::character(std::string_view name) const {
  const std::string& found = text(name);
  if (found.empty() || length_at(found, 0) != found.size()) {
    refuse("'" + std::string(name) + "': got '" + found + "', want one character");
  }
  return character_at(found, 0);
}

bool Fields::flag(std::string_view name, bool otherwise) const {
  const Json* found = find(name);
  if (!found) return otherwise;
  const auto* value = found->get<bool>();
  if (!value) refuse("'" + std::string(name) + "' is no bool");
  return *value;
}

int64_t Fields::whole(std::string_view name) const {
  const auto* found = at(name).get<int64_t>();
  if (!found || *found < 0 || *found > INT32_MAX) {
    refuse("'" + std::string(name) + "' is no integer from 0 to 2^31 - 1");
  }
  return *found;
}

void Fields::only(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : *object_) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      refuse("'" + name + "' is not supported");
    }
  }
}

void check_steps(const Json& section, const std::string& what) {
  size_t steps = 0;
  count_steps(section, what, 0, steps);
}

}  // namespace tv::tokenizer
