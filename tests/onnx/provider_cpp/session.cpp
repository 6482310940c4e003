// A program that uses ONNX Runtime's provider as its C++ API has it
// (tests/onnx/test_provider_cpp.py):
//
//   session LIBRARY MODEL OPTION VALUE
//
// registers the library, opens MODEL (x: float[n, 8]) on the provider's devices with one option,
// runs it with several sizes, and prints what it computed.

#include <onnxruntime_cxx_api.h>

#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr const char* kName = "VulkanExecutionProvider";
constexpr int64_t kWidth = 8;

void run(Ort::Session& session, int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows * kWidth));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  const int64_t shape[] = {rows, kWidth};
  const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const Ort::Value input =
      Ort::Value::CreateTensor<float>(memory, x.data(), x.size(), shape, std::size(shape));
  const char* in = "x";
  const char* out = "y";
  const std::vector<Ort::Value> results = session.Run(Ort::RunOptions(), &in, &input, 1, &out, 1);
  const size_t count = results[0].GetTensorTypeAndShapeInfo().GetElementCount();
  const float* y = results[0].GetTensorData<float>();
  for (size_t i = 0; i < count; ++i) std::printf("%.6g ", static_cast<double>(y[i]));
  std::printf("\n");
}

int work(char** arguments) {
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "test");
  env.RegisterExecutionProviderLibrary(kName, std::string(arguments[1]));
  std::vector<Ort::ConstEpDevice> devices;
  for (const Ort::ConstEpDevice& device : env.GetEpDevices()) {
    if (std::string(device.EpName()) == kName) devices.push_back(device);
  }
  if (devices.empty()) {
    std::fprintf(stderr, "there is no device\n");
    return 2;
  }
  devices.resize(1);
  {
    Ort::SessionOptions options;
    options.AddConfigEntry("session.disable_cpu_ep_fallback", "1");
    options.AppendExecutionProvider_V2(
        env, devices,
        std::unordered_map<std::string, std::string>{{"min_subgraph_size", "1"},
                                                     {"engine_cache_enable", "0"},
                                                     {arguments[3], arguments[4]}});
    Ort::Session session(env, arguments[2], options);
    for (const int64_t rows : {1, 5, 3, 5}) run(session, rows);
  }
  for (const char* text : {"junk{", "{}"}) {
    const auto fit = Ort::GetModelCompatibilityForEpDevices(devices, text);
    std::printf("%s\n", fit == OrtCompiledModelCompatibility_EP_UNSUPPORTED ? "unsupported" : "?");
  }
  env.UnregisterExecutionProviderLibrary(kName);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  try {
    return work(arguments);
  } catch (const Ort::Exception& error) {
    std::fprintf(stderr, "%d %s\n", error.GetOrtErrorCode(), error.what());
    return 1;
  }
}
