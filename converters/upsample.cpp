// Upsampling of the last two dimensions: nearest, exact nearest, bilinear.

#include "converters/pool_window.h"

namespace tv {
namespace {

/// Scale factors that the caller gave (torch then ignores the ratio of the sizes); empty: none.
std::vector<double> scales_of(const Node& node) {
  if (node.has("scale_factors")) {
    const Attr& attr = node.arg("scale_factors").attr;
    if (const auto* v = std::get_if<std::vector<double>>(&attr)) return *v;
    std::vector<double> values;
    for (const int64_t v : node.integers("scale_factors")) values.push_back(static_cast<double>(v));
    return values;
  }
  if (node.has("scales_h") && node.has("scales_w")) {
    return {node.number("scales_h"), node.number("scales_w")};
  }
  return {};
}

const char* image(const Node& node) { return node.find("input") != nullptr ? "input" : "self"; }

void convert(const NodeContext& c, Builder& b, const std::string& mode) {
  const Planes in = planes_of(c.shape(image(c.node)), 2);
  const Planes out = planes_of(c.output().shape, 2);
  const bool align = c.node.flag("align_corners");
  std::vector<double> scales = scales_of(c.node);
  if (scales.size() == 1) scales.push_back(scales[0]);
  // Aligned corners never look at the scale factors.
  if (mode == "BILINEAR" && align) scales.clear();
  Step step{.kernel = "upsample",
            .defines = {{"MODE", mode},
                        {"ALIGN", align ? "1" : "0"},
                        {"SCALES", scales.empty() ? "0" : "1"}},
            .operands = {src("x", c.node.input(image(c.node))), dst("y", c.node.outputs[0])},
            .params = {param("outputs", out.elements())}};
  add_plane_params(step, in, out);
  if (!scales.empty()) {
    step.params.push_back(number("scale_h", 1.0 / scales[0]));
    step.params.push_back(number("scale_w", 1.0 / scales[1]));
  }
  emit_flat(b, std::move(step), out.elements());
}

std::vector<Graph> examples(const std::string& op, const std::string& mode) {
  std::vector<Graph> graphs;
  const std::string arg = op.ends_with(".vec") ? "input" : "self";
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const bool align : {false, true}) {
      if (align && mode != "BILINEAR") continue;
      for (const bool scaled : {false, true}) {
        ExampleGraph g(op);
        g.input(arg, dtype, {2, 3, 5, 7}).attr("align_corners", align);
        if (scaled) g.attr("scale_factors", std::vector<double>{2.0, 2.0});
        graphs.push_back(g.output(dtype, {2, 3, 10, 14}).graph());
      }
    }
  }
  return graphs;
}

Converter upsample(std::string op, std::string mode) {
  return {.op = op,
          .unsupported = [](const NodeContext& c) { return floats_only(c, image(c.node)); },
          .convert = [mode](const NodeContext& c, Builder& b) { convert(c, b, mode); },
          .epilogue = true,
          .examples = [op, mode] { return examples(op, mode); }};
}

const RegisterConverter upsamples{
    upsample("aten::upsample_nearest2d", "NEAREST"),
    upsample("aten::upsample_nearest2d.vec", "NEAREST"),
    upsample("aten::_upsample_nearest_exact2d", "EXACT"),
    upsample("aten::_upsample_nearest_exact2d.vec", "EXACT"),
    upsample("aten::upsample_bilinear2d", "BILINEAR"),
    upsample("aten::upsample_bilinear2d.vec", "BILINEAR"),
};

}  // namespace
}  // namespace tv
