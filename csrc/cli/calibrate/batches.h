#pragma once
// Batches of data in a folder, for calibration.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "csrc/cli/models/tensors.h"
#include "csrc/graph/graph.h"

namespace tv::cli {

/// An input of a network, and the shape of a file of it that says none.
struct BatchInput {
  std::string name;
  DType dtype = DType::kOther;
  std::vector<int64_t> usual_shape;
};

/// Where the tensors of a batch lie.
struct Batch {
  std::string place;                         ///< the .npz file, or the folder
  std::map<std::string, std::string> files;  ///< by input; empty: in the .npz file
};

/// The batches of a folder in the order of their names: of what it holds each .npz file is one,
/// whose arrays are the inputs, and each folder, with a file for each input: INPUT.npy, or its
/// bytes alone, INPUT.bin or INPUT.raw, with _ for what may not be in a file's name. Such files in
/// `folder` itself are the first batch. Throws Error(kUser) where there is none, and where the file
/// of an input is missing.
std::vector<Batch> find_batches(const std::string& folder, const std::vector<BatchInput>& inputs);

/// Reads a batch. Throws Error(kUser), naming file and input, for what is missing, damaged, of
/// another type, empty, or holds NaN.
Tensors read_batch(const Batch& batch, const std::vector<BatchInput>& inputs);

/// Elements as float32.
std::vector<float> floats_of(const Tensor& tensor);

}  // namespace tv::cli
