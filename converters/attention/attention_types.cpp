#include "converters/attention/attention_types.h"

#include "converters/kit/shape_types.h"

namespace tv::types {
namespace {

/// Query, key and value of one rank; with grouped heads query has a multiple of the others'.
struct Attention {
  Shape lead = {};
  Expr rows, columns, size;
};

Attention attention_of(NodeTypes& t) {
  const Shape q = t.shape("query"), k = t.shape("key"), v = t.shape("value");
  t.want(q.size() >= 2 && k.size() >= 2 && v.size() >= 2, "an operand is no matrix");
  t.equal(k.back(), q.back(), "the last size of argument 'key'");
  t.equal(v[v.size() - 2], k[k.size() - 2], "the rows of argument 'value'");
  Attention made{.rows = q[q.size() - 2], .columns = k[k.size() - 2], .size = v.back()};
  // Those of PyTorch's fused operators have no argument that says so.
  const bool may_group = t.node().find("enable_gqa") == nullptr && q.size() >= 3 &&
                         q.size() == k.size() && !(q[q.size() - 3] == k[k.size() - 3]);
  if (may_group || t.node().flag("enable_gqa")) {
    t.want(q.size() >= 3 && k.size() == q.size() && v.size() == q.size(),
           "grouped heads want operands of one rank above 2");
    for (size_t i = 0; i + 3 < q.size(); ++i) {
      t.equal(k[i], q[i], "a size of argument 'key'");
      t.equal(v[i], q[i], "a size of argument 'value'");
    }
    const size_t heads = q.size() - 3;
    for (const Expr& other : {k[heads], v[heads]}) {
      t.at_least(other, 1, "the number of heads");
      t.equal(mod(q[heads], other), 0, "what is left of the query's heads");
    }
    made.lead = leading(q, 2);
  } else {
    made.lead =
        t.broadcast(t.broadcast(leading(q, 2), leading(k, 2), "a batch"), leading(v, 2), "a batch");
  }
  for (const char* mask : {"attn_mask", "attn_bias", "dropout_mask"}) {
    if (t.has(mask)) {
      t.spreads(t.shape(mask), joined_shape(made.lead, {made.rows, made.columns}), mask);
    }
  }
  return made;
}

}  // namespace

void attention(NodeTypes& t) {
  const Attention a = attention_of(t);
  t.gives(joined_shape(a.lead, {a.rows, a.size}));
}

void attention_backward(NodeTypes& t) {
  const Attention a = attention_of(t);
  const char* grad = t.node().find("grad_out_") != nullptr ? "grad_out_" : "grad_out";
  for (const char* arg : {grad, "out"}) {
    t.equal(t.shape(arg), joined_shape(a.lead, {a.rows, a.size}),
            std::string("argument '") + arg + "'");
  }
  t.gives(t.shape("query"), 0);
  t.gives(t.shape("key"), 1);
  t.gives(t.shape("value"), 2);
}

}  // namespace tv::types
