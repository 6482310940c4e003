#pragma once
// Names of a file's main graph, by which nodes make and read them.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "csrc/frontends/onnx/file/model.h"
#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::onnx {

struct FileNames {
  std::map<std::string, int32_t> maker;                 ///< nodes, by number
  std::map<std::string, std::vector<int32_t>> readers;  ///< likewise, ascending
  std::set<std::string> outputs, initializers;          ///< of the graph
};

/// `nodes`: of a partial import of the model.
FileNames names_of(const std::vector<FileNode>& nodes, const Model& model);

}  // namespace tv::onnx
