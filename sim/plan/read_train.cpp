#include <fmt/format.h>

#include <array>
#include <string>

#include "sim/config/quote.h"
#include "sim/plan/plan.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

// The choice written at train.<key>, as an index into the names that are simulated; the other names are unsupported.
std::optional<std::size_t> simulated_choice(MapReader& reader, const char* key, std::vector<std::string> names,
                                            std::size_t simulated, Diagnostics& diagnostics) {
  const std::optional<std::size_t> chosen = reader.choice(key, names);
  if (!chosen || *chosen < simulated) return chosen;
  diagnostics.unsupported(reader.position_of(key), fmt::format("train.{}={}", key, names[*chosen]));
  return std::nullopt;
}

// Adapters are not simulated, but their keys are checked all the same.
void read_peft(const Node* node, Diagnostics& diagnostics) {
  if (node == nullptr || node->is_null()) return;
  const std::vector<std::string> kinds = {"none", "lora", "qlora"};
  std::optional<std::size_t> kind;
  if (node->is_scalar()) {
    const Node wrapped{node->position, Node::Map{{"peft", node->position, *node}}};
    kind = MapReader(wrapped, diagnostics, "train").choice("peft", kinds);
  } else {
    MapReader reader(*node, diagnostics, "train.peft");
    reader.required_text("kind");
    kind = reader.choice("kind", kinds);
    reader.integer("rank", {1, 65536});
    reader.number("alpha", config::Unit::count, {0, 1e9});
    reader.choice("targets", {"all-linear", "attention", "qv"});
    reader.choice("quant", {"none", "nf4", "int4", "int8"});
    reader.text_list("full");
    reader.finish();
  }
  if (kind && *kind > 0) diagnostics.unsupported(node->position, fmt::format("train.peft={}", kinds[*kind]));
}

}  // namespace

std::optional<Train> read_train(const Node& node, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "train");
  Train train;
  train.seq_len = reader.integer("seq_len", {1, 16777216}).value_or(train.seq_len);
  train.global_batch = reader.integer("global_batch", {1, 1e9}).value_or(train.global_batch);
  train.tokens = reader.number("tokens", config::Unit::count, {0, 1e18}).value_or(0.0);
  train.clip_gradients = reader.boolean("clip_gradients").value_or(train.clip_gradients);

  const std::array precisions = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16, Precision::fp8};
  if (const auto chosen =
          simulated_choice(reader, "precision", {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"},
                           precisions.size(), diagnostics)) {
    train.precision = precisions[*chosen];
  }
  const std::array optimizers = {Optimizer::adamw, Optimizer::sgd};
  if (const auto chosen =
          simulated_choice(reader, "optimizer", {"adamw", "sgd", "adamw8bit", "lion", "adafactor", "lamb", "muon"},
                           optimizers.size(), diagnostics)) {
    train.optimizer = optimizers[*chosen];
  }
  const std::array kernels = {AttentionKernel::standard, AttentionKernel::flash1, AttentionKernel::flash1,
                              AttentionKernel::flash2, AttentionKernel::flash3};
  if (const auto chosen = reader.choice("attention", {"standard", "flash", "flash1", "flash2", "flash3"})) {
    train.attention = kernels[*chosen];
  }

  train.precision_position = reader.position_of("precision");
  train.attention_position = reader.position_of("attention");

  read_peft(reader.node("peft"), diagnostics);
  // fp32 master weights are what the optimizers here keep; gradients are reduced as the software profile says.
  if (const auto chosen = reader.choice("master_weights", {"fp32", "none", "bf16"}); chosen && *chosen > 0) {
    diagnostics.unsupported(reader.position_of("master_weights"), "train.master_weights");
  }
  if (reader.choice("grad_reduce", {"fp32", "bf16", "fp16"})) {
    diagnostics.unsupported(reader.position_of("grad_reduce"), "train.grad_reduce");
  }
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return train;
}

}  // namespace foretrain
