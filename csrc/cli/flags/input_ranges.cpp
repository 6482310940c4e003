#include "csrc/cli/flags/input_ranges.h"

#include <initializer_list>

#include "csrc/cli/text/command_error.h"

namespace tv::cli {

std::map<std::string, std::vector<DimRange>> input_ranges(const Options& options) {
  const std::vector<const NamedShapes*> sources = {&options.min_shapes, &options.opt_shapes,
                                                   &options.max_shapes};
  std::map<std::string, std::vector<DimRange>> out;
  for (const NamedShapes* source : {sources[0], sources[1], sources[2], &options.shapes}) {
    for (const auto& [name, any_shape] : *source) {
      if (out.contains(name)) continue;
      const auto find = [&, &name = name](std::initializer_list<size_t> order) {
        for (const size_t i : order) {
          const auto found = sources[i]->find(name);
          if (found != sources[i]->end()) return found->second;
        }
        return options.shapes.at(name);
      };
      const auto min = find({0, 1, 2}), opt = find({1, 2, 0}), max = find({2, 1, 0});
      if (min.size() != opt.size() || opt.size() != max.size()) {
        throw CommandError("'" + name +
                           "' has different numbers of dimensions in --minShapes, "
                           "--optShapes and --maxShapes");
      }
      std::vector<DimRange> dims;
      for (size_t d = 0; d < min.size(); ++d) {
        if (min[d] > opt[d] || opt[d] > max[d]) {
          throw CommandError("'" + name + "': want --minShapes ≤ --optShapes ≤ --maxShapes, got " +
                             shape_text(min) + ", " + shape_text(opt) + ", " + shape_text(max));
        }
        if (max[d] == 0 && source != &options.shapes) {
          throw CommandError("'" + name + "': got --maxShapes " + shape_text(max) +
                             ", of which nothing runs; want sizes of 1 or more");
        }
        dims.push_back({.min = min[d], .opt = opt[d], .max = max[d]});
      }
      out.emplace(name, std::move(dims));
    }
  }
  return out;
}

}  // namespace tv::cli
