// What the server calls.

#include <memory>

#include "integrations/triton/served.h"

namespace tv::triton {
namespace {

/// What the server was started with for this backend; its own entries have names with dashes.
std::map<std::string, std::string> command_line(TRITONBACKEND_Model* model) {
  TRITONBACKEND_Backend* backend = nullptr;
  check(TRITONBACKEND_ModelBackend(model, &backend));
  TRITONSERVER_Message* message = nullptr;
  check(TRITONBACKEND_BackendConfig(backend, &message));  // the server's own
  const Json config = json_of(message);
  std::map<std::string, std::string> out;
  const auto* fields = config.get<Json::Object>();
  const auto found = fields ? fields->find("cmdline") : Json::Object::const_iterator{};
  if (!fields || found == fields->end()) return out;
  if (const auto* given = found->second.get<Json::Object>()) {
    for (const auto& [key, value] : *given) {
      if (const auto* text = value.get<std::string>()) out.emplace(key, *text);
    }
  }
  return out;
}

ModelPlace place_of(TRITONBACKEND_Model* model) {
  ModelPlace place;
  TRITONBACKEND_ArtifactType type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  const char* location = nullptr;
  check(TRITONBACKEND_ModelRepository(model, &type, &location));
  if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM) {
    throw Error(ErrorKind::kUnsupported, "want a model repository in the file system");
  }
  uint64_t version = 0;
  check(TRITONBACKEND_ModelVersion(model, &version));
  place.folder = std::string(location) + "/" + std::to_string(version);
  TRITONSERVER_Message* config = nullptr;
  check(TRITONBACKEND_ModelConfig(model, 1, &config));
  const std::unique_ptr<TRITONSERVER_Message, void (*)(TRITONSERVER_Message*)> owned(
      config,
      [](TRITONSERVER_Message* message) { log_error(TRITONSERVER_MessageDelete(message)); });
  place.config = json_of(config);
  check(TRITONBACKEND_ModelAutoCompleteConfig(model, &place.auto_complete));
  for (const auto& [key, text] : command_line(model)) {
    if (key == "default-max-batch-size") {
      const Json number = Json::parse(text, key);
      if (const auto* value = number.get<int64_t>()) place.usual_batch = *value;
    }
    if (key.find('-') == std::string::npos) place.defaults.emplace(key, text);
  }
  return place;
}

void set_config(TRITONBACKEND_Model* model, const Json& config) {
  const std::unique_ptr<TRITONSERVER_Message, void (*)(TRITONSERVER_Message*)> message(
      message_of(config),
      [](TRITONSERVER_Message* m) { log_error(TRITONSERVER_MessageDelete(m)); });
  check(TRITONBACKEND_ModelSetConfig(model, 1, message.get()));
}

}  // namespace
}  // namespace tv::triton

using tv::triton::check;
using tv::triton::guarded;
using tv::triton::Served;
using tv::triton::ServedInstance;

extern "C" {

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend*) {
  return guarded([] {
    uint32_t major = 0, minor = 0;
    check(TRITONBACKEND_ApiVersion(&major, &minor));
    if (major == TRITONBACKEND_API_VERSION_MAJOR) return;
    throw tv::Error(tv::ErrorKind::kUnsupported, "the server has version " + std::to_string(major) +
                                                     "." + std::to_string(minor) +
                                                     " of Triton's backend API, want 1");
  });
}

TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend*,
                                                      TRITONBACKEND_BackendAttribute* attributes) {
  // Else the server, where it has CUDA, would ask for KIND_GPU.
  return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
      attributes, TRITONSERVER_INSTANCEGROUPKIND_MODEL, 1, nullptr, 0);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return guarded([&] {
    const tv::triton::ModelPlace place = tv::triton::place_of(model);
    std::unique_ptr<Served> made = tv::triton::serve(place);
    if (place.auto_complete) tv::triton::set_config(model, made->config().json());
    tv::triton::log_info(made->description());
    check(TRITONBACKEND_ModelSetState(model, made.get()));
    made.release();
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelState(model, &state));
    delete static_cast<Served*>(state);
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return guarded([&] {
    TRITONBACKEND_Model* model = nullptr;
    check(TRITONBACKEND_ModelInstanceModel(instance, &model));
    void* state = nullptr;
    check(TRITONBACKEND_ModelState(model, &state));
    std::unique_ptr<ServedInstance> made = static_cast<Served*>(state)->make_instance(instance);
    check(TRITONBACKEND_ModelInstanceSetState(instance, made.get()));
    made.release();
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(instance, &state));
    delete static_cast<ServedInstance*>(state);
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests,
                                                       const uint32_t count) {
  void* state = nullptr;
  if (TRITONSERVER_Error* error = TRITONBACKEND_ModelInstanceState(instance, &state)) return error;
  static_cast<ServedInstance*>(state)->execute({requests, count});
  return nullptr;
}

}  // extern "C"
