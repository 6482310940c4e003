#include "python/bindings/script/encoder.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/jit.h>

#include <vector>

namespace tv::script {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;

// As python/torch_vulkan/_torch/encoder_layers.py has them: rows that are hidden as a whole become
// NaN, and masks of numbers hide what is not 0, as in the kernels.
constexpr const char* kSource = R"(
def project(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, weight: Tensor,
            bias: Tensor, heads: int) -> Tuple[Tensor, Tensor, Tensor]:
    size = embed_dim // heads
    w = torch.split(weight, embed_dim)
    b = torch.split(bias, embed_dim)
    q = torch.unflatten(torch.linear(query, w[0], b[0]), -1, [heads, size]).transpose(1, 2)
    k = torch.unflatten(torch.linear(key, w[1], b[1]), -1, [heads, size]).transpose(1, 2)
    v = torch.unflatten(torch.linear(value, w[2], b[2]), -1, [heads, size]).transpose(1, 2)
    return q, k, v

def scores(q: Tensor, k: Tensor, mask: Optional[Tensor], mask_type: Optional[int]) -> Tensor:
    result = torch.matmul(q * (float(q.size(-1)) ** -0.5), k.transpose(-2, -1))
    if mask is not None:
        hidden = mask != 0
        if mask_type is not None and mask_type == 1:
            hidden = hidden.unsqueeze(1).unsqueeze(1)
        result = torch.masked_fill(result, hidden, float("-inf"))
    return torch.softmax(result, -1)

def join(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.linear(torch.flatten(values.transpose(1, 2), 2), weight, bias)

def attention(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int,
              qkv_weight: Tensor, qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor,
              mask: Optional[Tensor], need_weights: bool, average_attn_weights: bool,
              mask_type: Optional[int]) -> Tuple[Tensor, Tensor]:
    q, k, v = project(query, key, value, embed_dim, qkv_weight, qkv_bias, num_head)
    weights = scores(q, k, mask, mask_type)
    result = join(torch.matmul(weights, v), proj_weight, proj_bias)
    if average_attn_weights:
        weights = torch.mean(weights, [1])
    return result, weights

def encoder_layer(src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor,
                  qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool,
                  norm_first: bool, eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor,
                  norm_weight_2: Tensor, norm_bias_2: Tensor, ffn_weight_1: Tensor,
                  ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor,
                  mask: Optional[Tensor], mask_type: Optional[int]) -> Tensor:
    x = src
    if norm_first:
        x = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    q, k, v = project(x, x, x, embed_dim, qkv_weight, qkv_bias, num_heads)
    x = src + join(torch.matmul(scores(q, k, mask, mask_type), v), proj_weight, proj_bias)
    if not norm_first:
        x = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    y = x
    if norm_first:
        y = torch.layer_norm(y, [embed_dim], norm_weight_2, norm_bias_2, eps)
    y = torch.linear(y, ffn_weight_1, ffn_bias_1)
    if use_gelu:
        y = torch.gelu(y)
    else:
        y = torch.relu(y)
    x = x + torch.linear(y, ffn_weight_2, ffn_bias_2)
    if not norm_first:
        x = torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
    return x
)";

const c10::Symbol kLayer = c10::Symbol::fromQualString("aten::_transformer_encoder_layer_fwd");
const c10::Symbol kAttention = c10::Symbol::fromQualString("aten::_native_multi_head_attention");
const c10::Symbol kNested = c10::Symbol::fromQualString("aten::_nested_tensor_from_mask");

std::shared_ptr<Graph> inlined(const char* function) {
  const auto unit = torch::jit::compile(kSource);
  auto graph = torch::jit::toGraphFunction(unit->get_function(function)).graph()->copy();
  torch::jit::Inline(*graph);
  return graph;
}

Graph& pieces_of(const Node* node) {
  static const auto layer = inlined("encoder_layer"), attention = inlined("attention");
  return node->kind() == kLayer ? *layer : *attention;
}

void collect(Block* block, std::vector<Node*>& found, bool& nested) {
  for (Node* node : block->nodes()) {
    nested = nested || node->kind() == kNested;
    if (node->kind() == kLayer || node->kind() == kAttention) found.push_back(node);
    for (Block* inner : node->blocks()) collect(inner, found, nested);
  }
}

// Without weights the kernel's second result is no tensor, which somebody may ask for.
bool is_known(const Node* node) {
  if (node->kind() == kLayer || !node->output(1)->hasUses()) return true;
  const auto wanted = torch::jit::toIValue(node->namedInput("need_weights"));
  return wanted && wanted->toBool();
}

}  // namespace

bool take_encoder_layers_apart(Graph& graph) {
  std::vector<Node*> found;
  bool nested = false;
  collect(graph.block(), found, nested);
  if (nested) return false;
  for (Node* node : found) {
    if (!is_known(node)) continue;
    const torch::jit::WithInsertPoint at(node);
    auto results = torch::jit::insertGraph(graph, pieces_of(node), node->inputs());
    if (node->outputs().size() == 2) {
      Node* parts = graph.insertNode(graph.createTupleUnpack(results.at(0)));
      results.assign(parts->outputs().begin(), parts->outputs().end());
    }
    for (size_t i = 0; i < results.size(); ++i) node->output(i)->replaceAllUsesWith(results[i]);
    node->destroy();
  }
  return !found.empty();
}

}  // namespace tv::script
