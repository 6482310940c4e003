#include "csrc/frontends/onnx/onnx_import.h"

#include <new>

#include "csrc/frontends/mapped_file.h"
#include "csrc/frontends/onnx/bake_masks.h"
#include "csrc/frontends/onnx/importer.h"
#include "csrc/settings.h"

namespace tv::onnx {

ImportOptions import_options(const Settings& settings) {
  ImportOptions options;
  options.unsigned_integers = !settings.truncate_long_and_double;
  options.sparse_weights = settings.sparse_weights;
  return options;
}

ImportedModel import_model(const std::shared_ptr<const Model>& model, ImportOptions options) {
  std::map<int32_t, int32_t> merged;
  std::set<std::string> shape_inputs;
  for (;;) {  // each round merges one symbol more, or leaves out more nodes
    try {
      ImportedModel imported = Importer(model, options, merged).run();
      if (!options.partial) bake_masks(imported);
      imported.shape_inputs.merge(shape_inputs);
      if (options.sparse_weights) mark_sparse(imported.graph, imported.weights);
      return imported;
    } catch (const LeaveOut& more) {
      options.left_out.insert(more.nodes.begin(), more.nodes.end());
      shape_inputs.insert(more.shape_inputs.begin(), more.shape_inputs.end());
      merged.clear();  // they number dimensions
    } catch (const SameSymbol& same) {
      if (!merged.emplace(same.replaced, same.kept).second || merged.size() > kMaxMerged) {
        throw Error(ErrorKind::kUser, "[onnx] dynamic sizes that must be equal cannot be merged");
      }
    } catch (const Refusal& refusal) {
      throw Error(ErrorKind::kUnsupported, "[onnx] " + refusal.reason);
    } catch (const std::bad_alloc&) {
      throw OutOfMemoryError("[onnx] the model takes more memory than there is");
    } catch (const std::out_of_range&) {
      throw Error(ErrorKind::kUser,
                  "[onnx] the model is not well formed: too few sizes or operands");
    }
  }
}

std::shared_ptr<const Model> read_model(const std::string& path, const std::string& directory) {
  std::shared_ptr<Model> model;
  {
    const WeightBytes file = map_file(path, /*most_gib=*/2, "[onnx] " + path);
    model = std::const_pointer_cast<Model>(parse_model(file.bytes));
  }
  const size_t slash = path.rfind('/');
  model->directory = !directory.empty()           ? directory
                     : slash == std::string::npos ? "."
                                                  : path.substr(0, slash + 1);
  return model;
}

ImportedModel import_file(const std::string& path, const ImportOptions& options) {
  return import_model(read_model(path, options.directory), options);
}

std::shared_ptr<const Model> read_bytes(std::span<const uint8_t> bytes,
                                        const std::string& directory) {
  auto model = std::const_pointer_cast<Model>(parse_model(bytes));
  model->directory = directory;
  model->external = !directory.empty();
  return model;
}

ImportedModel import_bytes(std::span<const uint8_t> bytes, const ImportOptions& options) {
  return import_model(read_bytes(bytes, options.directory), options);
}

std::vector<std::pair<std::string, std::string>> inputs_of(std::span<const uint8_t> bytes) {
  const auto model = parse_model(bytes);
  std::set<std::string> with_default;
  for (const auto& tensor : model->proto.graph().initializer()) with_default.insert(tensor.name());
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const auto& value : model->proto.graph().input()) {
    if (with_default.count(value.name())) continue;
    inputs.emplace_back(value.name(), type_name(value.type().tensor_type().elem_type()));
  }
  return inputs;
}

std::vector<std::string> translated_operators() {
  std::vector<std::string> names;
  for (const auto& [name, translation] : translations()) names.push_back(name);
  return names;
}

}  // namespace tv::onnx
