#include "csrc/report/svg.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace tv {
namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

std::string xml_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return out;
}

std::string shortened(std::string_view text, size_t width) {
  size_t characters = 0, cut = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!starts_character(text[i])) continue;
    if (++characters == width) cut = i;
  }
  if (characters <= width) return std::string(text);
  return std::string(text.substr(0, cut)) + "…";
}

std::string shortened_front(std::string_view text, size_t width) {
  size_t left = 0, skipped = 0;
  for (const char c : text) left += starts_character(c);
  if (left <= width) return std::string(text);
  while (skipped < text.size() && left >= width) {  // one for the dots
    do {
      ++skipped;
    } while (skipped < text.size() && !starts_character(text[skipped]));
    --left;
  }
  return "…" + std::string(text.substr(skipped));
}

std::string shortened_middle(std::string_view text, size_t width) {
  constexpr std::string_view kDots = "…";
  const size_t back = (width - 1) / 2, front = width - 1 - back;
  const std::string whole = shortened(text, width);
  if (whole == text) return whole;
  return shortened(text, front + 1) + shortened_front(text, back + 1).substr(kDots.size());
}

std::string coordinate(double value) {
  char text[32];
  const double rounded = std::round(value * 10) / 10;
  std::snprintf(text, sizeof(text), rounded == std::floor(rounded) ? "%.0f" : "%.1f", rounded);
  return text;
}

const char* colour(size_t kind) {
  static constexpr std::array kColours = {"#4e79a7", "#f28e2b", "#59a14f", "#e15759",
                                          "#76b7b2", "#edc948", "#b07aa1"};
  return kColours[kind % kColours.size()];
}

}  // namespace tv
