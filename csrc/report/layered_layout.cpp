#include "csrc/report/layered_layout.h"

#include <algorithm>
#include <limits>

namespace tv {
namespace {

constexpr int kSweeps = 8;

/// The graph with a stand-in of each edge in each row that it passes.
struct Rows {
  std::vector<std::vector<size_t>> rows;
  std::vector<size_t> rank;
  std::vector<std::vector<size_t>> above, below;  ///< neighbours of each place
  std::vector<std::vector<size_t>> chains;        ///< of each edge: its places from row to row
  size_t nodes = 0;                               ///< the first places; the others are stand-ins

  size_t add(size_t row) {
    if (rows.size() <= row) rows.resize(row + 1);
    rank.push_back(row);
    above.emplace_back();
    below.emplace_back();
    rows[row].push_back(rank.size() - 1);
    return rank.size() - 1;
  }
};

Rows make_rows(size_t nodes, const std::vector<std::pair<size_t, size_t>>& edges) {
  std::vector<size_t> rank(nodes, 0);
  auto sorted = edges;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [from, to] : sorted) rank[to] = std::max(rank[to], rank[from] + 1);
  // What has no source stands right above its first reader, not at the top.
  std::vector<bool> has_source(nodes, false);
  for (const auto& edge : edges) has_source[edge.second] = true;
  for (size_t n = nodes; n-- > 0;) {
    if (has_source[n]) continue;
    size_t first = nodes;
    for (const auto& [from, to] : edges) {
      if (from == n) first = std::min(first, rank[to]);
    }
    if (first != nodes) rank[n] = first - 1;
  }
  Rows made;
  made.nodes = nodes;
  for (size_t n = 0; n < nodes; ++n) made.add(rank[n]);
  for (const auto& [from, to] : edges) {
    std::vector<size_t> chain = {from};
    for (size_t row = rank[from] + 1; row < rank[to]; ++row) chain.push_back(made.add(row));
    chain.push_back(to);
    for (size_t i = 0; i + 1 < chain.size(); ++i) {
      made.below[chain[i]].push_back(chain[i + 1]);
      made.above[chain[i + 1]].push_back(chain[i]);
    }
    made.chains.push_back(std::move(chain));
  }
  return made;
}

double mean(const std::vector<size_t>& of, const std::vector<double>& values, double otherwise) {
  if (of.empty()) return otherwise;
  double sum = 0;
  for (const size_t i : of) sum += values[i];
  return sum / static_cast<double>(of.size());
}

/// Orders each row by the mean position of its neighbours, down and up again.
void reduce_crossings(Rows& graph) {
  std::vector<double> position(graph.rank.size());
  const auto number = [&](const std::vector<size_t>& row) {
    for (size_t i = 0; i < row.size(); ++i) position[row[i]] = static_cast<double>(i);
  };
  for (const auto& row : graph.rows) number(row);
  const auto order = [&](std::vector<size_t>& row, const std::vector<std::vector<size_t>>& by) {
    std::vector<double> key(graph.rank.size());
    for (const size_t place : row) key[place] = mean(by[place], position, position[place]);
    std::stable_sort(row.begin(), row.end(), [&](size_t a, size_t b) { return key[a] < key[b]; });
    number(row);
  };
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t r = 1; r < graph.rows.size(); ++r) order(graph.rows[r], graph.above);
    for (size_t r = graph.rows.size(); r-- > 0;) order(graph.rows[r], graph.below);
  }
}

/// Moves the places of a row towards `wanted` as far as their order and distances let them.
void settle_row(const std::vector<size_t>& row, const std::vector<double>& wanted,
                const std::vector<double>& half, std::vector<double>& x) {
  // Forward and backward packing, and the middle between both.
  std::vector<double> left(row.size()), right(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    left[i] = wanted[row[i]];
    if (i > 0) left[i] = std::max(left[i], left[i - 1] + half[row[i - 1]] + half[row[i]]);
  }
  for (size_t i = row.size(); i-- > 0;) {
    right[i] = wanted[row[i]];
    if (i + 1 < row.size()) {
      right[i] = std::min(right[i], right[i + 1] - half[row[i + 1]] - half[row[i]]);
    }
  }
  for (size_t i = 0; i < row.size(); ++i) x[row[i]] = (left[i] + right[i]) / 2;
}

std::vector<double> place_columns(const Rows& graph, const LayoutSizes& sizes) {
  const size_t count = graph.rank.size();
  std::vector<double> half(count), x(count), wanted(count);
  for (size_t p = 0; p < count; ++p) {
    half[p] = p < graph.nodes ? (sizes.width + sizes.gap_x) / 2 : sizes.lane / 2;
  }
  for (int sweep = 0; sweep < 2 * kSweeps; ++sweep) {
    for (size_t i = 0; i < graph.rows.size(); ++i) {
      const bool down = sweep % 2 == 0;
      const auto& row = graph.rows[down ? i : graph.rows.size() - 1 - i];
      for (const size_t p : row) {
        wanted[p] = mean(down ? graph.above[p] : graph.below[p], x, x[p]);
      }
      settle_row(row, wanted, half, x);
    }
  }
  double least = std::numeric_limits<double>::max();
  for (size_t p = 0; p < count; ++p) least = std::min(least, x[p] - half[p]);
  for (double& value : x) value -= least;
  return x;
}

}  // namespace

Layout layered_layout(size_t nodes, const std::vector<std::pair<size_t, size_t>>& edges,
                      const LayoutSizes& sizes) {
  Rows graph = make_rows(nodes, edges);
  reduce_crossings(graph);
  const std::vector<double> x = place_columns(graph, sizes);
  const double pitch = sizes.height + sizes.gap_y;
  const auto y = [&](size_t place) {
    return sizes.gap_y / 2 + sizes.height / 2 + pitch * static_cast<double>(graph.rank[place]);
  };
  Layout layout;
  layout.height = pitch * static_cast<double>(graph.rows.size());
  for (size_t p = 0; p < graph.rank.size(); ++p) {
    const double half = (p < nodes ? sizes.width + sizes.gap_x : sizes.lane) / 2;
    layout.width = std::max(layout.width, x[p] + half);
    if (p < nodes) layout.centres.push_back({x[p], y(p)});
  }
  for (const auto& chain : graph.chains) {
    std::vector<Point> path = {{x[chain.front()], y(chain.front()) + sizes.height / 2}};
    for (size_t i = 1; i + 1 < chain.size(); ++i) {
      path.push_back({x[chain[i]], y(chain[i]) - sizes.height / 2});
      path.push_back({x[chain[i]], y(chain[i]) + sizes.height / 2});
    }
    path.push_back({x[chain.back()], y(chain.back()) - sizes.height / 2});
    layout.paths.push_back(std::move(path));
  }
  return layout;
}

}  // namespace tv
