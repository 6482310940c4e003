#pragma once
// A model's configuration (config.pbtxt), as the server hands it over in JSON.

#include <map>
#include <string>

#include "integrations/triton/signature.h"
#include "runtime/base/json.h"

namespace tv::triton {

class ModelConfig {
 public:
  /// Throws Error(kUser) for what the backend does not do, with the reason.
  explicit ModelConfig(const Json& json);

  const std::string& name() const { return name_; }
  const std::string& file_name() const { return file_; }      ///< default_model_filename; "": none
  int64_t max_batch_size() const { return max_batch_size_; }  ///< 0: shapes are whole
  const std::map<std::string, std::string>& parameters() const { return parameters_; }
  /// True where a request may have several responses.
  bool is_decoupled() const;
  /// True where it leaves it to the backend whether requests are put together.
  bool batching_is_open() const;

  /// Fills what is missing: inputs, outputs, max_batch_size, the transaction policy of a model that
  /// streams and, where requests can be put together and nothing is said of scheduling,
  /// dynamic_batching. `usual_batch`: the most rows of
  /// a model that sets no limit. Throws as `compare`.
  void complete(const Signature& signature, int64_t usual_batch);
  /// Throws Error(kUser), saying what to write, where the model is another than it says or has
  /// inputs that it does not name.
  void compare(const Signature& signature) const;
  Json json() const { return Json(fields_); }

 private:
  void refuse_what_is_not_done() const;
  void compare_given(const Signature& signature) const;
  void complete_tensors(const char* field, const std::vector<ServedTensor>& tensors);
  void compare_tensors(const char* field, const std::vector<ServedTensor>& tensors) const;
  [[noreturn]] void fail(const std::string& text) const;

  Json::Object fields_;
  std::string name_, file_;
  int64_t max_batch_size_ = 0;
  std::map<std::string, std::string> parameters_;
};

}  // namespace tv::triton
