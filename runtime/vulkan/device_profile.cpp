#include "runtime/vulkan/device_profile.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv {

namespace {

constexpr const char* kTypes[] = {"other", "integrated", "discrete", "virtual", "cpu"};

/// Calls `f(name, member)` for each plain field. One list for reading and writing.
template <class Profile, class F>
void for_each_field(Profile& p, F&& f) {
  f("name", p.name);
  f("uuid", p.uuid);
  f("vendor_id", p.vendor_id);
  f("device_id", p.device_id);
  f("driver_id", p.driver_id);
  f("driver_version", p.driver_version);
  f("api_version", p.api_version);
  f("driver_name", p.driver_name);
  f("driver_info", p.driver_info);
  f("subgroup_size", p.subgroup_size);
  f("min_subgroup_size", p.min_subgroup_size);
  f("max_subgroup_size", p.max_subgroup_size);
  f("float16", p.float16);
  f("float16_controls", p.float16_controls);
  f("int64", p.int64);
  f("int16", p.int16);
  f("int8", p.int8);
  f("storage16", p.storage16);
  f("storage8", p.storage8);
  f("float64", p.float64);
  f("subgroup_size_control", p.subgroup_size_control);
  f("coop_matrix2", p.coop_matrix2);
  f("compute_units", p.compute_units);
  f("max_push_constants", p.max_push_constants);
  f("max_shared_bytes", p.max_shared_bytes);
  f("max_workgroup_invocations", p.max_workgroup_invocations);
  f("max_workgroup_size", p.max_workgroup_size);
  f("max_grid", p.max_grid);
  f("memory_bytes", p.memory_bytes);
  f("host_pointers", p.host_pointers);
}

template <class Shape, class F>
void for_each_coop_field(Shape& s, F&& f) {
  f("m", s.m);
  f("n", s.n);
  f("k", s.k);
  f("a", s.a);
  f("b", s.b);
  f("c", s.c);
  f("result", s.result);
}

Json to_value(const std::string& v) { return v; }
Json to_value(bool v) { return v; }
Json to_value(uint32_t v) { return v; }
Json to_value(uint64_t v) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(v < kMax ? v : kMax);
}
Json to_value(const uint32_t (&v)[3]) { return Json::Array{v[0], v[1], v[2]}; }

[[noreturn]] void fail(const std::string& field, const std::string& what) {
  throw Error(ErrorKind::kUser, "[device profile] field \"" + field + "\" " + what);
}

const Json& field_of(const Json::Object& object, std::string_view path, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) fail(std::string(path) + name, "is missing");
  return found->second;
}

template <class T>
const T& get(const Json& json, std::string_view field, const char* want) {
  const T* value = json.get<T>();
  if (!value)
    fail(std::string(field), std::string("is wrong; got ") + json.type_name() + ", want " + want);
  return *value;
}

uint64_t get_unsigned(const Json& json, const std::string& field, int64_t max) {
  const int64_t value = get<int64_t>(json, field, "an integer");
  if (value < 0 || value > max)
    fail(field,
         "is out of range; got " + std::to_string(value) + ", want 0 to " + std::to_string(max));
  return static_cast<uint64_t>(value);
}

void from_value(const Json& json, const std::string& field, std::string& v) {
  v = get<std::string>(json, field, "a string");
}
void from_value(const Json& json, const std::string& field, bool& v) {
  v = get<bool>(json, field, "true or false");
}
void from_value(const Json& json, const std::string& field, uint32_t& v) {
  v = static_cast<uint32_t>(get_unsigned(json, field, std::numeric_limits<uint32_t>::max()));
}
void from_value(const Json& json, const std::string& field, uint64_t& v) {
  v = get_unsigned(json, field, std::numeric_limits<int64_t>::max());
}
void from_value(const Json& json, const std::string& field, uint32_t (&v)[3]) {
  const auto& array = get<Json::Array>(json, field, "a list of three integers");
  if (array.size() != 3)
    fail(field, "is wrong; got " + std::to_string(array.size()) + " entries, want 3");
  for (size_t i = 0; i < 3; ++i) from_value(array[i], field + "[" + std::to_string(i) + "]", v[i]);
}

void check_unknown(const Json::Object& given, const Json& known, const std::string& path) {
  for (const auto& [name, unused] : given)
    if (!known.get<Json::Object>()->contains(name)) fail(path + name, "is not known");
}

Json to_value(const DeviceProfile& profile) {
  Json::Object object;
  for_each_field(profile, [&](const char* name, const auto& v) { object[name] = to_value(v); });
  object["type"] = kTypes[static_cast<size_t>(profile.type)];
  Json::Array shapes;
  for (const CoopMatShape& shape : profile.coop_matrices) {
    Json::Object entry;
    for_each_coop_field(shape, [&](const char* name, const auto& v) { entry[name] = to_value(v); });
    shapes.emplace_back(std::move(entry));
  }
  object["coop_matrices"] = std::move(shapes);
  return object;
}

void check_limits(const DeviceProfile& p) {
  const auto power_of_two = [](uint32_t v) { return v && !(v & (v - 1)) && v <= 1024; };
  if (!power_of_two(p.subgroup_size)) fail("subgroup_size", "is not a power of two up to 1024");
  if (p.min_subgroup_size > p.subgroup_size || !p.min_subgroup_size)
    fail("min_subgroup_size", "is not in 1 to subgroup_size");
  if (p.max_subgroup_size < p.subgroup_size) fail("max_subgroup_size", "is below subgroup_size");
  if (p.max_push_constants < 128) fail("max_push_constants", "is below 128, Vulkan's minimum");
  if (!p.max_workgroup_invocations) fail("max_workgroup_invocations", "is 0");
  for (int i = 0; i < 3; ++i) {
    if (!p.max_workgroup_size[i]) fail("max_workgroup_size", "has a 0");
    if (!p.max_grid[i]) fail("max_grid", "has a 0");
  }
}

}  // namespace

bool DeviceProfile::multiplies(uint32_t m, uint32_t n, uint32_t k, const std::string& input,
                               const std::string& sum) const {
  return std::any_of(coop_matrices.begin(), coop_matrices.end(), [&](const CoopMatShape& s) {
    return s.m == m && s.n == n && s.k == k && s.a == input && s.b == input && s.c == sum &&
           s.result == sum;
  });
}

std::string DeviceProfile::to_json() const { return to_value(*this).dump(/*indent=*/true) + "\n"; }

DeviceProfile DeviceProfile::from_json(const std::string& text) {
  const Json json = Json::parse(text, "device profile");
  const auto* object = json.get<Json::Object>();
  if (!object)
    throw Error(ErrorKind::kUser,
                std::string("[device profile] want an object of fields, got ") + json.type_name());
  DeviceProfile result;
  for_each_field(
      result, [&](const char* name, auto& v) { from_value(field_of(*object, "", name), name, v); });
  const auto& type = get<std::string>(field_of(*object, "", "type"), "type", "a string");
  size_t which = 0;
  while (which < std::size(kTypes) && type != kTypes[which]) ++which;
  if (which == std::size(kTypes))
    fail("type",
         "is wrong; got \"" + type + "\", want other, integrated, discrete, virtual or cpu");
  result.type = static_cast<DeviceType>(which);

  const auto& shapes =
      get<Json::Array>(field_of(*object, "", "coop_matrices"), "coop_matrices", "a list");
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string path = "coop_matrices[" + std::to_string(i) + "]";
    const auto& entry = get<Json::Object>(shapes[i], path, "an object");
    CoopMatShape& shape = result.coop_matrices.emplace_back();
    for_each_coop_field(shape, [&](const char* name, auto& v) {
      from_value(field_of(entry, path + ".", name), path + "." + name, v);
    });
  }
  check_unknown(*object, to_value(result), "");
  check_limits(result);
  return result;
}

const DeviceProfile& DeviceProfile::builtin_default() {
  static const DeviceProfile profile = [] {
    DeviceProfile p;
    p.name = "built-in default";
    p.type = DeviceType::kDiscrete;
    p.uuid = std::string(32, '0');
    p.api_version = (1u << 22) | (3u << 12);
    p.float16 = p.int64 = p.int16 = p.int8 = p.storage16 = p.storage8 = true;
    p.subgroup_size_control = true;
    p.max_shared_bytes = 32768;
    p.max_workgroup_invocations = 1024;
    p.max_workgroup_size[0] = p.max_workgroup_size[1] = 1024;
    p.max_grid[0] = 2147483647;
    p.memory_bytes = uint64_t{8} << 30;
    return p;
  }();
  return profile;
}

std::string DeviceProfile::runs_on() const {
  Json::Object object;
  for_each_field(*this, [&](const std::string& name, const auto& v) {
    static const char* kLeftOut[] = {"name",         "uuid",           "vendor_id",
                                     "device_id",    "driver_id",      "driver_name",
                                     "driver_info",  "driver_version", "api_version",
                                     "memory_bytes", "compute_units"};
    for (const char* left_out : kLeftOut)
      if (name == left_out) return;
    object[name] = to_value(v);
  });
  const Json all = to_value(*this);
  object["coop_matrices"] = all.get<Json::Object>()->at("coop_matrices");
  return Json(object).dump();
}

std::string DeviceProfile::tuned_for() const {
  return Json(Json::Object{{"vendor_id", vendor_id},
                           {"device_id", device_id},
                           {"name", name},
                           {"driver_id", driver_id},
                           {"driver_name", driver_name},
                           {"driver_info", driver_info},
                           {"driver_version", driver_version},
                           {"api_version", api_version}})
      .dump();
}

}  // namespace tv
