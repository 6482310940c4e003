#pragma once
// A model of any kind, and an instance of it, as the server knows them.

#include <map>
#include <memory>
#include <span>
#include <string>

#include "integrations/triton/calls.h"
#include "integrations/triton/model_config.h"
#include "integrations/triton/parameters.h"

namespace tv::triton {

/// Where a model lies and what the server says of it.
struct ModelPlace {
  std::string folder;  ///< of the version
  Json config;
  bool auto_complete = false;
  std::map<std::string, std::string> defaults;  ///< of parameters, for all models
  int64_t usual_batch = 4;                      ///< of models that set no limit
};

/// The parameters that a model's configuration gives, over the defaults.
Parameters parameters_of(const ModelConfig& config, const ModelPlace& place, ModelKind kind);

/// One call at a time.
class ServedInstance {
 public:
  virtual ~ServedInstance() = default;
  /// Answers all requests, with errors where they are wrong, and releases them.
  virtual void execute(std::span<TRITONBACKEND_Request* const> requests) noexcept = 0;
};

/// Shared by the model's instances; thread-safe.
class Served {
 public:
  virtual ~Served() = default;
  /// Completed where the server asked for that.
  virtual const ModelConfig& config() const = 0;
  virtual std::string description() const = 0;
  virtual std::unique_ptr<ServedInstance> make_instance(TRITONBACKEND_ModelInstance* handle) = 0;
};

/// Loads what lies there. Throws Error.
std::unique_ptr<Served> serve(const ModelPlace& place);

}  // namespace tv::triton
