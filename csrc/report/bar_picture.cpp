#include "csrc/report/bar_picture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "csrc/report/svg.h"

namespace tv {
namespace {

constexpr double kRow = 18, kWidth = 560, kText = 460;  // of a bar's row, and beside the bars
constexpr double kLeft = 4, kTop = 56;                  // where the bars begin

/// Steps of 1, 2 or 5 times a power of ten, so that there are at most ten.
double axis_step(double longest) {
  double step = std::pow(10, std::floor(std::log10(longest)) - 2);
  for (int i = 0; longest / step > 10; ++i) step *= i % 3 == 1 ? 2.5 : 2;
  return step;
}

/// The title and the axis.
std::string frame(const std::string& title, const std::string& axis, double longest,
                  double bottom) {
  std::string text = "<text x=\"" + coordinate(kLeft) +
                     "\" y=\"18\" font-size=\"14\" font-weight=\"bold\">" + xml_escape(title) +
                     "</text>\n<text x=\"" + coordinate(kLeft) + "\" y=\"34\">" + xml_escape(axis) +
                     "</text>\n";
  if (longest <= 0) return text;
  const double step = axis_step(longest);
  for (int i = 0; i * step <= longest; ++i) {
    char number[32];
    std::snprintf(number, sizeof(number), "%g", i * step);
    const std::string x = coordinate(kLeft + i * step / longest * kWidth);
    text += "<line x1=\"" + x + "\" x2=\"" + x + "\" y1=\"" + coordinate(kTop - 6) + "\" y2=\"" +
            coordinate(bottom) + "\" stroke=\"#ccc\"/><text x=\"" + x + "\" y=\"" +
            coordinate(kTop - 8) + "\" fill=\"#555\">" + number + "</text>\n";
  }
  return text;
}

}  // namespace

std::string bar_picture(const std::string& title, const std::string& axis,
                        std::span<const Bar> bars) {
  double longest = 0;
  for (const Bar& bar : bars) {
    if (std::isfinite(bar.length)) longest = std::max(longest, bar.length);
  }
  const double height = kTop + kRow * static_cast<double>(bars.size()) + 8;
  std::string text =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + coordinate(kWidth + kText) +
      "\" height=\"" + coordinate(height) + "\" font-family=\"monospace\" font-size=\"11\">\n" +
      "<style>svg{background:#fff}</style>\n" + frame(title, axis, longest, height - 4);
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = kTop + kRow * static_cast<double>(i);
    const double length = std::isinf(bar.length) ? kWidth
                          : longest > 0          ? bar.length / longest * kWidth
                                                 : 0;
    // A name that does not fit beside its bar begins at the left, on it.
    const double label_x = length > kWidth * 0.6 ? 10 : length + 10;
    text += "<rect x=\"" + coordinate(kLeft) + "\" y=\"" + coordinate(y) + "\" width=\"" +
            coordinate(length) + "\" height=\"" + coordinate(kRow - 4) + "\" fill=\"" +
            colour(bar.kind) + "\" fill-opacity=\"0.75\"/><text x=\"" + coordinate(label_x) +
            "\" y=\"" + coordinate(y + 11) + "\">" + xml_escape(bar.label) + "<title>" +
            xml_escape(bar.title) + "</title></text>\n";
  }
  return text + "</svg>\n";
}

}  // namespace tv
