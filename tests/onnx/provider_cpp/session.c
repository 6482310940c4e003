// A session with the Vulkan provider from C: LIBRARY MODEL OPTION VALUE. Prints what the model
// makes of two rows of eight ones; errors as the runtime words them.

#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const kName = "VulkanExecutionProvider";
static const OrtApi* api;

static void check(OrtStatus* status) {
  if (!status) return;
  fprintf(stderr, "%d %s\n", (int)api->GetErrorCode(status), api->GetErrorMessage(status));
  exit(1);
}

static const OrtEpDevice* first_device(OrtEnv* env) {
  const OrtEpDevice* const* devices;
  size_t count;
  check(api->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(api->EpDevice_EpName(devices[i]), kName) == 0) return devices[i];
  }
  fprintf(stderr, "there is no device\n");
  exit(2);
}

static void run(OrtSession* session) {
  float ones[16];
  for (size_t i = 0; i < 16; ++i) ones[i] = 1;
  const int64_t shape[] = {2, 8};
  const char *const x = "x", *const y = "y";
  OrtMemoryInfo* memory;
  OrtValue *input, *output = NULL;
  float* made;
  OrtTensorTypeAndShapeInfo* info;
  size_t count;
  check(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  check(api->CreateTensorWithDataAsOrtValue(memory, ones, sizeof(ones), shape, 2,
                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input));
  check(api->Run(session, NULL, &x, (const OrtValue* const*)&input, 1, &y, 1, &output));
  check(api->GetTensorMutableData(output, (void**)&made));
  check(api->GetTensorTypeAndShape(output, &info));
  check(api->GetTensorShapeElementCount(info, &count));
  for (size_t i = 0; i < count; ++i) printf("%.9g ", made[i]);
  api->ReleaseTensorTypeAndShapeInfo(info);
  api->ReleaseValue(output);
  api->ReleaseValue(input);
  api->ReleaseMemoryInfo(memory);
}

int main(int count, char** arguments) {
  if (count != 5) return 2;
  api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  OrtEnv* env;
  OrtSessionOptions* options;
  OrtSession* session;
  check(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "session", &env));
  check(api->RegisterExecutionProviderLibrary(env, kName, arguments[1]));
  const OrtEpDevice* const device = first_device(env);
  const char* const keys[] = {"min_subgraph_size", "engine_cache_enable", arguments[3]};
  const char* const values[] = {"1", "0", arguments[4]};
  check(api->CreateSessionOptions(&options));
  check(api->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  check(api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, keys, values, 3));
  check(api->CreateSession(env, arguments[2], options, &session));
  run(session);
  api->ReleaseSession(session);
  api->ReleaseSessionOptions(options);
  check(api->UnregisterExecutionProviderLibrary(env, kName));
  api->ReleaseEnv(env);
  return 0;
}
