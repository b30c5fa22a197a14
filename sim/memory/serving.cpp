#include "sim/memory/serving.h"

#include <algorithm>

namespace foretrain {
namespace {

double matrices_in_layers(const Model& m) {
  double sum = 0;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    const bool experts = m.layer_kind(layer).experts;
    sum += static_cast<double>(m.attention_matrix_parameters() +
                               (experts ? m.experts * m.expert_matrix_parameters() + m.shared_expert_parameters()
                                        : m.mlp_matrix_parameters()));
  }
  return sum;
}

}  // namespace

double cache_elements(const Model& m, std::int64_t context) {
  const double width =
      m.mla ? static_cast<double>(m.mla->kv_lora + m.mla->qk_rope) : 2.0 * static_cast<double>(m.kv_width());
  double tokens = 0;  // of all layers
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    tokens += static_cast<double>(m.layer_kind(layer).windowed ? std::min(context, m.window) : context);
  }
  return width * tokens;
}

ServingMemory serving_memory(const Model& m, const Serving& serving) {
  // Prediction modules are for training.
  const double all = static_cast<double>(m.parameters() - m.mtp * (m.mtp > 0 ? m.predictor_parameters() : 0));
  const double quantised = serving.format == nullptr ? 0 : matrices_in_layers(m);
  const double element = serving.format == nullptr ? 0 : serving.format->stored_bytes + serving.format->constant_bytes;
  return {.weights = {2.0 * (all - quantised) + element * quantised},
          .cache = {static_cast<double>(serving.streams) * cache_elements(m, serving.context) * serving.cache_bytes}};
}

}  // namespace foretrain
