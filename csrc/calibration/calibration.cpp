#include "csrc/calibration/calibration.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>

#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace tv {
namespace {

constexpr std::array<std::string_view, 4> kAlgorithms = {
    "EntropyCalibration2", "EntropyCalibration", "MinMaxCalibration", "LegacyCalibration"};
constexpr size_t kShown = 60;              // bytes of a line in a message
constexpr uint64_t kLargest = 256U << 20;  // bytes of a file
constexpr std::string_view kOwn = "#torch_vulkan ", kAlpha = "smooth_quant", kMost = "largest",
                           kMeans = "means", kRequired = "required ";

/// Whether bytes are characters of UTF-8, by their first bits.
bool is_utf8(std::string_view text) {
  size_t rest = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool goes_on = (byte & 0xC0) == 0x80;
    if (goes_on != (rest > 0) || byte >= 0xF5 || byte == 0xC0 || byte == 0xC1) return false;
    rest = goes_on ? rest - 1 : byte < 0x80 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  }
  return rest == 0;
}

/// Text as it is; of what is none, and of characters that move a terminal, the bytes.
std::string printable(std::string_view text) {
  const bool is_text = is_utf8(text);
  std::string made;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_ascii = byte >= 0x20 && byte < 0x7F;
    if (is_ascii || (is_text && byte >= 0x80)) {
      made += c;
    } else {
      constexpr const char* kDigits = "0123456789abcdef";
      made += std::string("\\x") + kDigits[byte >> 4] + kDigits[byte & 15];
    }
  }
  return made;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  Calibration run() {
    Calibration found;
    found.header = next();
    check_header(found.header);
    while (!text_.empty()) {
      const std::string_view line = next();
      if (line.empty() && text_.empty()) break;
      auto [name, scale] = entry(line);
      const auto [at, fresh] = known_.emplace(name, scale);
      if (!fresh && at->second != scale) {
        fail(shown(name) + " is there twice, with two scales");
      }
      if (name.starts_with(kOwn)) {
        add_fact(found, std::string_view(name).substr(kOwn.size()), scale);
      } else {
        found.scales.emplace_back(std::move(name), scale);
      }
    }
    const auto smooths = [](const auto& entry) { return !entry.second.largest.empty(); };
    if (!found.alpha && std::ranges::any_of(found.channels, smooths)) {
      fail("the line '" + std::string(kOwn) + std::string(kAlpha) + "' is missing");
    }
    return found;
  }

 private:
  /// The next line, without its end.
  std::string_view next() {
    ++line_;
    const size_t end = std::min(text_.find('\n'), text_.size());
    std::string_view line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(ErrorKind::kUser,
                "[calibration] " + what_ + ", line " + std::to_string(line_) + ": " + reason);
  }

  static std::string shown(std::string_view text) {
    size_t end = std::min(kShown, text.size());
    const auto goes_on = [&] { return end < text.size() && (text[end] & 0xC0) == 0x80; };
    while (end > 0 && goes_on()) --end;  // not inside of a character of UTF-8
    return "'" + printable(text.substr(0, end)) + (text.size() > kShown ? "…'" : "'");
  }

  /// "TRT-8400-EntropyCalibration2", 8.4.0, or "TRT-101401-…", 10.14.1.
  void check_header(std::string_view header) const {
    const std::string want =
        "want a calibration cache of TensorRT's, which begins like TRT-8601-EntropyCalibration2";
    constexpr std::string_view kBegin = "TRT-";
    if (!header.starts_with(kBegin)) fail("got " + shown(header) + ", " + want);
    const std::string_view rest = header.substr(kBegin.size());
    int64_t version = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), version);
    const auto digits = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || digits >= rest.size() || rest[digits] != '-') {
      fail("got " + shown(header) + ", " + want);
    }
    const int64_t major = version >= 100000 ? version / 10000 : version / 1000;
    if (major < 5 || major > 10) {
      fail("got " + shown(header) + ", of another version; want one of TensorRT 5 to 10");
    }
    const std::string_view algorithm = rest.substr(digits + 1);
    for (const std::string_view known : kAlgorithms) {
      if (algorithm == known) return;
    }
    std::string names;
    for (const std::string_view known : kAlgorithms) {
      names += (names.empty() ? "" : ", ") + std::string(known);
    }
    fail("got the algorithm " + shown(algorithm) + ", want one of " + names);
  }

  /// "name: 3c008912"; names may hold anything, ": " too.
  std::pair<std::string, float> entry(std::string_view line) const {
    const size_t colon = line.rfind(": ");
    const std::string_view bits = colon == line.npos ? std::string_view() : line.substr(colon + 2);
    uint32_t word = 0;
    const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), word, 16);
    const bool whole = error == std::errc() && end == bits.data() + bits.size() &&
                       (bits.size() == 8 || bits == "0");
    if (colon == 0 || !whole) {
      fail("got " + shown(line) + ", want a name, ': ' and 8 hexadecimal digits" +
           (text_.empty() ? "; the file is cut short" : ""));
    }
    const std::string name(line.substr(0, colon));
    const float scale = std::bit_cast<float>(word);
    if (!std::isfinite(scale) || std::signbit(scale)) {
      fail("the scale of " + shown(name) + " is " + std::to_string(scale) +
           ", want a finite number from 0 up");
    }
    return {name, scale};
  }

  /// A line of this project's, without `kOwn`.
  void add_fact(Calibration& found, std::string_view fact, float value) const {
    if (fact == kAlpha) {
      if (value > 1) fail("smooth_quant is " + std::to_string(value) + ", want 0 to 1");
      found.alpha = value;
      return;
    }
    if (fact.starts_with(kRequired) && fact.size() > kRequired.size()) {
      found.required.emplace(fact.substr(kRequired.size()));
      return;
    }
    const size_t first = std::min(fact.find(' '), fact.size());
    const size_t second = std::min(fact.find(' ', first + 1), fact.size());
    const std::string_view kind = fact.substr(0, first);
    if ((kind != kMost && kind != kMeans) || second == fact.size()) {
      fail("got " + shown(std::string(kOwn) + std::string(fact)) +
           ", which another version wrote: calibrate again");
    }
    InputChannels& channels = found.channels[std::string(fact.substr(second + 1))];
    std::vector<float>& numbers = kind == kMost ? channels.largest : channels.means;
    numbers = floats(fact.substr(first + 1, second - first - 1));
    const auto wrong = [&](float x) {
      return !std::isfinite(x) || (kind == kMost && std::signbit(x));
    };
    if (numbers.empty() || std::ranges::any_of(numbers, wrong)) {
      fail("the numbers of " + shown(fact.substr(second + 1)) + " want to be finite" +
           (kind == kMost ? ", from 0 up" : ""));
    }
  }

  /// Of their bits, 8 hexadecimal digits each.
  std::vector<float> floats(std::string_view digits) const {
    std::vector<float> found;
    for (; !digits.empty(); digits.remove_prefix(std::min<size_t>(8, digits.size()))) {
      uint32_t word = 0;
      const std::string_view one = digits.substr(0, 8);
      const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), word, 16);
      if (error != std::errc() || end != one.data() + 8) {
        fail("got " + shown(one) + ", want 8 hexadecimal digits for each channel");
      }
      found.push_back(std::bit_cast<float>(word));
    }
    return found;
  }

  std::string_view text_;
  const std::string& what_;
  size_t line_ = 0;
  std::map<std::string, float> known_;
};

}  // namespace

Calibration read_calibration(std::string_view text, const std::string& what) {
  return Reader(text, what).run();
}

std::string calibration_file(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kLargest);
  std::string text(bytes.begin(), bytes.end());
  read_calibration(text, path);
  return text;
}

namespace {

std::string digits_of(float value) {
  std::array<char, 16> bits{};
  std::snprintf(bits.data(), bits.size(), "%08x", std::bit_cast<uint32_t>(value));
  return bits.data();
}

std::string line_of(const std::string& name, float value) {
  if (name.find('\n') != std::string::npos) {
    throw Error(ErrorKind::kUser,
                "[calibration] a tensor's name has a line break, which a cache "
                "cannot hold: '" +
                    name + "'");
  }
  return name + ": " + (value == 0 ? "0" : digits_of(value)) + "\n";
}

std::string fact_of(std::string_view kind, const std::string& name,
                    const std::vector<float>& numbers) {
  if (numbers.empty()) return "";
  std::string text = std::string(kOwn) + std::string(kind) + " ";
  for (const float number : numbers) text += digits_of(number);
  return line_of(text + " " + name, 0);
}

}  // namespace

std::string calibration_text(const Calibration& calibration) {
  std::string text = calibration.header + "\n";
  for (const auto& [name, scale] : calibration.scales) text += line_of(name, scale);
  if (calibration.alpha) {
    text += line_of(std::string(kOwn) + std::string(kAlpha), *calibration.alpha);
  }
  for (const auto& [name, channels] : calibration.channels) {
    text += fact_of(kMost, name, channels.largest) + fact_of(kMeans, name, channels.means);
  }
  for (const std::string& name : calibration.required) {
    text += line_of(std::string(kOwn) + std::string(kRequired) + name, 0);
  }
  return text;
}

}  // namespace tv
