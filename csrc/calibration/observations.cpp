#include "csrc/calibration/observations.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv {
namespace {

constexpr const char* kFormat = "torch_vulkan.calibration";
constexpr int64_t kVersion = 4;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::kUser, "'" + name + "' holds " + why);
}

template <class T>
Json list_of(const std::vector<T>& numbers) {
  Json::Array list;
  list.reserve(numbers.size());
  for (const T number : numbers) list.emplace_back(static_cast<double>(number));
  return list;
}

Json object_of(const SeenTensor& tensor) {
  const Histogram& h = tensor.histogram;
  Json::Object made = {{"name", tensor.name},
                       {"width", h.width},
                       {"amax", h.amax},
                       {"counts", list_of(h.counts)},
                       {"zeros", h.zeros}};
  if (tensor.channels) {
    made["channels"] = Json::Object{{"of_product", tensor.channels->of_product},
                                    {"largest", list_of(tensor.channels->largest)},
                                    {"total", list_of(tensor.channels->total)},
                                    {"count", tensor.channels->count}};
  }
  return made;
}

/// Reads what the functions above write.
class StateReader {
 public:
  explicit StateReader(const Json& json) : object_(json.get<Json::Object>()) {
    if (!object_) fail();
  }

  template <class T>
  const T& get(const char* name) const {
    const T* found = json(name).get<T>();
    if (!found) fail();
    return *found;
  }

  bool has(const char* name) const { return object_->contains(name); }

  const Json& json(const char* name) const {
    const auto found = object_->find(name);
    if (found == object_->end()) fail();
    return found->second;
  }

  double number(const char* name) const { return number_of(json(name)); }

  template <class T>
  std::vector<T> numbers(const char* name) const {
    std::vector<T> made;
    for (const Json& each : get<Json::Array>(name)) made.push_back(static_cast<T>(number_of(each)));
    return made;
  }

  [[noreturn]] static void fail() {
    throw Error(ErrorKind::kUser, "it is no unfinished calibration");
  }

 private:
  static double number_of(const Json& json) {
    if (const auto* whole = json.get<int64_t>()) return static_cast<double>(*whole);
    const auto* number = json.get<double>();
    if (!number) fail();
    return *number;
  }

  const Json::Object* object_;
};

SeenTensor tensor_of(const Json& json) {
  const StateReader state(json);
  SeenTensor made{.name = state.get<std::string>("name"), .histogram = {}};
  Histogram& h = made.histogram;
  h.counts = state.numbers<double>("counts");
  h.width = state.number("width");
  h.amax = state.number("amax");
  h.zeros = state.number("zeros");
  const bool is_empty = h.counts.empty();
  const bool fits = is_empty ? h.width == 0 : h.width > 0 && h.counts.size() >= kHistogramBins / 2;
  if (!fits || h.counts.size() > kMostHistogramBins || h.amax < 0) StateReader::fail();
  if (!state.has("channels")) return made;
  const StateReader channels(state.json("channels"));
  made.channels = SeenChannels{.of_product = channels.get<bool>("of_product"),
                               .largest = channels.numbers<float>("largest"),
                               .total = channels.numbers<double>("total"),
                               .count = channels.get<int64_t>("count")};
  if (made.channels->largest.size() != made.channels->total.size() || made.channels->count <= 0) {
    StateReader::fail();
  }
  return made;
}

}  // namespace

std::string_view algorithm_of(RangeMethod method) {
  switch (method) {
    case RangeMethod::kEntropy:
      return "EntropyCalibration2";
    case RangeMethod::kMinmax:
      return "MinMaxCalibration";
    case RangeMethod::kPercentile:
    case RangeMethod::kMse:
      break;
  }
  return "LegacyCalibration";
}

std::string header_of(RangeMethod method) {
  return "TRT-101401-" + std::string(algorithm_of(method));
}

bool is_of_method(std::string_view header, RangeMethod method) {
  const auto without_2 = [](std::string_view name) {
    return name.ends_with('2') ? name.substr(0, name.size() - 1) : name;
  };
  const std::string_view rest = header.substr(std::min(header.find('-'), header.size() - 1) + 1);
  const std::string_view name = rest.substr(std::min(rest.find('-'), rest.size() - 1) + 1);
  return without_2(name) == without_2(algorithm_of(method));
}

SeenTensor& Observations::seen(const std::string& name) {
  const auto [at, fresh] = numbers_.try_emplace(name, tensors_.size());
  if (fresh) tensors_.push_back({.name = name, .histogram = {}});
  return tensors_[at->second];
}

void Observations::add(const std::string& name, const ObservedTensor& tensor) {
  SeenTensor& into = seen(name);
  try {
    into.histogram.add(tensor.elements);
  } catch (const Error& error) {
    refuse(name, error.what());
  }
  if (by_channels_ && tensor.channel_dim >= 0 && !tensor.elements.empty()) {
    add_channels(into, tensor);
  }
}

void Observations::add_channels(SeenTensor& seen, const ObservedTensor& tensor) const {
  const auto dim = static_cast<size_t>(tensor.channel_dim);
  const auto channels = static_cast<size_t>(tensor.shape[dim]);
  size_t inner = 1;
  for (const int64_t size : tensor.shape.subspan(dim + 1)) inner *= static_cast<size_t>(size);
  if (!seen.channels) {
    seen.channels = SeenChannels{.of_product = tensor.is_product,
                                 .largest = std::vector<float>(channels),
                                 .total = std::vector<double>(channels)};
  }
  SeenChannels& into = *seen.channels;
  if (into.largest.size() != channels) {
    refuse(seen.name, std::to_string(channels) + " channels, and " +
                          std::to_string(into.largest.size()) + " before");
  }
  const float* at = tensor.elements.data();
  const size_t outer = tensor.elements.size() / (channels * inner);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t c = 0; c < channels; ++c) {
      double total = 0;
      float most = into.largest[c];
      for (size_t i = 0; i < inner; ++i, ++at) {
        most = std::max(most, std::fabs(*at));
        total += static_cast<double>(*at);
      }
      into.largest[c] = most;
      into.total[c] += total;
    }
  }
  into.count += static_cast<int64_t>(outer * inner);
}

Calibration Observations::calibration(const RangeChoice& choice) const {
  constexpr double kSteps = kInt8Levels - 1;
  Calibration made{.header = header_of(choice.method), .scales = {}, .alpha = choice.smooth_quant};
  for (const SeenTensor& tensor : tensors_) {
    const double amax = tensor.histogram.largest(choice.method, choice.percentile);
    made.scales.emplace_back(tensor.name, static_cast<float>(amax / kSteps));
    if (!tensor.channels) continue;
    InputChannels facts;
    if (choice.smooth_quant && tensor.channels->of_product)
      facts.largest = tensor.channels->largest;
    if (choice.bias_correction) {
      for (const double total : tensor.channels->total) {
        facts.means.push_back(
            static_cast<float>(total / static_cast<double>(tensor.channels->count)));
      }
    }
    if (!facts.largest.empty() || !facts.means.empty()) made.channels.emplace(tensor.name, facts);
  }
  return made;
}

std::string UnfinishedCalibration::text() const {
  Json::Array tensors;
  for (const SeenTensor& tensor : seen.tensors_) tensors.push_back(object_of(tensor));
  return Json(Json::Object{{"format", kFormat},
                           {"version", kVersion},
                           {"model", model},
                           {"done", done},
                           {"by_channels", seen.by_channels_},
                           {"tensors", std::move(tensors)}})
      .dump();
}

UnfinishedCalibration UnfinishedCalibration::read(std::string_view text) {
  const Json json = Json::parse(text, "an unfinished calibration");
  const StateReader state(json);
  if (state.get<std::string>("format") != kFormat) StateReader::fail();
  if (state.get<int64_t>("version") != kVersion) {
    throw Error(ErrorKind::kUser, "it is of another version");
  }
  UnfinishedCalibration made{.model = state.get<std::string>("model"),
                             .done = state.get<int64_t>("done"),
                             .seen = Observations(state.get<bool>("by_channels"))};
  if (made.done < 0) StateReader::fail();
  for (const Json& each : state.get<Json::Array>("tensors")) {
    SeenTensor tensor = tensor_of(each);
    SeenTensor& into = made.seen.seen(tensor.name);
    into = std::move(tensor);
  }
  return made;
}

}  // namespace tv
