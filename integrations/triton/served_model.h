#pragma once
// A model that Triton serves: its file, loaded or built, and the configuration that fits it.

#include <memory>
#include <string>

#include "csrc/cli/models/network.h"
#include "integrations/triton/loaded.h"
#include "integrations/triton/served.h"
#include "integrations/triton/signature.h"

namespace tv::triton {

class ServedModel : public Served {
 public:
  /// Loads the file, building the engine of an ONNX or graph file or taking it from the cache.
  /// Throws Error.
  explicit ServedModel(const ModelPlace& place);

  const ModelConfig& config() const override { return config_; }
  const Signature& signature() const { return signature_; }
  std::string description() const override;
  std::unique_ptr<ServedInstance> make_instance(TRITONBACKEND_ModelInstance* handle) override;

  /// The engines and their weights.
  std::shared_ptr<const cli::Network> network() const { return network_.get(); }
  /// As those of Loaded.
  void recover(const std::shared_ptr<const cli::Network>& lost) {
    network_.recover(lost, [this] { return load(); });
  }
  void worked() { network_.worked(); }

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
  Loaded<const cli::Network> network_;
};

}  // namespace tv::triton
