#pragma once
// Mutations of JSON that leave it JSON: of values, names and lists anywhere in it.

#include <random>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz_file.h"

namespace tv::fuzz {

class JsonMutator {
 public:
  explicit JsonMutator(unsigned int seed) : random_(seed) {}

  /// Of a text of `size` bytes, in place; 0: it is no JSON, or became too large.
  size_t run(uint8_t* data, size_t size, size_t max_size) {
    Json json;
    try {
      json = Json::parse({reinterpret_cast<const char*>(data), size});
    } catch (const Error&) {
      return 0;
    }
    for (uint32_t i = 0, changes = 1 + below(3); i < changes; ++i) change(json);
    const std::string text = json.dump(below(2) == 0);
    if (text.size() > max_size) return 0;
    std::copy(text.begin(), text.end(), data);
    return text.size();
  }

 private:
  uint32_t below(size_t limit) { return static_cast<uint32_t>(random_() % limit); }

  void change(Json& json) {
    auto* object = std::get_if<Json::Object>(&json.value);
    auto* array = std::get_if<Json::Array>(&json.value);
    if (object != nullptr && !object->empty()) {
      change_object(*object);
    } else if (array != nullptr && !array->empty()) {
      change_array(*array);
    } else if (below(3) == 0) {
      json = scalar();
    } else if (auto* text = std::get_if<std::string>(&json.value)) {
      Bytes bytes(text->begin(), text->end());
      mutate(bytes, 8);
      text->assign(bytes.begin(), bytes.end());
    } else {
      json = number();
    }
  }

  void change_object(Json::Object& object) {
    const auto place = std::next(object.begin(), below(object.size()));
    switch (below(12)) {
      case 0:
        object.erase(place);
        return;
      case 1:  // under another name of the same object, or a new one
        object[std::next(object.begin(), below(object.size()))->first] = Json(place->second);
        return;
      case 2: {
        Json copy = place->second;
        object.insert_or_assign(place->first + "2", std::move(copy));
        return;
      }
      case 3:
        place->second = scalar();
        return;
      default:
        change(place->second);
    }
  }

  void change_array(Json::Array& array) {
    const size_t place = below(array.size());
    switch (below(6)) {
      case 0:
        array.erase(array.begin() + static_cast<std::ptrdiff_t>(place));
        return;
      case 1: {
        Json copy = array[place];
        array.push_back(std::move(copy));
        return;
      }
      default:
        change(array[place]);
    }
  }

  Json scalar() {
    switch (below(6)) {
      case 0:
        return {};
      case 1:
        return below(2) == 0;
      case 2:
        return "";
      case 3:
        return Json::Object{};
      case 4:
        return Json::Array{number()};
      default:
        return number();
    }
  }

  Json number() {
    static constexpr int64_t kWhole[] = {-1, 0, 1, 2, 3, 255, 1LL << 31, INT64_MIN, INT64_MAX};
    static constexpr double kReal[] = {-0.0, -1.5, 0.001, 12.5, 1e-320, 1e30, 1e308};
    if (below(2) == 0) return kWhole[below(std::size(kWhole))];
    return kReal[below(std::size(kReal))];
  }

  std::mt19937 random_;
};

}  // namespace tv::fuzz
