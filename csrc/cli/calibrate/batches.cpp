#include "csrc/cli/calibrate/batches.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "csrc/cli/bench/exports.h"
#include "csrc/cli/tensors/npy.h"
#include "csrc/cli/tensors/npz.h"
#include "runtime/base/error.h"

namespace tv::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void no_batch(const std::string& message) {
  throw Error(ErrorKind::kUser, "[calibration] " + message);
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i ? ", '" : "'") + names[i] + "'";
  }
  return names.empty() ? "nothing" : text + (names.size() > kShown ? ", …" : "");
}

/// Names of what a folder holds, sorted, but for hidden ones.
std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  if (error) no_batch(folder + ": " + error.message());
  std::ranges::sort(names);
  return names;
}

/// The file of an input in a folder; throws where there are two.
std::optional<std::string> file_of(const std::string& folder, const std::string& input) {
  std::set<std::string> stems = {file_name_of(input)};
  if (input.find('/') == input.npos) stems.insert(input);
  std::vector<std::string> found;
  for (const std::string& stem : stems) {
    for (const char* suffix : {".npy", ".bin", ".raw"}) {
      const fs::path path = fs::path(folder) / (stem + suffix);
      std::error_code unknown;
      if (fs::is_regular_file(path, unknown)) found.push_back(path.string());
    }
  }
  if (found.size() > 1) {
    no_batch("input '" + input + "': got " + found[0] + " and " + found[1] + ", want one of them");
  }
  return found.empty() ? std::nullopt : std::optional(found[0]);
}

/// A folder as a batch; nothing where it has no file of any input.
std::optional<Batch> batch_in(const std::string& folder, const std::vector<BatchInput>& inputs) {
  Batch batch{.place = folder, .files = {}};
  std::string missing;
  for (const BatchInput& input : inputs) {
    if (const auto file = file_of(folder, input.name)) {
      batch.files.emplace(input.name, *file);
    } else if (missing.empty()) {
      missing = input.name;
    }
  }
  if (batch.files.empty()) return std::nullopt;
  if (!missing.empty()) {
    no_batch(folder + " has no file of the input '" + missing + "': want " + file_name_of(missing) +
             ".npy; it has " + listed(entries_of(folder)));
  }
  return batch;
}

Tensor tensor_of(const Batch& batch, const Npz* archive, const BatchInput& input) {
  if (!archive) {
    const std::string& path = batch.files.at(input.name);
    if (path.ends_with(".npy")) return read_npy(path, input.dtype);
    return read_raw(path, input.dtype, input.usual_shape);
  }
  if (!archive->has(input.name)) {
    no_batch(batch.place + " has no array of the input '" + input.name + "'; it has " +
             listed(archive->names()));
  }
  return npy_tensor(archive->array(input.name), batch.place + ": '" + input.name + "'",
                    input.dtype);
}

void check_tensor(const Tensor& tensor, const BatchInput& input, const std::string& place) {
  const std::string begin = place + ": input '" + input.name + "' ";
  if (tensor.dtype != input.dtype) {
    no_batch(begin + "holds " + std::string(tv::name(tensor.dtype)) + ", want " +
             std::string(tv::name(input.dtype)));
  }
  if (tensor.numel() == 0) no_batch(begin + "is empty");
  if (!is_float(tensor.dtype)) return;
  for (const float x : floats_of(tensor)) {
    if (std::isnan(x)) no_batch(begin + "holds NaN");
  }
}

}  // namespace

std::vector<Batch> find_batches(const std::string& folder, const std::vector<BatchInput>& inputs) {
  std::vector<Batch> batches;
  if (auto own = batch_in(folder, inputs)) batches.push_back(std::move(*own));
  for (const std::string& name : entries_of(folder)) {
    const std::string path = (fs::path(folder) / name).string();
    std::error_code unknown;
    if (fs::is_directory(path, unknown)) {
      auto batch = batch_in(path, inputs);
      if (!batch) {
        no_batch(path + " has no file of the input '" + inputs.at(0).name + "': want " +
                 file_name_of(inputs[0].name) + ".npy; it has " + listed(entries_of(path)));
      }
      batches.push_back(std::move(*batch));
    } else if (name.ends_with(".npz")) {
      batches.push_back({.place = path, .files = {}});
    }
  }
  if (!batches.empty()) return batches;
  std::vector<std::string> names;
  for (const BatchInput& input : inputs) names.push_back(input.name);
  no_batch(folder + " holds no batch: want .npz files, or folders with a .npy file for each of " +
           listed(names) + "; it has " + listed(entries_of(folder)));
}

Tensors read_batch(const Batch& batch, const std::vector<BatchInput>& inputs) {
  std::optional<Npz> archive;
  if (batch.files.empty()) archive.emplace(batch.place);
  Tensors tensors;
  for (const BatchInput& input : inputs) {
    Tensor tensor = tensor_of(batch, archive ? &*archive : nullptr, input);
    check_tensor(tensor, input, archive ? batch.place : batch.files.at(input.name));
    tensors.emplace(input.name, std::move(tensor));
  }
  return tensors;
}

std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> floats(static_cast<size_t>(tensor.numel()));
  if (tensor.dtype == DType::kF32) {
    if (!floats.empty()) {
      std::memcpy(floats.data(), tensor.bytes.data(), floats.size() * sizeof(float));
    }
    return floats;
  }
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = static_cast<float>(tensor.at(static_cast<int64_t>(i)));
  }
  return floats;
}

}  // namespace tv::cli
