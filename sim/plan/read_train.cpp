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

// How much there is to train: tokens, or so many samples of seq_len tokens, so many times.
void read_work(MapReader& reader, Train& train) {
  const auto tokens = reader.number("tokens", config::Unit::count, {0, 1e18});
  const auto samples = reader.number("samples", config::Unit::count, {1, 1e15});
  const auto epochs = reader.number("epochs", config::Unit::count, {1e-6, 1e6});
  if (tokens && samples) reader.error("samples", "train has both tokens and samples; write one");
  if (samples && !reader.has("seq_len")) reader.error("samples", "train.samples needs train.seq_len: how long they are");
  if (epochs && !samples) reader.error("epochs", "train.epochs needs train.samples: how often they are seen");
  train.tokens = tokens.value_or(samples.value_or(0.0) * epochs.value_or(1.0) * static_cast<double>(train.seq_len));
}

}  // namespace

std::optional<Train> read_train(const Node& node, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "train");
  Train train;
  train.seq_len = reader.integer("seq_len", {1, 16777216}).value_or(train.seq_len);
  train.global_batch = reader.integer("global_batch", {1, 1e9}).value_or(train.global_batch);
  read_work(reader, train);
  train.clip_gradients = reader.boolean("clip_gradients").value_or(train.clip_gradients);

  const std::array precisions = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16, Precision::fp8};
  if (const auto chosen =
          simulated_choice(reader, "precision", {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"},
                           precisions.size(), diagnostics)) {
    train.precision = precisions[*chosen];
  }
  const std::array optimizers = {
      Optimizer::adamw,           Optimizer::sgd,  Optimizer::adamw8bit, Optimizer::paged_adamw8bit,
      Optimizer::paged_adamw8bit, Optimizer::lion, Optimizer::adafactor, Optimizer::lamb};
  if (const auto chosen = simulated_choice(
          reader, "optimizer",
          {"adamw", "sgd", "adamw8bit", "paged-adamw8bit", "paged_adamw8bit", "lion", "adafactor", "lamb", "muon"},
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
