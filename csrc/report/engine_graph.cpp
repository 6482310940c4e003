#include "csrc/report/engine_graph.h"

#include <algorithm>
#include <map>

namespace tv {
namespace {

struct Range {
  int64_t first = 0, end = 0;
};

/// Which node wrote what of a buffer last.
class Writers {
 public:
  void write(size_t node, Range range) {
    std::vector<Piece> kept;
    for (const Piece& piece : pieces_) {
      const Range& r = piece.range;
      if (r.first < range.first) {
        kept.push_back({piece.node, {r.first, std::min(r.end, range.first)}});
      }
      if (r.end > range.end) kept.push_back({piece.node, {std::max(r.first, range.end), r.end}});
    }
    kept.push_back({node, range});
    pieces_ = std::move(kept);
  }
  /// Adds to `bytes` what `range` holds of each writer.
  void read(Range range, std::map<size_t, int64_t>& bytes) const {
    for (const Piece& piece : pieces_) {
      const int64_t overlap =
          std::min(piece.range.end, range.end) - std::max(piece.range.first, range.first);
      if (overlap > 0) bytes[piece.node] += overlap;
    }
  }

 private:
  struct Piece {
    size_t node;
    Range range;
  };
  std::vector<Piece> pieces_;
};

}  // namespace

EngineGraph engine_graph(const EngineSpec& spec) {
  std::vector<int64_t> usual;
  for (const Symbol& symbol : spec.symbols) usual.push_back(symbol.opt);
  const auto whole = [&](uint32_t buffer) {
    return Range{0, std::max<int64_t>(spec.buffers[buffer].size_bytes.eval(usual), 1)};
  };
  EngineGraph graph;
  std::vector<Writers> writers(spec.buffers.size());
  const auto add = [&](EngineGraph::Kind kind, size_t index,
                       const std::map<size_t, int64_t>& sources) {
    graph.nodes.push_back({kind, index});
    for (const auto& [from, bytes] : sources) {
      graph.edges.push_back({from, graph.nodes.size() - 1, bytes});
    }
    return graph.nodes.size() - 1;
  };
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const size_t node = add(EngineGraph::Kind::kInput, i, {});
    for (uint32_t b = 0; b < spec.buffers.size(); ++b) {
      const Buffer& buffer = spec.buffers[b];
      if (buffer.kind == BufferKind::kInput && buffer.index == i) writers[b].write(node, whole(b));
    }
  }
  for (size_t i = 0; i < spec.dispatches.size(); ++i) {
    const std::vector<OperandRange>& operands = spec.dispatches[i].operands;
    const auto range = [&](const OperandRange& o) {
      const int64_t first = o.offset_bytes.eval(usual);
      return Range{first, first + o.size_bytes.eval(usual)};
    };
    std::map<size_t, int64_t> sources;
    for (const OperandRange& o : operands) {
      if (o.read) writers[o.buffer].read(range(o), sources);
    }
    const size_t node = add(EngineGraph::Kind::kLayer, i, sources);
    for (const OperandRange& o : operands) {
      if (o.write) writers[o.buffer].write(node, range(o));
    }
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    std::map<size_t, int64_t> sources;
    for (uint32_t b = 0; b < spec.buffers.size(); ++b) {
      const Buffer& buffer = spec.buffers[b];
      if (buffer.kind == BufferKind::kOutput && buffer.index == i) {
        writers[b].read(whole(b), sources);
      }
    }
    add(EngineGraph::Kind::kOutput, i, sources);
  }
  return graph;
}

}  // namespace tv
