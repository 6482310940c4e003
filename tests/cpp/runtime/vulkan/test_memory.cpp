// Of device memory; test_process.cpp runs these with staged copies as well.

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/vulkan/device.h"
#include "runtime/vulkan/device_impl.h"
#include "runtime/vulkan/memory.h"

namespace tv {
namespace {

TEST(RuntimeMemory, WhatIsFreeIsPartOfTheDevices) {
  const auto device = open_device("");
  const auto free = free_memory_bytes(*device);
  ASSERT_EQ(free.has_value(), device->physical().memory_budget);
  if (free) {
    EXPECT_GT(*free, 0u);
    EXPECT_LE(*free, device->profile().memory_bytes);
  }
}

TEST(RuntimeMemory, WhatIsTooLargeSaysTheSizes) {
  const auto device = open_device("");
  try {
    const Allocation memory(*device, int64_t{1} << 50, MemoryUse::kDevice);
    FAIL() << "a PiB";
  } catch (const OutOfMemoryError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(" is out of memory: it has no 1073741824 MiB left ("), text.npos) << text;
    EXPECT_NE(text.find("; its memory is "), text.npos) << text;
    EXPECT_EQ(text.find(" MiB are free)") != text.npos,
              device->physical().memory_budget && !device->host_pointers())
        << text;
  }
  EXPECT_TRUE(Allocation(*device, 1 << 20, MemoryUse::kDevice));
}

}  // namespace
}  // namespace tv
