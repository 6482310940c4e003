#pragma once
// What the compiler needs to know about a device. It comes from a real device, a file, or the
// built-in default, so that partitioning and the dry run need neither a device nor a driver.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tv {

struct CoopMatShape {
  uint32_t m, n, k;
  std::string a, b, c, result;  ///< element types, e.g. "float16"
  bool operator==(const CoopMatShape&) const = default;
};

enum class DeviceType : uint8_t {
  kOther = 0,
  kIntegrated = 1,
  kDiscrete = 2,
  kVirtual = 3,
  kCpu = 4
};

struct DeviceProfile {
  std::string name;
  DeviceType type = DeviceType::kOther;
  std::string uuid;  ///< 32 hexadecimal digits; in no fingerprint
  uint32_t vendor_id = 0, device_id = 0;
  uint32_t driver_id = 0, driver_version = 0, api_version = 0;
  std::string driver_name, driver_info;

  uint32_t subgroup_size = 32, min_subgroup_size = 32, max_subgroup_size = 32;
  bool float16 = false;  ///< 16-bit float arithmetic
  /// On a kernel's request, float16 numbers are rounded to nearest and keep denormals.
  bool float16_controls = false;
  bool int64 = false, int16 = false, int8 = false;
  bool storage16 = false;  ///< 16-bit loads and stores
  bool storage8 = false;
  bool float64 = false;
  bool subgroup_size_control = false;
  std::vector<CoopMatShape> coop_matrices;  ///< VK_KHR_cooperative_matrix, subgroup scope
  bool coop_matrix2 = false;  ///< VK_NV_cooperative_matrix2 with workgroup scope and tensor layouts
  uint32_t compute_units = 0;  ///< shader cores that run workgroups; 0: the driver does not say
  uint32_t max_push_constants = 128;
  uint32_t max_shared_bytes = 16384;
  uint32_t max_workgroup_invocations = 128;
  uint32_t max_workgroup_size[3] = {128, 128, 64};
  uint32_t max_grid[3] = {65535, 65535, 65535};
  uint64_t memory_bytes = 0;   ///< of the heap that engines use
  bool host_pointers = false;  ///< a host pointer is a device address (lavapipe)

  /// Whether subgroups multiply m x n x k matrices of `input` and add them up in `sum`.
  bool multiplies(uint32_t m, uint32_t n, uint32_t k, const std::string& input,
                  const std::string& sum) const;
  bool is_cpu() const { return type == DeviceType::kCpu; }
  /// lavapipe silently ends every loop of an invocation once they made 65535 iterations together,
  /// nested ones included. Some are kept back for loops of fixed length.
  int64_t max_loop_iterations() const {
    return is_cpu() ? 60000 : std::numeric_limits<int64_t>::max();
  }
  bool operator==(const DeviceProfile&) const = default;

  std::string to_json() const;
  /// Throws Error(kUser) naming the field that is missing or wrong.
  static DeviceProfile from_json(const std::string& text);
  /// The device that the dry run assumes if none is named: a mid-range discrete GPU.
  static const DeviceProfile& builtin_default();

  /// Features and limits an engine's code depends on: must match where it runs.
  std::string runs_on() const;
  /// Vendor, device, driver and version that the tactics were chosen for: if they differ, there is
  /// a warning.
  std::string tuned_for() const;
};

}  // namespace tv
