// Devices, the loader, forks, exit and the validation layer: much of it in processes of its own.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "runtime/vulkan/device_impl.h"
#include "tests/cpp/kit/own_process.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

/// A validation message of any test is a failure of the process.
class NoValidationMessages : public testing::Environment {
 public:
  void TearDown() override {
    const ValidationLog log = validation_log();
    EXPECT_EQ(log.count, 0U) << (log.messages.empty() ? "" : log.messages[0]);
  }
};
const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new NoValidationMessages);

TEST(RuntimeDevice, ListsDevicesBestFirst) {
  const auto devices = list_devices();
  ASSERT_FALSE(devices.empty());
  const auto rank = [](DeviceType t) {
    return t == DeviceType::kDiscrete     ? 0
           : t == DeviceType::kIntegrated ? 1
           : t == DeviceType::kVirtual    ? 2
           : t == DeviceType::kOther      ? 3
                                          : 4;
  };
  EXPECT_TRUE(std::is_sorted(devices.begin(), devices.end(),
                             [&](auto& a, auto& b) { return rank(a.type) < rank(b.type); }));
  for (const DeviceProfile& p : devices) {
    EXPECT_FALSE(p.name.empty());
    EXPECT_EQ(p.uuid.size(), 32U);
    EXPECT_GE(p.api_version, VK_API_VERSION_1_3);
    EXPECT_GE(p.max_push_constants, 128U);
    EXPECT_GE(p.memory_bytes, uint64_t{1} << 28);
    EXPECT_LE(p.min_subgroup_size, p.subgroup_size);
    EXPECT_TRUE(p.int64);
  }
}

TEST(RuntimeDevice, OpensByIndexUuidAndName) {
  const auto devices = list_devices();
  const auto first = open_device("0");
  EXPECT_EQ(profile(*first), devices[0]);
  if (!std::getenv("TORCH_VULKAN_DEVICE")) {
    EXPECT_EQ(open_device(""), first);
  }
  EXPECT_EQ(open_device(devices[0].uuid), first);
  std::string part = devices[0].name.substr(0, 5);
  std::transform(part.begin(), part.end(), part.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  EXPECT_EQ(open_device(part), first);
}

TEST(RuntimeDevice, SaysWhatThereIs) {
  const std::string name = list_devices()[0].name;
  for (const std::string wanted : {"99", "no such device"}) {
    const std::string text = error_of(ErrorKind::kUser, [&] { open_device(wanted); });
    const std::string want =
        "there is no device \"" + wanted + "\"; this machine has device 0: " + name;
    EXPECT_NE(text.find(want), std::string::npos) << text;
  }
}

TEST(RuntimeDevice, ReportsTheSubgroupOfTheVectorWidth) {
  const DeviceProfile p = list_devices().back();
  if (!p.is_cpu()) GTEST_SKIP() << "no CPU device";
  const char* width = std::getenv("LP_NATIVE_VECTOR_WIDTH");
  if (!width) GTEST_SKIP() << "the CPU has no 512-bit vectors";
  EXPECT_EQ(p.subgroup_size, static_cast<uint32_t>(std::atoi(width) / 32));
  const std::string cache = std::getenv("MESA_SHADER_CACHE_DIR");
  if (cache.find("torch_vulkan") != std::string::npos) {
    EXPECT_NE(cache.find(width), std::string::npos) << "widths share a cache";
  }
}

TEST(RuntimeProcess, DISABLED_DeviceByVariable) {
  EXPECT_NE(error_of(ErrorKind::kUser, [] { open_device(""); }).find("no device \"gpu nine\""),
            std::string::npos);
  EXPECT_NO_THROW(open_device("0")) << "what the caller names comes first";
}
TEST(RuntimeProcess, AVariableNamesTheDefaultDevice) {
  EXPECT_EQ(
      run_self("RuntimeProcess.DISABLED_DeviceByVariable", {{"TORCH_VULKAN_DEVICE", "gpu nine"}}),
      0);
}

TEST(RuntimeProcess, DISABLED_WithoutLoader) {
  const std::string text = error_of(ErrorKind::kDevice, [] { list_devices(); });
  EXPECT_NE(text.find("no Vulkan loader"), std::string::npos) << text;
  EXPECT_NE(text.find("apt-get install"), std::string::npos) << text;
}
TEST(RuntimeProcess, AMissingLoaderIsAnErrorThatSaysWhatToInstall) {
  EXPECT_EQ(run_self("RuntimeProcess.DISABLED_WithoutLoader",
                     {{"TORCH_VULKAN_LIBRARY", "/nonexistent/libvulkan.so"}}),
            0);
}

TEST(RuntimeProcess, DISABLED_WithoutDriver) {
  for (int i = 0; i < 2; ++i) {
    const std::string text = error_of(ErrorKind::kDevice, [] { list_devices(); });
    EXPECT_NE(text.find("mesa-vulkan-drivers"), std::string::npos) << text;
  }
}
TEST(RuntimeProcess, AMissingDriverIsAnErrorThatSaysWhatToInstall) {
  EXPECT_EQ(run_self("RuntimeProcess.DISABLED_WithoutDriver",
                     {{"VK_ICD_FILENAMES", "/nonexistent/icd.json"},
                      {"VK_DRIVER_FILES", "/nonexistent/icd.json"}}),
            0);
}

TEST(RuntimeProcess, DISABLED_UsersDriverVariables) {
  list_devices();
  EXPECT_STREQ(std::getenv("LP_NATIVE_VECTOR_WIDTH"), "128");
  EXPECT_STREQ(std::getenv("MESA_SHADER_CACHE_DIR"), "/tmp/of-the-user");
}
TEST(RuntimeProcess, DriverVariablesOfTheUserStay) {
  EXPECT_EQ(
      run_self("RuntimeProcess.DISABLED_UsersDriverVariables",
               {{"LP_NATIVE_VECTOR_WIDTH", "128"}, {"MESA_SHADER_CACHE_DIR", "/tmp/of-the-user"}}),
      0);
}

struct Doubler {
  Doubler() {
    SpecBuilder b(8);
    const uint32_t x = b.input("x"), y = b.output("y");
    b.step("twice", y, x, x, 1);
    engine = Engine::create(open_device(""), b.spec);
    weights = engine->prepare_weights({});
  }
  float run(float value) {
    std::vector<float> xs(8, value), ys(8);
    const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
    engine->run(*weights, {}, inputs, outputs);
    return ys[7];
  }
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const WeightSet> weights;
};

TEST(RuntimeProcess, AForkedChildGetsAClearError) {
  auto doubler = std::make_unique<Doubler>();
  ASSERT_EQ(doubler->run(3), 6);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang ends as a failure
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const Error& e) {
        return e.kind() == ErrorKind::kDevice &&
               std::string(e.what()).find("forked") != std::string::npos;
      }
      return false;
    };
    bool ok = refused([] { list_devices(); }) && refused([] { open_device(""); }) &&
              refused([&] { doubler->run(3); }) &&
              refused([&] { doubler->engine->prepare_weights({}); });
    doubler.reset();  // abandons the Vulkan objects
    std::exit(ok ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << "status " << status;
  EXPECT_EQ(doubler->run(4), 8) << "the parent goes on";
}

TEST(RuntimeProcess, DISABLED_ForkFirst) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    Doubler doubler;
    _exit(doubler.run(3) == 6 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
TEST(RuntimeProcess, AChildForkedBeforeTheFirstUseWorks) {
  EXPECT_EQ(run_self("RuntimeProcess.DISABLED_ForkFirst", {}), 0);
}

TEST(RuntimeProcess, DISABLED_ExitWithLiveEngines) {
  static Doubler global;                   // destroyed by a static destructor
  static Doubler* leaked = new Doubler();  // never
  EXPECT_EQ(global.run(1) + leaked->run(2), 6);
}
TEST(RuntimeProcess, ExitIsCleanWithLiveEngines) {
  // Handles that are abandoned on purpose are leaks to a sanitizer.
  for (const char* staging : {"0", "1"}) {
    EXPECT_EQ(run_self("RuntimeProcess.DISABLED_ExitWithLiveEngines",
                       {{"ASAN_OPTIONS", "detect_leaks=0"}, {"TORCH_VULKAN_STAGING", staging}}),
              0)
        << "staging " << staging;
  }
}

constexpr const char* kDeviceTests =
    "RuntimeEngine.*:RuntimeHazards.*:RuntimeMemory*:RuntimeScratch.*:RuntimeThreads.*";

TEST(RuntimeProcess, StagedCopiesPassTheSameTests) {
  if (in_child()) GTEST_SKIP() << "the process that it would start runs this";
  EXPECT_EQ(run_self(kDeviceTests, {{"TORCH_VULKAN_STAGING", "1"}}), 0);
}

TEST(RuntimeProcess, EngineTestsGiveNoValidationMessage) {
  if (in_child()) GTEST_SKIP() << "the process that it would start runs this";
  const std::string tests = kDeviceTests;
  EXPECT_EQ(run_self(tests, {{"TORCH_VULKAN_VALIDATION", "1"}}), 0);
  EXPECT_EQ(run_self(tests + ":EngineExamples.*",
                     {{"TORCH_VULKAN_VALIDATION", "1"}, {"TORCH_VULKAN_STAGING", "1"}}),
            0);
}

TEST(RuntimeProcess, DISABLED_ProvokeValidation) {
  const auto device = open_device("");
  ASSERT_TRUE(validation_log().active);
  ASSERT_EQ(validation_log().count, 0U);
  VkSemaphoreCreateInfo wrong{};  // no structure type
  VkSemaphore semaphore = VK_NULL_HANDLE;
  device->api().vkCreateSemaphore(device->api().device, &wrong, nullptr, &semaphore);
  EXPECT_GE(validation_log().count, 1U);
  EXPECT_FALSE(validation_log().messages.empty());
  device->api().vkDestroySemaphore(device->api().device, semaphore, nullptr);
  reset_validation_log();
  EXPECT_EQ(validation_log().count, 0U);
}
TEST(RuntimeProcess, TheValidationLayerIsHeard) {
  EXPECT_EQ(
      run_self("RuntimeProcess.DISABLED_ProvokeValidation", {{"TORCH_VULKAN_VALIDATION", "1"}}), 0);
}

}  // namespace
}  // namespace tv
