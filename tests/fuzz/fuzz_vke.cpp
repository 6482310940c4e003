// libFuzzer target over the .vke reader and over what an engine is used for before a device sees
// it.
//
// Mutations are made in a section (metadata, SPIR-V, weights) and the sizes and the digest are then
// put right, so that they reach the parser and not only the check of the digest; now and then the
// file is left as it is. With TV_FUZZ_DEVICE=1 an engine whose modules spirv-val accepts is made
// and run on the device too (a driver's own faults show up then).

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "runtime/base/error.h"
#include "runtime/commands/encoder.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/weight_plan.h"
#include "runtime/spec/bind_shapes.h"
#include "runtime/spec/vke.h"
#include "runtime/vulkan/device.h"
#include "tests/cpp/kit/spirv_check.h"
#include "tests/fuzz/fuzz_file.h"

namespace {

using tv::fuzz::Bytes, tv::fuzz::kDigestBytes;

constexpr size_t kHeaderBytes = 64;
constexpr uint64_t kPage = 4096;

/// The header's numbers behind the magic and the versions.
struct Sizes {
  uint64_t file, metadata, spirv, weights_offset, weights;
};

uint64_t align(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

void sign(Bytes& bytes) {
  if (bytes.size() < kHeaderBytes + kDigestBytes) return;
  const uint64_t size = bytes.size();
  std::memcpy(bytes.data() + 16, &size, sizeof size);
  tv::fuzz::sign(bytes);
}

/// The sections of a file whose header is right; false for any other.
bool split(const Bytes& file, Bytes (&sections)[3]) {
  if (file.size() < kHeaderBytes + kDigestBytes) return false;
  Sizes sizes;
  std::memcpy(&sizes, file.data() + 16, sizeof sizes);
  const uint64_t body = file.size() - kDigestBytes;
  if (sizes.metadata > body || sizes.spirv > body || sizes.weights_offset > body) return false;
  const uint64_t spirv_at = align(kHeaderBytes + sizes.metadata, 8);
  if (spirv_at + sizes.spirv > sizes.weights_offset) return false;
  const auto at = [&](uint64_t offset) { return file.begin() + static_cast<ptrdiff_t>(offset); };
  sections[0].assign(at(kHeaderBytes), at(kHeaderBytes + sizes.metadata));
  sections[1].assign(at(spirv_at), at(spirv_at + sizes.spirv));
  sections[2].assign(at(sizes.weights_offset), at(body));
  return true;
}

Bytes join(const Bytes& header, const Bytes (&sections)[3]) {
  Bytes file(header.begin(), header.begin() + kHeaderBytes);
  Sizes sizes = {0, sections[0].size(), sections[1].size(), 0, sections[2].size()};
  file.insert(file.end(), sections[0].begin(), sections[0].end());
  file.resize(align(file.size(), 8));
  file.insert(file.end(), sections[1].begin(), sections[1].end());
  if (!sections[2].empty()) file.resize(align(file.size(), kPage));
  sizes.weights_offset = file.size();
  file.insert(file.end(), sections[2].begin(), sections[2].end());
  file.resize(file.size() + kDigestBytes);
  std::memcpy(file.data() + 16, &sizes, sizeof sizes);
  sign(file);
  return file;
}

/// Values that a caller may give: least, most, and between.
std::vector<std::vector<int64_t>> symbol_values(const tv::EngineSpec& spec) {
  std::vector<std::vector<int64_t>> all(3);
  for (const tv::Symbol& s : spec.symbols) {
    const int64_t most = std::min<int64_t>(s.max, int64_t{1} << 20);
    all[0].push_back(s.min);
    all[1].push_back(std::max(s.min, most));
    all[2].push_back(s.opt);
  }
  return all;
}

/// What a call does before it records: shapes, ranges, parameters and barriers.
void plan(const tv::EngineSpec& spec, std::span<const int64_t> symbols) {
  std::vector<std::vector<int64_t>> shapes;
  for (const tv::Binding& input : spec.inputs) {
    std::vector<int64_t>& shape = shapes.emplace_back();
    for (const tv::Expr& dim : input.shape) shape.push_back(dim.eval(symbols));
  }
  const std::vector<int64_t> bound = tv::bind_shapes(spec, shapes);
  tv::validate_at(spec, bound);
  std::vector<tv::Placement> placements(spec.buffers.size());
  for (uint32_t b = 0; b < placements.size(); ++b) placements[b] = {b, 0};
  tv::encode({.spec = spec,
              .program = spec.dispatches,
              .symbols = bound,
              .placements = placements,
              .max_grid = {65535, 65535, 65535},
              .modes = {}});
}

void run_on_device(const tv::EngineSpec& spec) {
  for (const auto& module : spec.modules) {
    if (!tv::spirv_problem(module).empty()) return;
  }
  static const std::shared_ptr<tv::Device> device = tv::open_device("");
  tv::Engine::create(device, spec);
}

void use(std::span<const uint8_t> bytes) {
  try {
    const tv::VkeContents contents = tv::from_vke(bytes);
    const tv::EngineSpec& spec = contents.spec;
    // What was read can be written and read again. (Compared as bytes: a nan differs from itself.)
    const Bytes written = tv::to_vke(spec);
    if (tv::to_vke(tv::from_vke(written).spec) != written) std::abort();
    std::vector<uint32_t> some;
    for (uint32_t w = 0; w < spec.weights.size(); w += 2) some.push_back(w);
    tv::plan_changed_weights(spec, some);
    for (const auto& symbols : symbol_values(spec)) {
      try {
        plan(spec, symbols);
      } catch (const tv::Error&) {
      }
    }
    static const bool on_device = std::getenv("TV_FUZZ_DEVICE") != nullptr;
    if (on_device) run_on_device(spec);
  } catch (const tv::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, data + size);
  use(bytes);
  sign(bytes);
  use(bytes);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::minstd_rand random(seed);
  Bytes file(data, data + size), sections[3];
  if (random() % 16 == 0 || !split(file, sections)) return LLVMFuzzerMutate(data, size, max_size);
  const unsigned pick = random() % 16;
  Bytes& section = sections[pick < 12 ? 0 : pick < 14 ? 1 : 2];
  tv::fuzz::mutate(section, 256);
  const Bytes result = join(file, sections);
  if (result.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(result.begin(), result.end(), data);
  return result.size();
}
