#include "csrc/cli/bench/exports.h"

#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "csrc/cli/tensors/npy.h"
#include "csrc/cli/tensors/tensor_text.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace tv::cli {

using json = nlohmann::ordered_json;

void write_text(const std::string& path, const std::string& text) {
  const std::span<const uint8_t> piece(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  if (const std::string fault = write_file(path, {&piece, 1}); !fault.empty()) {
    throw Error(ErrorKind::kUser, "[export] " + path + ": " + fault);
  }
}

void export_times(const std::string& path, const BenchResult& result) {
  json list = json::array();
  for (const TimedCall& call : result.calls) {
    const CallTimes& t = call.times;
    const double queued = call.start_ms + t.queue_us / 1e3;
    const double uploaded = queued + t.upload_us / 1e3;
    const double computed = uploaded + t.compute_us / 1e3;
    const double downloaded = computed + t.download_us / 1e3;
    list.push_back({{"stream", call.stream},
                    {"startEnqMs", call.start_ms},
                    {"endEnqMs", queued},
                    {"startH2dMs", queued},
                    {"endH2dMs", uploaded},
                    {"startComputeMs", uploaded},
                    {"endComputeMs", computed},
                    {"startD2hMs", computed},
                    {"endD2hMs", downloaded},
                    {"enqMs", t.queue_us / 1e3},
                    {"h2dMs", t.upload_us / 1e3},
                    {"computeMs", t.compute_us / 1e3},
                    {"d2hMs", t.download_us / 1e3},
                    {"latencyMs", t.device_us() / 1e3},
                    {"hostMs", t.host_us / 1e3}});
  }
  write_text(path, list.dump(1) + "\n");
}

std::string file_name_of(const std::string& tensor) {
  std::string name = tensor;
  for (char& c : name) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-';
    if (!kept) c = '_';
  }
  return name;
}

void export_outputs(const std::string& path, const EngineSpec& spec,
                    const std::vector<Tensor>& outputs) {
  std::error_code error;
  if (path.ends_with('/') || std::filesystem::is_directory(path, error)) {
    std::filesystem::create_directories(path, error);
    for (size_t i = 0; i < outputs.size(); ++i) {
      write_npy(
          (std::filesystem::path(path) / (file_name_of(spec.outputs[i].name) + ".npy")).string(),
          outputs[i]);
    }
    return;
  }
  std::string text = "[";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const json name = spec.outputs[i].name;
    text += std::string(i ? "," : "") +
            "\n { \"name\" : " + name.dump(-1, ' ', false, json::error_handler_t::replace) +
            ", \"dimensions\" : \"" + shape_text(outputs[i].shape) + "\", \"dtype\" : \"" +
            std::string(tv::name(outputs[i].dtype)) + "\", \"values\" : [ ";
    for (int64_t e = 0, count = outputs[i].numel(); e < count; ++e) {
      text += (e ? ", " : "") + element_text(outputs[i], e);
    }
    text += " ] }";
  }
  write_text(path, text + "\n]\n");
}

void export_profile(const std::string& path, std::span<const LayerTime> layers, int64_t runs) {
  write_text(path, path.ends_with(".svg")         ? layer_picture(layers)
                   : path.ends_with("trace.json") ? layer_trace(layers)
                                                  : layer_json(layers, runs));
}

}  // namespace tv::cli
