// Runs an ONNX model in a session of ONNX Runtime with the Vulkan provider, on inputs of ones, and
// prints the sum of each output.
//
//   run_session LIBRARY net.onnx [size of dynamic dimensions]
//
// LIBRARY: libonnxruntime_providers_vulkan.so, which onnxruntime_ep_vulkan.get_library_path()
// names. Models of float32 inputs alone. docs/onnxruntime.md says how it is built.

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr const char* kProvider = "VulkanExecutionProvider";

Ort::SessionOptions options_of(Ort::Env& env) {
  std::vector<Ort::ConstEpDevice> devices;
  for (const Ort::ConstEpDevice& device : env.GetEpDevices()) {
    if (std::string(device.EpName()) == kProvider) devices.push_back(device);
  }
  if (devices.empty()) throw std::runtime_error("ONNX Runtime lists no device of the provider");
  devices.resize(1);  // GPUs come first
  Ort::SessionOptions options;
  options.AppendExecutionProvider_V2(
      env, devices, std::unordered_map<std::string, std::string>{{"min_subgraph_size", "1"}});
  return options;
}

void run(Ort::Session& session, int64_t dynamic_size) {
  const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const std::vector<std::string> names = session.GetInputNames();
  const std::vector<std::string> results = session.GetOutputNames();
  std::vector<std::vector<float>> data(names.size());
  std::vector<Ort::Value> inputs;
  for (size_t i = 0; i < names.size(); ++i) {
    const Ort::TypeInfo type = session.GetInputTypeInfo(i);
    std::vector<int64_t> shape = type.GetTensorTypeAndShapeInfo().GetShape();
    for (int64_t& size : shape) size = size < 0 ? dynamic_size : size;
    const int64_t count =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    data[i].assign(static_cast<size_t>(count), 1.0F);
    inputs.push_back(Ort::Value::CreateTensor<float>(memory, data[i].data(), data[i].size(),
                                                     shape.data(), shape.size()));
  }
  std::vector<const char*> reads, writes;
  for (const std::string& name : names) reads.push_back(name.c_str());
  for (const std::string& name : results) writes.push_back(name.c_str());
  const std::vector<Ort::Value> outputs = session.Run(
      Ort::RunOptions(), reads.data(), inputs.data(), inputs.size(), writes.data(), writes.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const float* first = outputs[i].GetTensorData<float>();
    const size_t count = outputs[i].GetTensorTypeAndShapeInfo().GetElementCount();
    std::cout << results[i] << ": " << std::accumulate(first, first + count, 0.0) << "\n";
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "run_session LIBRARY net.onnx [size of dynamic dimensions]\n";
    return 2;
  }
  try {
    Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "run_session");
    env.RegisterExecutionProviderLibrary(kProvider, std::string(arguments[1]));
    Ort::Session session(env, arguments[2], options_of(env));
    run(session, count > 3 ? std::atoll(arguments[3]) : 1);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
