#pragma once
// Places the nodes of an acyclic graph in rows so that every edge goes down, after Sugiyama, Tagawa
// and Toda, "Methods for visual understanding of hierarchical system structures" (1981).

#include <cstddef>
#include <utility>
#include <vector>

namespace tv {

struct Point {
  double x = 0, y = 0;
};

/// Boxes of one size, `gap_x` and `gap_y` apart at least.
struct LayoutSizes {
  double width = 200, height = 50, gap_x = 30, gap_y = 40;
  double lane = 24;  ///< width of an edge that passes a row
};

struct Layout {
  std::vector<Point> centres;             ///< of each node
  std::vector<std::vector<Point>> paths;  ///< of each edge: from the lower rim of a box to the
                                          ///< upper rim of another, through the rows between
  double width = 0, height = 0;           ///< of the picture; the upper left corner is (0, 0)
};

/// Edges are pairs of nodes, from a lower number to a higher one.
Layout layered_layout(size_t nodes, const std::vector<std::pair<size_t, size_t>>& edges,
                      const LayoutSizes& sizes);

}  // namespace tv
