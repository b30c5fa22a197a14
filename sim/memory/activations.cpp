#include "sim/memory/activations.h"

#include <algorithm>

#include "sim/memory/ledger.h"
#include "sim/model/operators.h"

namespace foretrain {

double tokens_of(const Case& c) { return static_cast<double>(c.plan.micro_batch * c.train.seq_len / c.plan.cp); }

double hidden_shards(const Case& c) { return c.plan.sequence_parallel ? c.plan.tp : 1; }

double precision_scale(const Case& c) { return element_bytes(c.train.precision) / 2.0; }

namespace {

// Of an element of a linear layer's input, kept for the gradient of its weight.
double kept_input_bytes(const Case& c) {
  if (c.train.precision == Precision::nvfp4) return operand_bytes(Precision::nvfp4);
  if (c.train.precision != Precision::fp8) return 2;
  const double kept = c.software.fp8_kept_input_bytes;
  return kept < 2 ? kept + c.train.fp8.activation_scale_bytes() : kept;  // nothing that is kept in 16 bits has scales
}

// Of keys or values of all tensor-parallel ranks; fewer heads than ranks are replicated.
double kept_kv_width(const Case& c) {
  const int splits = c.plan.tp * (c.plan.context == ContextParallel::ulysses ? c.plan.cp : 1);
  return static_cast<double>(std::max(c.model.kv_width(), c.model.head_dim * splits));
}

// Linear layers whose input is kept: those with a weight gradient, their own or an adapter's. Counted as 0 or 1.
struct KeptInputs {
  double qkv = 1, mlp_in = 1, mlp_out = 1,
         prediction = 1;  // the output projection's input is the attention's output, which is kept
};

KeptInputs kept_inputs(const Case& c) {
  const Peft& peft = c.train.peft;
  if (!peft.active() || (peft.format != nullptr && c.software.quantised_keeps_input)) return {};
  const Peft::Targets& t = peft.targets;
  return {t.q || t.k || t.v ? 1.0 : 0.0, t.gate || t.up ? 1.0 : 0.0, t.down ? 1.0 : 0.0, 0.0};
}

// The narrow tensor between an adapter's factors, and its own copy of the input where it drops parts of it out (with a
// mask) or casts it.
double kept_by(const Case& c, const std::vector<Projection>& adapters) {
  const Peft& peft = c.train.peft;
  const double own_input = peft.dropout > 0 ? 3 : c.software.lora_adapter_bytes >= 4 && !c.software.lora_fused ? 2 : 0;
  double bytes = 0;
  for (const Projection& p : adapters) {
    bytes += 2.0 * static_cast<double>(peft.rank) + own_input * static_cast<double>(p.k);
  }
  return bytes;
}

// What a layer keeps, in bytes per token of a 16-bit run, by the part that makes it.
struct KeptTensors {
  double hidden = 0;         // inputs and outputs of the norms, dropout masks, the latent vectors
  double scores = 0;         // of unfused attention
  double qkv = 0;            // queries, keys and values
  double attention_out = 0;  // the attention's output, with the sums of its softmax
  double mlp = 0;            // of a dense layer
  double router = 0, copies = 0, experts = 0, shared = 0;
  double adapters = 0;
  double predictor = 0;

  double total() const {
    return hidden + scores + qkv + attention_out + mlp + router + copies + experts + shared + adapters + predictor;
  }
};

// Of an element of the MLP's width: what stands between its products.
double kept_of_mlp_element(const Case& c) {
  const Software& s = c.software;
  const double output = s.keeps_activation_output ? kept_inputs(c).mlp_out * kept_input_bytes(c) : 0;
  return (c.model.gated ? s.gated_kept_bytes : s.gelu_kept_bytes) + output;
}

// Copies of a token that a rank's experts work on.
double copies_of_token(const Case& c) {
  return static_cast<double>(c.model.top_k) * c.plan.expert_load() / hidden_shards(c);
}

// Compressed queries and key-values before and after their norms, in bytes per token.
double kept_latent(const Case& c) {
  const auto& mla = *c.model.mla;
  const double inputs = kept_inputs(c).qkv * kept_input_bytes(c);
  return ((2 + inputs) * static_cast<double>(mla.q_lora + mla.kv_lora) + 2 * static_cast<double>(mla.qk_rope)) /
         hidden_shards(c);
}

KeptTensors kept_tensors(const Case& c, LayerKind kind) {
  const Model& m = c.model;
  const Software& s = c.software;
  const double h = static_cast<double>(m.hidden), q = static_cast<double>(m.query_width());
  const double kv = kept_kv_width(c);
  const double a = static_cast<double>(m.heads), v = m.mla ? static_cast<double>(m.value_width()) : q;
  const double tp = c.plan.tp, u = hidden_shards(c), input = kept_input_bytes(c);
  const bool gpt = m.family == Model::Family::gpt;
  // The inputs of the norms, and their outputs, which are the inputs of Q, K, V and of the MLP.
  const KeptInputs inputs = kept_inputs(c);
  double norms = (gpt ? s.layernorm_kept_bytes : s.rmsnorm_kept_bytes) + (inputs.qkv + inputs.mlp_in) * input;
  if (gpt && s.dropout_masks) norms += 2;
  KeptTensors kept;
  kept.hidden = norms * h / u;
  if (m.mla) kept.hidden += kept_latent(c);
  kept.qkv = 2 * (m.mla ? q + q + v : q + 2 * kv) / tp;
  kept.attention_out = (2 * v + (gpt && !m.mla ? 0 : 4 * a)) / tp;  // with the log of the softmax sums
  if (c.train.attention == AttentionKernel::standard) {
    kept.scores = 5 * a * static_cast<double>(c.train.seq_len) / tp;  // scores, softmax and its dropout mask
  }
  const double element = kept_of_mlp_element(c);
  const LayerAdapters adapters =
      layer_adapters(m, c.train.peft, kind, c.plan.tp, c.plan.etp, s.lora_merged_projections);
  kept.adapters = kept_by(c, adapters.outside_experts());
  if (kind.experts) {
    // Every copy of a token is kept as the experts' input, and (kept_copies) in the other orders it is brought into.
    const double copies = copies_of_token(c);
    kept.router = 8.0 * static_cast<double>(m.experts) / u;
    kept.copies = copies * (inputs.mlp_in * input + 2 * (s.experts.kept_copies - 1)) * h;
    kept.experts = copies * (element * static_cast<double>(m.expert_ffn) + kept_by(c, adapters.of_expert()));
    kept.shared = element * static_cast<double>(m.shared_expert_ffn) / tp;
  } else {
    kept.mlp = element * static_cast<double>(m.ffn) / tp;
  }
  // Of a prediction module the inputs of its norms, and what they make, which its projection works on.
  if (kind.predictor) kept.predictor = ((1 + 2 * inputs.prediction) * input + 2) * h / u;
  return kept;
}

// What the weight gradients of a layer are made of, in bytes per token: the inputs of its linear layers and the
// gradients of their outputs, as their products read them.
double deferred_per_token(const Case& c, LayerKind kind) {
  const Model& m = c.model;
  const double h = static_cast<double>(m.hidden), q = static_cast<double>(m.query_width());
  const double kv = kept_kv_width(c);
  const double f = static_cast<double>(m.ffn), input = kept_input_bytes(c);
  const double gradient =
      is_quantised(c.train.precision) ? operand_bytes(c.train.precision) + c.train.fp8.activation_scale_bytes() : 2;
  if (kind.experts) {
    const double copies = copies_of_token(c);
    const double shared = static_cast<double>(m.shared_expert_ffn), wide = m.gated ? 2 : 1;
    const auto expert = static_cast<double>(m.expert_ffn);
    const double mlp_inputs = copies * (h + expert) + h / hidden_shards(c) + shared / c.plan.tp;
    const double mlp_outputs = copies * (h + wide * expert) + h / hidden_shards(c) + wide * shared / c.plan.tp;
    return input * (h / hidden_shards(c) + q / c.plan.tp + mlp_inputs) +
           gradient * (h / hidden_shards(c) + (q + 2 * kv) / c.plan.tp + mlp_outputs);
  }
  const double inputs = input * (2 * h / hidden_shards(c) + (q + f) / c.plan.tp);
  const double outputs = gradient * (2 * h / hidden_shards(c) + (q + 2 * kv + (m.gated ? 2 : 1) * f) / c.plan.tp);
  return inputs + outputs;
}

// Of the tensors a layer keeps, what recompute of its parts leaves: all but what the redone parts make. A module's
// output that the next one works on is kept as that one's input.
double kept_beside(const Case& c, LayerKind kind, const RedoneParts& redone) {
  const Model& m = c.model;
  const Software& s = c.software;
  const double h = static_cast<double>(m.hidden) / hidden_shards(c), input = kept_input_bytes(c);
  const double of_activation = m.gated ? 4 : 2;  // gate and up, or the input of GELU
  const double kept_of_norms = m.family == Model::Family::gpt ? s.layernorm_kept_bytes : s.rmsnorm_kept_bytes;
  const double kept_of_mlp = m.gated ? s.gated_kept_bytes : s.gelu_kept_bytes;
  const double made_by_activation =
      std::max(0.0, kept_of_mlp - of_activation) + (s.keeps_activation_output ? input : 0);
  KeptTensors kept = kept_tensors(c, kind);
  if (redone.norms) kept.hidden -= (std::max(0.0, kept_of_norms - 4) + 2 * input) * h;
  if (redone.qkv || redone.up_projections) kept.qkv = 0;
  if (redone.core_attention) {
    kept.scores = 0;
    if (m.family != Model::Family::gpt || m.mla) kept.attention_out -= 4 * static_cast<double>(m.heads) / c.plan.tp;
    if (redone.qkv) kept.attention_out = 0;  // the whole block, to the input of its last projection
  }
  const double f = kind.experts ? 0 : static_cast<double>(m.ffn) / c.plan.tp;
  if (redone.mlp_in) kept.mlp -= std::min(kept_of_mlp, of_activation) * f;
  if (redone.activation) kept.mlp -= made_by_activation * f;
  if (!kind.experts) return kept.total();
  if (redone.expert_activation) {
    kept.experts -= made_by_activation * copies_of_token(c) * static_cast<double>(m.expert_ffn);
  }
  if (redone.shared_experts) kept.shared = 0;
  if (redone.experts) kept.router = kept.copies = kept.experts = kept.shared = 0;
  return kept.total();
}

// Where all of a layer but some outputs is redone, in bytes per token: its input and what is saved. What stands before
// the layer of a prediction module is always kept.
double kept_saved(const Case& c, LayerKind kind, const RedoneParts& redone) {
  const Model& m = c.model;
  const KeptTensors all = kept_tensors(c, kind);
  const double h = static_cast<double>(m.hidden) / hidden_shards(c), tp = c.plan.tp;
  const double f = kind.experts ? 0 : static_cast<double>(m.ffn) / tp;
  const double v = static_cast<double>(m.mla ? m.value_width() : m.query_width()) / tp;
  const double sums = m.family == Model::Family::gpt && !m.mla ? 0 : 4 * static_cast<double>(m.heads) / tp;
  // The MLP's last product may be spared for other reasons.
  const std::vector<std::string>& names = c.plan.recompute.names;
  const bool saves_mlp = !kind.experts && std::find(names.begin(), names.end(), "mlp") != names.end();
  double kept = 2 * h + all.predictor + (redone.core_attention ? 0 : 2 * v + sums) +
                (redone.attention_out ? 0 : 2 * h) + (redone.mlp_in ? 0 : (m.gated ? 4 : 2) * f) +
                (saves_mlp ? 2 * h : 0);
  if (m.mla && !redone.qkv) kept += kept_latent(c);
  if (m.mla ? !redone.up_projections : !redone.qkv) kept += all.qkv;
  if (!redone.experts) kept += all.router + all.copies + all.experts + all.shared;
  return kept;
}

double checkpoint_per_token(const Case& c) { return 2.0 * static_cast<double>(c.model.hidden) / hidden_shards(c); }

double kept_per_token(const Case& c, LayerKind kind, bool recomputed) {
  const Recompute& recompute = c.plan.recompute;
  if (recomputed) return checkpoint_per_token(c);
  const RedoneParts redone = recompute.redone(c.software);
  if (recompute.mode == Recompute::Mode::saved) return kept_saved(c, kind, redone);
  if (recompute.mode == Recompute::Mode::modules) return kept_beside(c, kind, redone);
  const KeptTensors kept = kept_tensors(c, kind);
  return kept.total() - (recompute.of_attention_core(c.software) ? kept.scores : 0);
}

// The most that the gradients of a layer's tensors add to what is kept of them, in bytes per token. That is where the
// backward pass is at the activation of the MLP: the gradients of its output and inputs are there, beside those of the
// layer's output and of the MLP's input, and the output itself, which the down projection is through with, is gone
// unless one function makes the gradients of the whole MLP, as where low-rank products are fused. (Without adapters the
// activated gate, which such a framework then keeps, takes its place.) Or it is at the scores of unfused attention:
// they, their softmax and both gradients are there, in fp32 where the softmax is not fused with its casts, and nothing
// of the MLP.
double gradients_per_token(const Case& c, LayerKind kind) {
  const Model& m = c.model;
  const KeptTensors kept = kept_tensors(c, kind);
  const double h = static_cast<double>(m.hidden) / hidden_shards(c);
  const bool output_is_freed = c.software.keeps_activation_output && !c.software.lora_fused;
  const double freed = output_is_freed ? kept_inputs(c).mlp_out * kept_input_bytes(c) : 0;
  const double element = (m.gated ? 6 : 4) - freed;
  const double beside = 4 * h;
  double at_mlp = 0;
  if (kind.experts) {
    const double running =
        c.software.experts.one_by_one ? static_cast<double>(c.plan.ep) / static_cast<double>(m.experts) : 1;
    at_mlp = running * copies_of_token(c) *
             (element * static_cast<double>(m.expert_ffn) + 4 * static_cast<double>(m.hidden));
    at_mlp = std::max(at_mlp, element * static_cast<double>(m.shared_expert_ffn) / c.plan.tp);
  } else {
    at_mlp = element * static_cast<double>(m.ffn) / c.plan.tp;
  }
  const double of_score = c.software.fused_softmax ? 2 + 2 : 4 + 4, kept_of_score = 5;
  const double scores = kept.scores * of_score / kept_of_score - (kept.mlp + kept.copies + kept.experts + kept.shared);
  return beside + std::max(at_mlp, scores);
}

double logits_of(const Case& c) {
  return tokens_of(c) * static_cast<double>(stored_vocabulary(c.model, c.plan.tp, c.software.pads_vocabulary)) /
         c.plan.tp;
}

}  // namespace

Bytes whole_activations_of_layer(const Case& c, LayerKind kind) {
  return {kept_tensors(c, kind).total() * tokens_of(c) * precision_scale(c)};
}

Bytes dropped_activations_of_layer(const Case& c, LayerKind kind) {
  const KeptTensors kept = kept_tensors(c, kind);
  return {(kept.mlp + kept.copies + kept.experts + kept.shared) * tokens_of(c) * precision_scale(c)};
}

Bytes kept_activations_of_layer(const Case& c, bool recomputed, LayerKind kind) {
  return {kept_per_token(c, kind, recomputed) * tokens_of(c) * precision_scale(c)};
}

Bytes offloaded_activations_of_layer(const Case& c, bool recomputed, LayerKind kind) {
  const double kept = kept_per_token(c, kind, recomputed);
  const double leaving = c.software.offload.layer_inputs_only ? std::min(kept, checkpoint_per_token(c)) : kept;
  return {leaving * c.plan.offload.of_activations() * tokens_of(c) * precision_scale(c)};
}

Bytes activation_gradients_of_layer(const Case& c, LayerKind kind) {
  return {gradients_per_token(c, kind) * tokens_of(c) * precision_scale(c)};
}

Bytes held_activation_gradients_of_layer(const Case& c) {
  const bool held = c.software.zero3_holds_frozen_inputs && c.train.peft.active() && c.plan.zero == 3;
  return {held ? checkpoint_per_token(c) * tokens_of(c) * precision_scale(c) : 0};
}

Bytes deferred_activations_of_layer(const Case& c, LayerKind kind) {
  return {deferred_per_token(c, kind) * tokens_of(c) * precision_scale(c)};
}

double kept_dequantised_weights(const Case& c, const Block& block) {
  const WeightFormat* format = c.train.peft.format;
  if (format == nullptr || !format->kept_for_backward) return 0;
  return (block.rest.quantised + block.experts.quantised) * element_bytes(c.train.precision);
}

LogitMemory logit_memory(const Case& c) {
  const Loss& loss = c.train.loss;
  if (loss.kind == Loss::Kind::fused) return {};
  const double logits = logits_of(c);
  if (loss.kind == Loss::Kind::chunked) {
    // The gradient takes the place of the scores. What is kept is the gradient of the head's weight, where it has one.
    const double element = element_bytes(c.train.precision);
    const bool frozen = c.train.peft.active() && !c.train.peft.full_head;
    const double weight = logits / tokens_of(c) * static_cast<double>(c.model.hidden);
    const Bytes gradient{frozen ? 0 : weight * element}, part{logits * element / static_cast<double>(loss.chunks)};
    return {.live = part + gradient, .kept = gradient, .deferred = {}};
  }
  // Every prediction module has scores of its own.
  const double all = static_cast<double>(1 + c.model.mtp) * logits, live = c.software.loss_live_bytes_per_logit;
  return {.live = {all * live},
          .kept = {all * std::min(live, c.software.loss_kept_bytes_per_logit)},
          .deferred = {all * std::min(2.0, live)}};
}

}  // namespace foretrain
