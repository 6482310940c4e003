#include <gtest/gtest.h>

#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {
namespace {

std::string message_of(const std::string& text) {
  try {
    DeviceProfile::from_json(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

DeviceProfile full() {
  DeviceProfile p = DeviceProfile::builtin_default();
  p.name = "A \"GPU\" \\ \n é";
  p.memory_bytes = 150000000000;
  p.coop_matrices = {{16, 16, 16, "float16", "float16", "float32", "float32"}};
  p.coop_matrix2 = true;
  p.compute_units = 132;
  p.vendor_id = 0xffffffff;
  return p;
}

/// The JSON of `full()` with one field replaced, or removed where `value` is null.
std::string with(const std::string& field, const Json& value) {
  Json json = Json::parse(full().to_json());
  auto& object = std::get<Json::Object>(json.value);
  if (value.is_null()) {
    object.erase(field);
  } else {
    object[field] = value;
  }
  return json.dump();
}

TEST(Profile, RoundTrip) {
  EXPECT_EQ(DeviceProfile::from_json(full().to_json()), full());
  const DeviceProfile& standard = DeviceProfile::builtin_default();
  EXPECT_EQ(DeviceProfile::from_json(standard.to_json()), standard);
}

TEST(Profile, EveryFieldIsNeeded) {
  const Json json = Json::parse(full().to_json());
  for (const auto& [field, value] : *json.get<Json::Object>()) {
    EXPECT_NE(message_of(with(field, {})).find("\"" + field + "\" is missing"), std::string::npos);
  }
}

TEST(Profile, WrongFieldsAreNamed) {
  EXPECT_NE(message_of(with("vendor_id", "x")).find("\"vendor_id\" is wrong; got string"),
            std::string::npos);
  EXPECT_NE(message_of(with("vendor_id", int64_t{1} << 32)).find("out of range"),
            std::string::npos);
  EXPECT_NE(message_of(with("memory_bytes", -1)).find("\"memory_bytes\""), std::string::npos);
  EXPECT_NE(message_of(with("float16", 1)).find("want true or false"), std::string::npos);
  EXPECT_NE(message_of(with("type", "toaster")).find("toaster"), std::string::npos);
  EXPECT_NE(message_of(with("max_grid", Json::Array{1, 2})).find("want 3"), std::string::npos);
  EXPECT_NE(message_of(with("max_grid", Json::Array{1, 2, "3"})).find("max_grid[2]"),
            std::string::npos);
  EXPECT_NE(
      message_of(with("coop_matrices", Json::Array{Json::Object{}})).find("coop_matrices[0].m"),
      std::string::npos);
  EXPECT_NE(message_of(with("subgroup_size", 24)).find("subgroup_size"), std::string::npos);
  EXPECT_NE(message_of(with("colour", "red")).find("\"colour\" is not known"), std::string::npos);
  EXPECT_NE(message_of("[1]").find("got array"), std::string::npos);
  EXPECT_NE(message_of("{\"name\": \"x\",").find("not valid JSON"), std::string::npos);
}

TEST(Profile, FingerprintsSeparateWhatMustMatchFromWhatMayDiffer) {
  const DeviceProfile base = full();
  DeviceProfile other_driver = base;
  other_driver.driver_version += 1;
  EXPECT_EQ(other_driver.runs_on(), base.runs_on());
  EXPECT_NE(other_driver.tuned_for(), base.tuned_for());

  DeviceProfile other_limit = base;
  other_limit.max_shared_bytes = 16384;
  EXPECT_NE(other_limit.runs_on(), base.runs_on());
  EXPECT_EQ(other_limit.tuned_for(), base.tuned_for());

  DeviceProfile other_matrices = base;
  other_matrices.coop_matrices.clear();
  EXPECT_NE(other_matrices.runs_on(), base.runs_on());

  DeviceProfile other_extension = base;
  other_extension.coop_matrix2 = false;
  EXPECT_NE(other_extension.runs_on(), base.runs_on());

  DeviceProfile fewer_units = base;  // code does not depend on them
  fewer_units.compute_units = 66;
  EXPECT_EQ(fewer_units.runs_on(), base.runs_on());

  DeviceProfile other_board = base;  // the same model in another slot
  other_board.uuid = std::string(32, 'f');
  EXPECT_EQ(other_board.runs_on(), base.runs_on());
  EXPECT_EQ(other_board.tuned_for(), base.tuned_for());
}

TEST(Profile, FingerprintsAreTextThatFilesHold) {
  const DeviceProfile& device = DeviceProfile::builtin_default();
  EXPECT_EQ(
      device.tuned_for(),
      R"({"api_version": 4206592, "device_id": 0, "driver_id": 0, "driver_info": "", )"
      R"("driver_name": "", "driver_version": 0, "name": "built-in default", "vendor_id": 0})");
  EXPECT_TRUE(device.runs_on().starts_with(R"({"coop_matrices": [], "coop_matrix2": false, )"))
      << device.runs_on();
}

TEST(Profile, MatrixShapesMatchInEveryPart) {
  const DeviceProfile p = full();
  EXPECT_TRUE(p.multiplies(16, 16, 16, "float16", "float32"));
  EXPECT_FALSE(p.multiplies(16, 16, 16, "float16", "float16"));
  EXPECT_FALSE(p.multiplies(16, 16, 16, "bfloat16", "float32"));
  EXPECT_FALSE(p.multiplies(16, 8, 16, "float16", "float32"));
  EXPECT_FALSE(DeviceProfile::builtin_default().multiplies(16, 16, 16, "float16", "float32"));
}

TEST(Env, OnlyListedVariablesAreRead) {
  EXPECT_THROW(env("PATH"), Error);
  EXPECT_NO_THROW(env("TORCH_VULKAN_LOG"));
}

}  // namespace
}  // namespace tv
