#include "integrations/triton/served.h"

#include "integrations/triton/served_decoder.h"
#include "integrations/triton/served_model.h"

namespace tv::triton {

Parameters parameters_of(const ModelConfig& config, const ModelPlace& place, ModelKind kind) {
  std::map<std::string, std::string> given = config.parameters();
  given.merge(applicable(place.defaults, kind));  // what is there stays
  return read_parameters(given, place.folder, kind);
}

std::unique_ptr<Served> serve(const ModelPlace& place) {
  const ModelConfig config(place.config);
  if (config.file_name().empty() && is_decoder(place.folder)) {
    return std::make_unique<ServedDecoder>(place);
  }
  return std::make_unique<ServedModel>(place);
}

}  // namespace tv::triton
