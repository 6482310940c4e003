// The cache directory: counters, and its files.

#include "csrc/cache/engine_cache.h"
#include "csrc/cache/engine_key.h"
#include "csrc/counters.h"
#include "python/bindings/module/module.h"
#include "runtime/base/env.h"
#include "runtime/base/file.h"
#include "runtime/store/store.h"
#include "runtime/store/store_files.h"

namespace tv::bindings {
namespace {

std::span<const uint8_t> bytes_of(const py::bytes& data) {
  const std::string_view view = data;
  return {reinterpret_cast<const uint8_t*>(view.data()), view.size()};
}

py::dict stats() {
  const EngineCacheStats stats = engine_cache_stats();
  py::dict out;
  out["hit"] = stats.hits;
  out["miss"] = stats.misses;
  out["bad"] = stats.bad;
  out["evicted"] = stats.evicted;
  out["bypass"] = stats.bypassed;
  out["written"] = stats.writes;
  out["failed_writes"] = stats.failed_writes;
  out["reasons"] = stats.reasons;
  return out;
}

py::dict counters() {
  const BuildCounters& counters = build_counters();
  py::dict out;
  out["engines"] = counters.engines.load();
  out["conversions"] = counters.conversions.load();
  out["glslang"] = counters.glslang.load();
  return out;
}

py::list files(const std::string& dir) {
  py::list out;
  for (const std::string& kind : store_kinds(dir)) {
    for (const StoreFile& file : list_store(dir, kind)) {
      py::dict entry;
      entry["path"] = file.path;
      entry["kind"] = file.kind;
      entry["name"] = file.name;
      entry["size_bytes"] = file.size_bytes;
      entry["used"] = static_cast<double>(file.used_ns) * 1e-9;
      entry["bad"] = file.bad;
      entry["temporary"] = file.temporary;
      out.append(entry);
    }
  }
  return out;
}

}  // namespace

void bind_cache(py::module_& m) {
  m.def("cache_stats", &stats, "What became of the engines that this process asked for.");
  m.def("build_counters", &counters, "How much this process built: engines, nodes, kernels.");
  m.def("cache_files", &files, "Every file of a cache directory.");
  m.def("cache_entry_key", [](const std::string& path) { return py::bytes(entry_key(path)); });
  m.def(
      "cache_entry_fault",
      [](const py::bytes& data, const std::string& name) {
        return entry_fault(bytes_of(data), name);
      },
      "What is wrong with an entry, or \"\".");
  m.def("import_cache_entry",
        [](const std::string& dir, const std::string& kind, const std::string& name,
           const py::bytes& data) { import_entry(dir, kind, name, bytes_of(data)); });
  m.def("why_unsafe_cache", &why_unsafe_cache, py::arg("dir"), py::arg("is_system") = false);
  m.def("system_cache_dir", &system_cache_dir);
  m.def("builder_digest", &builder_digest);
}

}  // namespace tv::bindings
