#pragma once
// A model that Triton serves: its file, loaded or built, and the configuration that fits it.

#include <memory>
#include <mutex>
#include <string>

#include "csrc/cli/network.h"
#include "integrations/triton/model_config.h"
#include "integrations/triton/parameters.h"
#include "integrations/triton/signature.h"

namespace tv::triton {

/// Where a model lies and what the server says of it.
struct ModelPlace {
  std::string folder;  ///< of the version
  Json config;
  bool auto_complete = false;
  std::map<std::string, std::string> defaults;  ///< of parameters, for all models
  int64_t usual_batch = 4;                      ///< of models that set no limit
};

/// Shared by the model's instances; thread-safe.
class ServedModel {
 public:
  /// Loads the file, building the engine of an ONNX or graph file or taking it from the cache.
  /// Throws Error.
  explicit ServedModel(const ModelPlace& place);

  const ModelConfig& config() const { return config_; }
  const Signature& signature() const { return signature_; }
  std::string description() const;

  /// The engines and their weights.
  std::shared_ptr<const cli::Network> network() const;
  /// After the device was lost under `lost`: loads the file again, once for all instances. Throws
  /// Error, also where the device was lost three times and no batch ran in between.
  void recover(const std::shared_ptr<const cli::Network>& lost);
  /// A batch ran.
  void worked();

 private:
  /// Loads `network_` and reads its signature.
  void read();
  std::shared_ptr<const cli::Network> load() const;
  cli::Network build(std::shared_ptr<Device> device) const;

  ModelConfig config_;
  std::string path_;
  Parameters parameters_;
  /// Of models that are built: the most rows that engines are built for; 0: as they are.
  int64_t batch_ = 0;
  Signature signature_;
  mutable std::mutex mutex_;
  std::shared_ptr<const cli::Network> network_;
  int losses_ = 0;
};

}  // namespace tv::triton
