// images::grey(Tensor image, bool gamma) -> Tensor: [n, 3, h, w] → [n, 1, h, w], the luma of each
// pixel, encoded with a gamma of 2.2 on request. Python defines the operator (run.py); this library
// says how engines compute it.

#include <converters/kit/steps.h>  // what the project's own converters share
#include <csrc/builder.h>
#include <csrc/user_code.h>

namespace {

const tv::RegisterKernel kernel{"images_grey", R"(
// One invocation for each pixel. GAMMA: 0 or 1.
void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= images * pixels) return;
  uint red = i / pixels * 3u * pixels + i % pixels;
  float luma = 0.299 * image_load(red) + 0.587 * image_load(red + pixels) +
               0.114 * image_load(red + 2u * pixels);
#if GAMMA
  luma = tv_pow(max(luma, 0.0), 1.0 / 2.2);
#endif
  grey_store(i, luma);
}
)"};

/// What the operator does not take: the sentence reaches the user through the dry-run report.
std::string unsupported(const tv::NodeContext& c) {
  if (!tv::is_float(c.dtype("image"))) return "it takes images of a floating dtype";
  const auto channels = c.rank("image") == 4 ? c.shape("image")[1].constant() : std::nullopt;
  return channels == 3 ? "" : "it takes images as [n, 3, h, w]";
}

void convert(const tv::NodeContext& c, tv::Builder& b) {
  const tv::Shape& shape = c.shape("image");  // sizes may be symbolic
  const tv::Expr pixels = shape[2] * shape[3];
  tv::Step step{
      .kernel = "images_grey",
      .defines = {{"GAMMA", c.node.flag("gamma") ? "1" : "0"}},
      .operands = {tv::src("image", c.node.input("image")), tv::dst("grey", c.node.outputs[0])},
      .params = {tv::param("images", shape[0]), tv::param("pixels", pixels)},
      .grid = tv::one_each(shape[0] * pixels, 64)};
  b.emit({{.name = "grey_pixel", .steps = {step}}});
}

const tv::RegisterConverter converter{tv::Converter{
    .op = "images::grey",
    .unsupported = unsupported,
    .convert = convert,
    .prologue_arg = "image",  // read through image_load alone: what comes before may fuse into it
    .epilogue = true,         // written through grey_store alone: what comes after may fuse into it
}};

}  // namespace
