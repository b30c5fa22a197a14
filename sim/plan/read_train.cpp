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
  diagnostics.unsupported(reader.position_of(key), message("train.{}={}", key, names[*chosen]));
  return std::nullopt;
}

// How much there is to train: tokens, or so many samples of seq_len tokens, so many times.
void read_work(MapReader& reader, Train& train) {
  const auto tokens = reader.number("tokens", config::Unit::count, {0, 1e18});
  const auto samples = reader.number("samples", config::Unit::count, {1, 1e15});
  const auto epochs = reader.number("epochs", config::Unit::count, {1e-6, 1e6});
  if (tokens && samples) reader.error("samples", message("train has both tokens and samples; write one"));
  if (samples && !reader.has("seq_len")) {
    reader.error("samples", message("train.samples needs train.seq_len: how long they are"));
  }
  if (epochs && !samples) reader.error("epochs", message("train.epochs needs train.samples: how often they are seen"));
  train.tokens = tokens.value_or(samples.value_or(0.0) * epochs.value_or(1.0) * static_cast<double>(train.seq_len));
}

// loss: as-framework | fused | {chunks: N}
Loss read_loss(MapReader& train, Diagnostics& diagnostics) {
  const Node* node = train.node("loss");
  if (present(node) == nullptr) return {};
  if (!node->is_map()) {
    const auto chosen = train.choice("loss", {"as-framework", "fused"});
    return {chosen.value_or(0) == 1 ? Loss::Kind::fused : Loss::Kind::as_framework, 1};
  }
  MapReader loss(*node, diagnostics, "train.loss");
  loss.required_text("chunks");
  const std::int64_t chunks = loss.integer("chunks", {1, 4096}).value_or(1);
  loss.finish();
  return {Loss::Kind::chunked, chunks};
}

// fp8: {recipe: per-tensor | blockwise, parameter_gather: true, dispatch: true}
Fp8 read_fp8(MapReader& train, Diagnostics& diagnostics) {
  const Node* node = train.node("fp8");
  if (present(node) == nullptr) return {};
  MapReader fp8(*node, diagnostics, "train.fp8");
  Fp8 recipe;
  if (const auto chosen = fp8.choice("recipe", {"as-framework", "per-tensor", "blockwise"})) {
    recipe.recipe = static_cast<Fp8::Recipe>(*chosen);
  }
  recipe.gathers_parameters = fp8.boolean("parameter_gather").value_or(false);
  recipe.dispatch = fp8.boolean("dispatch");
  fp8.finish();
  return recipe;
}

}  // namespace

std::optional<Train> read_train(const Node& node, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "train");
  Train train;
  train.seq_len = reader.integer("seq_len", {1, 16777216}).value_or(train.seq_len);
  train.global_batch = reader.integer("global_batch", {1, 1e9}).value_or(train.global_batch);
  read_work(reader, train);
  train.optimizer_in_backward = reader.boolean("optimizer_in_backward").value_or(false);
  // The norm of all gradients is not known before the last of them is there.
  train.clip_gradients = reader.boolean("clip_gradients").value_or(!train.optimizer_in_backward);
  train.optimizer_in_backward_position = reader.position_of("optimizer_in_backward");
  train.loss = read_loss(reader, diagnostics);
  train.fp8 = read_fp8(reader, diagnostics);
  train.fp8_position = reader.position_of("fp8");

  const std::array precisions = {Precision::fp32, Precision::tf32, Precision::fp16,
                                 Precision::bf16, Precision::fp8,  Precision::nvfp4};
  if (const auto chosen =
          simulated_choice(reader, "precision", {"fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4", "mxfp8"},
                           precisions.size(), diagnostics)) {
    train.precision = precisions[*chosen];
  }
  const std::array optimizers = {Optimizer::adamw,
                                 Optimizer::sgd,
                                 Optimizer::adamw8bit,
                                 Optimizer::paged_adamw8bit,
                                 Optimizer::paged_adamw8bit,
                                 Optimizer::lion,
                                 Optimizer::adafactor,
                                 Optimizer::lamb,
                                 Optimizer::muon};
  if (const auto chosen = reader.choice("optimizer", {"adamw", "sgd", "adamw8bit", "paged-adamw8bit", "paged_adamw8bit",
                                                      "lion", "adafactor", "lamb", "muon"})) {
    train.optimizer = optimizers[*chosen];
  }
  const std::array kernels = {AttentionKernel::standard, AttentionKernel::flash1, AttentionKernel::flash1,
                              AttentionKernel::flash2, AttentionKernel::flash3};
  if (const auto chosen = reader.choice("attention", {"standard", "flash", "flash1", "flash2", "flash3"})) {
    train.attention = kernels[*chosen];
  }

  train.precision_position = reader.position_of("precision");
  train.attention_position = reader.position_of("attention");

  train.peft = read_peft(reader.node("peft"), diagnostics);
  train.peft_position = reader.position_of("peft");
  const std::array masters = {MasterWeights::fp32, MasterWeights::none, MasterWeights::none};
  if (const auto chosen = reader.choice("master_weights", {"fp32", "none", "bf16"})) {
    train.master_weights = masters[*chosen];
  }
  if (const auto chosen = reader.choice("grad_reduce", {"fp32", "bf16", "fp16"})) {
    train.gradient_bytes = *chosen == 0 ? 4 : 2;
  }
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return train;
}

}  // namespace foretrain
