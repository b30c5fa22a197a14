#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "sim/plan/plan.h"
#include "sim/plan/read_offload.h"

namespace foretrain {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    low.push_back(i);
    if (i != n / i) high.push_back(n / i);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// "1, 2, 4": the values a rule allows, cut where nobody reads on.
std::string listed(const std::vector<std::int64_t>& values) {
  constexpr std::size_t kMostListed = 16;
  if (values.empty()) return "none";
  if (values.size() <= kMostListed) return fmt::format("{}", fmt::join(values, ", "));
  return fmt::format("{}, ... {}", fmt::join(values.begin(), values.begin() + kMostListed - 1, ", "), values.back());
}

std::vector<std::int64_t> only(std::vector<std::int64_t> values, const std::function<bool(std::int64_t)>& legal) {
  std::erase_if(values, [&legal](std::int64_t v) { return !legal(v); });
  return values;
}

// Everything the rules look at. The wide integers cannot overflow where the plan's own ints could.
struct Question {
  const PlanRequest& request;
  const Model& model;
  const Train& train;
  const ClusterDescription& cluster;
  Diagnostics& diagnostics;
  std::int64_t tp = 1, pp = 1, vpp = 1, dp = 1, cp = 1, micro_batch = 1;

  std::int64_t data_ranks() const { return dp * cp; }

  void error(std::string_view key, std::string message) const {
    diagnostics.error(request.position_of(key), std::move(message));
  }
  void warning(std::string_view key, Message message) const {
    diagnostics.warning(request.position_of(key), std::move(message));
  }
  void note(std::string_view key, Message message) const {
    diagnostics.note(request.position_of(key), std::move(message));
  }
};

// Query heads are split over the ranks; so are KV heads, or each is copied to a whole number of ranks.
bool splits_kv_heads(const Model& model, std::int64_t tp) {
  return model.kv_heads % tp == 0 || tp % model.kv_heads == 0;
}

bool splits_model(const Model& model, std::int64_t tp) {
  return model.heads % tp == 0 && splits_kv_heads(model, tp) && model.ffn % tp == 0 && model.hidden % tp == 0;
}

void check_tensor_parallel(const Question& q) {
  const Model& m = q.model;
  const auto legal = [&] {
    return listed(only(divisors(q.cluster.gpus), [&](std::int64_t tp) { return splits_model(m, tp); }));
  };
  if (m.heads % q.tp != 0)
    q.error("tp", fmt::format("tp={} does not divide heads={}; legal: {}", q.tp, m.heads, legal()));
  if (!splits_kv_heads(m, q.tp)) {
    q.error("tp", fmt::format("tp={} neither divides kv_heads={} nor is a multiple of it; legal: {}", q.tp, m.kv_heads,
                              legal()));
  }
  if (m.ffn % q.tp != 0) q.error("tp", fmt::format("tp={} does not divide ffn={}; legal: {}", q.tp, m.ffn, legal()));
  if (m.hidden % q.tp != 0) {
    q.error("tp", fmt::format("tp={} does not divide hidden={}; legal: {}", q.tp, m.hidden, legal()));
  }
}

// tp * cp * pp * dp = GPUs. Gives dp its value where it was not written; false if there is none.
bool divide_gpus(Question& q) {
  const std::int64_t gpus = q.cluster.gpus, model_ranks = q.tp * q.cp * q.pp;
  const std::string context = q.cp > 1 ? fmt::format(" x cp={}", q.cp) : "";
  if (gpus % model_ranks != 0) {
    const bool tp_fits = gpus % q.tp == 0;
    const std::string legal =
        tp_fits
            ? fmt::format("legal pp with tp={}: {}", q.tp,
                          listed(only(divisors(gpus / q.tp), [&](std::int64_t pp) { return pp <= q.model.layers; })))
            : fmt::format("legal tp: {}", listed(only(divisors(gpus), [&](std::int64_t tp) {
                            return splits_model(q.model, tp) && (gpus % q.pp != 0 || gpus / q.pp % tp == 0);
                          })));
    q.error(tp_fits && q.pp > 1 ? "pp" : "tp", fmt::format("tp={}{} x pp={} = {} does not divide {} GPUs; {}", q.tp,
                                                           context, q.pp, model_ranks, gpus, legal));
    return false;
  }
  q.dp = gpus / model_ranks;
  if (q.request.dp && *q.request.dp != q.dp) {
    q.error("dp", fmt::format("tp={}{} x pp={} x dp={} = {} is not the cluster's {} GPUs; legal: dp={}, or {} GPUs",
                              q.tp, context, q.pp, *q.request.dp, model_ranks * *q.request.dp, gpus, q.dp,
                              model_ranks * *q.request.dp));
    return false;
  }
  return true;
}

// Chunks a stage has if the scenario is silent.
std::int64_t natural_chunks(const PlanRequest& request) {
  return request.schedule && goes_there_and_back(*request.schedule) ? 2 : 1;
}

PipelineSchedule choose_schedule(const Question& q) {
  const PipelineSchedule natural = q.vpp > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
  const PipelineSchedule schedule = q.request.schedule.value_or(natural);
  const char* name = to_string(schedule);
  if (goes_there_and_back(schedule)) {
    if (q.pp == 1) {
      q.error("schedule", fmt::format("schedule {} needs a pipeline, and pp is 1; legal with pp=1: 1f1b, gpipe", name));
    } else if (q.vpp != 2) {
      q.error("vpp", fmt::format("schedule {} runs two chunks a stage, and vpp is {}; legal: vpp=2", name, q.vpp));
    } else if (schedule == PipelineSchedule::dualpipe && q.pp % 2 != 0) {
      q.error("pp", fmt::format("schedule dualpipe pairs its stages, and pp={} is odd; legal: an even pp, or schedule "
                                "dualpipe-v",
                                q.pp));
    }
  } else if (schedule == PipelineSchedule::interleaved && q.vpp == 1) {
    const std::int64_t most = q.pp > 0 ? q.model.layers / q.pp : 1;
    q.error("schedule", q.pp > 1 ? fmt::format("schedule interleaved needs vpp of 2 or more; legal vpp: 2 to {}", most)
                                 : "schedule interleaved needs pp and vpp of 2 or more; legal with pp=1: 1f1b, gpipe");
  } else if (schedule != PipelineSchedule::interleaved && q.vpp > 1) {
    q.error("schedule",
            fmt::format("schedule {} cannot run vpp={} chunks a stage; legal: interleaved, or vpp=1", name, q.vpp));
  }
  return schedule;
}

void check_pipeline(const Question& q) {
  const std::int64_t layers = q.model.layers, ends = q.request.ends_as_layers.value_or(0);
  const bool two_copies = q.request.schedule == PipelineSchedule::dualpipe;
  const std::int64_t chunks = two_copies ? q.pp : q.pp * q.vpp;
  if (q.request.layers) {
    std::int64_t sum = 0;
    for (std::int64_t n : *q.request.layers) sum += n;
    if (static_cast<std::int64_t>(q.request.layers->size()) != chunks || sum != layers) {
      q.error("layers", fmt::format("layers lists {} chunks with {} layers in all; legal: {} chunks (pp={}{}) with the "
                                    "model's {} layers",
                                    q.request.layers->size(), sum, chunks, q.pp,
                                    q.vpp > 1 && !two_copies ? fmt::format(" x vpp={}", q.vpp) : "", layers));
    } else if (ends > 0) {
      q.error("ends_as_layers",
              "ends_as_layers spreads the layers that plan.layers already deals out; write one of them");
    }
  } else if (q.pp > layers) {
    const auto legal = only(divisors(q.cluster.gpus),
                            [&](std::int64_t pp) { return pp <= layers && q.cluster.gpus / pp % q.tp == 0; });
    q.error("pp", fmt::format("pp={} is more than the {} layers; legal: {}", q.pp, layers, listed(legal)));
  } else if (q.vpp > 1 && q.pp == 1) {
    q.error("vpp", fmt::format("vpp={} needs a pipeline, and pp is 1; legal: vpp=1, or pp of 2 or more", q.vpp));
  } else if (chunks > layers + ends) {
    const std::string counted = ends > 0 ? fmt::format(" and {} ends", ends) : "";
    q.error("vpp", fmt::format("pp={} x vpp={} = {} chunks are more than the {} layers{}; legal vpp: 1 to {}", q.pp,
                               q.vpp, chunks, layers, counted, (layers + ends) / q.pp));
  }
}

// The global batch is cut into micro-batches: the same number on every data-parallel rank.
void check_batch(const Question& q, const Plan& plan) {
  const std::int64_t batch = q.train.global_batch, step = q.dp * q.micro_batch;
  if (batch == 0) return;
  const auto legal_micro_batches = [&] {
    if (batch % q.dp != 0) return std::string("none with this dp");
    const std::int64_t share = batch / q.dp;
    return listed(only(divisors(share), [&](std::int64_t size) { return feeds_schedule(plan, share / size); }));
  };
  const auto nearest = [batch](std::int64_t multiple) {
    const std::int64_t below = batch / multiple * multiple;
    return below == 0 ? fmt::format("{}", multiple) : fmt::format("{} or {}", below, below + multiple);
  };
  if (batch % step != 0) {
    const auto legal_dp =
        only(divisors(q.cluster.gpus), [&](std::int64_t dp) { return batch % (dp * q.micro_batch) == 0; });
    q.error(
        "micro_batch",
        fmt::format("global_batch={} is no multiple of dp={} x micro_batch={} = {}; legal micro_batch: {}; legal dp: "
                    "{}; legal global_batch: {}",
                    batch, q.dp, q.micro_batch, step, legal_micro_batches(), listed(legal_dp), nearest(step)));
  } else if (!q.request.micro_batch_auto && batch / step > kMostLayerPasses / q.model.layers) {
    const std::int64_t most = kMostLayerPasses / q.model.layers;
    q.error("micro_batch",
            fmt::format("global_batch={} makes {} micro-batches a step; at most {} of {} layers are simulated; use a "
                        "larger micro_batch, or a smaller global_batch",
                        batch, batch / step, most, q.model.layers));
  } else if (!q.request.micro_batch_auto && !feeds_schedule(plan, batch / step)) {
    const bool even = plan.schedule == PipelineSchedule::dualpipe;
    q.error("micro_batch",
            fmt::format("schedule {} needs {}2 x pp={}{} or more, and global_batch={} gives {}; legal micro_batch: {}",
                        to_string(plan.schedule), even ? "an even number of micro-batches, " : "", 2 * q.pp,
                        even ? "" : " micro-batches", batch, batch / step, legal_micro_batches()));
  } else if (plan.schedule == PipelineSchedule::interleaved && batch / step % q.pp != 0) {
    q.warning("micro_batch", message("{} micro-batches are no multiple of pp={}: Megatron-LM refuses that for the "
                                         "interleaved schedule; simulated in uneven groups, as PyTorch runs it",
                                         batch / step, q.pp));
  }
}

// In layers with experts the ranks of a stage are dealt anew: etp * ep of them hold all experts.
void resolve_experts(const Question& q, const Software& software, Plan& plan) {
  const Model& m = q.model;
  const std::int64_t ep = q.request.ep.value_or(1), stage = q.tp * q.cp * q.dp;
  if (m.experts == 0) {
    if (ep > 1) q.error("ep", fmt::format("ep={} needs a model with experts; legal: 1", ep));
    if (q.request.etp.value_or(1) > 1) q.error("etp", "etp needs a model with experts; legal: 1");
    plan.etp = plan.tp;
    return;
  }
  const auto legal_ep = [&](std::int64_t n, std::int64_t etp) { return m.experts % n == 0 && stage % (n * etp) == 0; };
  const auto legal_etp = [&](std::int64_t n) { return m.expert_ffn % n == 0 && stage % (ep * n) == 0; };
  std::int64_t etp = q.request.etp.value_or(software.experts.tensor_parallel ? q.tp : 1);
  if (!q.request.etp && etp > 1 && !legal_etp(etp)) {
    etp = 1;
    q.note("ep", message("etp is taken as 1: the {} ranks of a stage do not hold tp={} x ep={}", stage, q.tp, ep));
  }
  if (m.experts % ep != 0) {
    q.error("ep", fmt::format("ep={} does not divide experts={}; legal: {}", ep, m.experts,
                              listed(only(divisors(stage), [&](std::int64_t n) { return legal_ep(n, 1); }))));
  } else if (stage % ep != 0) {
    q.error("ep", fmt::format("ep={} does not divide the {} ranks of a stage (tp={} x cp={} x dp={}); legal: {}", ep,
                              stage, q.tp, q.cp, q.dp,
                              listed(only(divisors(stage), [&](std::int64_t n) { return legal_ep(n, 1); }))));
  } else if (!legal_etp(etp)) {
    q.error("etp",
            fmt::format("etp={} must divide expert_ffn={}, and ep={} x etp={} the {} ranks of a stage; legal: {}", etp,
                        m.expert_ffn, ep, etp, stage, listed(only(divisors(stage), legal_etp))));
  }
  // Each rank hands on the tokens it has; without sequence parallelism all ranks of a group have the same ones, and
  // Megatron-Core refuses to train so (core/transformer/moe/moe_layer.py).
  if (q.tp > 1 && !q.request.sequence_parallel.value_or(false)) {
    q.error("sequence_parallel", fmt::format("experts with tp={} need sequence_parallel: true, or tp=1", q.tp));
  }
  if (m.shared_expert_ffn % q.tp != 0) {
    q.error("tp", fmt::format("tp={} does not divide shared_expert_ffn={}", q.tp, m.shared_expert_ffn));
  }
  if (q.request.shard_group && *q.request.shard_group != q.data_ranks() && ep * etp > 1) {
    q.diagnostics.unsupported(q.request.position_of("shard_group"), "plan.shard_group with plan.ep");
  }
  plan.ep = static_cast<int>(ep);
  plan.etp = static_cast<int>(etp);
  plan.expert_dispatch = q.request.expert_dispatch.value_or(software.experts.dispatch);
  plan.expert_imbalance = q.request.expert_imbalance.value_or(1.0);
}

void check_window(const Question& q) {
  if (q.model.window > 0 && q.cp > 1) {
    q.diagnostics.unsupported(q.request.position_of("cp"), "plan.cp with model.window");
  }
}

// Sharded state over the data-parallel ranks.
void resolve_sharding(const Question& q, const Software& software, Plan& plan) {
  plan.zero = static_cast<int>(q.request.zero.value_or(0));
  if (plan.zero >= 2 && q.pp > 1) {
    if (!software.sharded_pipeline_gathers_once) {
      q.diagnostics.unsupported(
          q.request.position_of("zero"),
          fmt::format("plan.zero={} with plan.pp above 1 (a stage would scatter gradients{} once for "
                      "every micro-batch; legal: zero 0 or 1, or pp=1)",
                      plan.zero, plan.zero == 3 ? " and gather weights" : ""));
    } else if (plan.zero == 2) {
      q.note("zero", message("zero=2 with a pipeline is what zero=3 does there: weights stay gathered over the step"));
      plan.zero = 3;
    }
  }
  if (plan.zero >= 1 && q.data_ranks() == 1) {
    q.note("zero", message("zero={} shards nothing over a single data-parallel rank: taken as 0", plan.zero));
    plan.zero = 0;
  }
  const std::int64_t group = q.request.shard_group.value_or(0);
  if (group == 0) return;
  if (q.data_ranks() % group != 0) {
    q.error("shard_group", fmt::format("shard_group={} does not divide dp={}; legal: {}", group, q.data_ranks(),
                                       listed(divisors(q.data_ranks()))));
  } else if (plan.zero == 0 && q.data_ranks() > 1) {
    q.warning("shard_group", message("shard_group has no effect with zero=0; write zero: 1, 2 or 3"));
  } else if (group != q.data_ranks()) {
    plan.shard_group = static_cast<int>(group);
  }
}

// Every rank takes one part from the front and one from the back of a sequence, so that causal work is even.
void check_context_parallel(const Question& q) {
  if (q.cp > 1 && q.train.seq_len % (2 * q.cp) != 0) {
    q.error("cp", fmt::format("cp={} needs a seq_len that is a multiple of {}, and it is {}; legal seq_len: {}", q.cp,
                              2 * q.cp, q.train.seq_len, (q.train.seq_len / (2 * q.cp) + 1) * 2 * q.cp));
  }
}

void resolve_sequence_parallel(const Question& q, Plan& plan) {
  plan.sequence_parallel = q.request.sequence_parallel.value_or(false);
  if (!plan.sequence_parallel) return;
  if (q.tp == 1) {
    q.warning("sequence_parallel", message("sequence_parallel has no effect with tp=1"));
    plan.sequence_parallel = false;
  } else if (q.train.seq_len / q.cp % q.tp != 0) {
    q.error("sequence_parallel",
            fmt::format("seq_len={} is no multiple of tp={}, which sequence_parallel needs; legal: "
                        "seq_len {}, or sequence_parallel: false",
                        q.train.seq_len, q.tp * q.cp, (q.train.seq_len / (q.tp * q.cp) + 1) * q.tp * q.cp));
  }
}

void resolve_recompute(const Question& q, Plan& plan) {
  plan.recompute = q.request.recompute.value_or(Recompute{});
  if (plan.recompute.of_parts() && (q.model.experts > 0 || q.model.mla || q.model.mtp > 0)) {
    q.diagnostics.unsupported(q.request.position_of("recompute"),
                              "plan.recompute of parts of layers with experts, latent attention or prediction modules "
                              "(legal: none, full, blocks)");
  }
  if (plan.recompute.mode != Recompute::Mode::blocks) return;
  const std::int64_t stage_layers = (q.model.layers + q.pp - 1) / q.pp;
  if (plan.recompute.blocks > stage_layers) {
    q.error("recompute",
            fmt::format("recompute blocks={} is more than the {} layers of a pipeline stage; legal: 0 to {}",
                        plan.recompute.blocks, stage_layers, stage_layers));
  }
}

// What the GPU can compute in.
void check_precision(const Question& q) {
  const Gpu& gpu = q.cluster.gpu;
  const Precision wanted = q.train.precision;
  if (gpu.dense(wanted)) return;
  std::vector<std::string> legal;
  for (int i = 0; i < kPrecisions; ++i) {
    const auto precision = static_cast<Precision>(i);
    if (gpu.dense(precision)) legal.emplace_back(to_string(precision));
  }
  if (wanted == Precision::fp8 || !gpu.dense(Precision::fp32)) {
    q.diagnostics.error(q.train.precision_position, fmt::format("precision {} does not run on {}; legal: {}",
                                                                to_string(wanted), gpu.name, fmt::join(legal, ", ")));
  } else {
    q.diagnostics.warning(q.train.precision_position,
                          message("{} has no {} tensor cores: products run at the fp32 rate; {} are fast there",
                                      gpu.name, to_string(wanted), fmt::join(legal, ", ")));
  }
}

void check_attention(const Question& q) {
  const Gpu& gpu = q.cluster.gpu;
  if (q.train.attention == AttentionKernel::standard) return;
  std::vector<std::string> legal;
  for (int i = 1; i < kAttentionKernels; ++i) {
    if (gpu.achieved.flash[static_cast<std::size_t>(i)].forward > 0) {
      legal.emplace_back(to_string(static_cast<AttentionKernel>(i)));
    }
  }
  if (legal.empty()) {
    q.diagnostics.error(q.train.attention_position,
                        fmt::format("no flash attention kernel is known for {}; legal attention: standard", gpu.name));
  } else if (!(gpu.achieved.flash[static_cast<std::size_t>(q.train.attention)].forward > 0)) {
    q.diagnostics.warning(q.train.attention_position,
                          message("attention {} is not known on {}: the nearest of {} stands in",
                                      to_string(q.train.attention), gpu.name, fmt::join(legal, ", ")));
  }
}

// Whether adapters and quantised weights go with the rest.
void check_peft(const Question& q, const Software& software, const Plan& plan) {
  const Peft& peft = q.train.peft;
  if (!peft.active()) return;
  const SourcePosition& position = q.train.peft_position;
  if (layer_adapters(q.model, peft, 1, false).all().empty()) {
    q.diagnostics.error(position,
                        "train.peft.targets names no linear layer of this model; legal: all-linear, attention, "
                        "qv, or a list of q, k, v, o, up, down");
  }
  if (peft.rank > q.model.hidden) {
    q.diagnostics.error(position,
                        fmt::format("train.peft.rank {} is more than hidden={}: an adapter would be larger than "
                                    "what it adapts; legal: 1 to {}",
                                    peft.rank, q.model.hidden, q.model.hidden));
  }
  if (q.model.experts > 0 || q.model.mla || q.model.mtp > 0) {
    q.diagnostics.unsupported(position, "train.peft with experts, latent attention or prediction modules");
  }
  if (splits_backward(plan.schedule)) {
    q.diagnostics.unsupported(position,
                              "train.peft with a schedule that defers weight gradients (legal: 1f1b, "
                              "interleaved, gpipe)");
  }
  if (peft.format == nullptr) return;
  if (q.train.precision == Precision::fp8) {
    q.diagnostics.error(q.train.precision_position,
                        "precision fp8 multiplies fp8 weights, and kind: qlora stores them "
                        "quantised; legal: bf16 or fp16, or kind: lora");
  }
  if (plan.zero == 3 && !software.zero3_shards_quantised) {
    q.error("zero",
            fmt::format("zero=3 of {} does not shard quantised weights; legal with qlora: zero 0, 1 or 2, kind: "
                        "lora, or a framework whose FSDP shards them (hf-trainer, torch-fsdp)",
                        software.name));
  }
}

// Tensor-parallel collectives are the most frequent: say so when they leave a node.
void warn_about_placement(const Question& q, const Plan& plan) {
  if (q.cluster.nodes() < 2 || plan.tp == 1) return;
  std::int64_t span = 1;  // ranks from the first member of a tensor-parallel group to beyond its last
  for (const std::string& dimension : plan.order) {
    if (dimension == "dp") span *= plan.dp;
    if (dimension == "cp") span *= plan.cp;
    if (dimension == "pp") span *= plan.pp;
    if (dimension == "tp") {
      span *= plan.tp;
      break;
    }
  }
  if (span <= q.cluster.gpus_per_node && q.cluster.gpus_per_node % span == 0) return;
  q.warning("tp", message("tp={} reaches over nodes of {} GPUs: its collectives cross the network", plan.tp,
                              q.cluster.gpus_per_node));
}

Plan::Overlap resolve_overlap(const PlanRequest& request, const Software& software) {
  Plan::Overlap overlap;
  overlap.grad_reduce = request.overlap_grad_reduce.value_or(software.overlap_grad_reduce);
  overlap.param_gather = request.overlap_param_gather.value_or(software.overlap_param_gather);
  overlap.tp = request.overlap_tp.value_or(software.tp_overlap);
  overlap.ep = request.overlap_ep.value_or(software.experts.overlap);
  // Schedules that cut the backward pass were made for transfers beside compute.
  const bool made_for_it = request.schedule && splits_backward(*request.schedule);
  const bool interleaved = software.pipeline_overlap_interleaved && request.vpp.value_or(1) > 1;
  overlap.p2p = request.overlap_p2p.value_or(made_for_it || interleaved);
  return overlap;
}

}  // namespace

std::optional<Plan> resolve_plan(const PlanRequest& request, const Model& model, const Train& train,
                                 const ClusterDescription& cluster, const Software& software,
                                 Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  Question q{request, model, train, cluster, diagnostics};
  q.tp = request.tp.value_or(1);
  q.pp = request.pp.value_or(1);
  q.vpp = request.vpp.value_or(natural_chunks(request));
  q.cp = request.cp.value_or(1);
  q.micro_batch = request.micro_batch.value_or(1);

  Plan plan;
  check_tensor_parallel(q);
  check_pipeline(q);
  plan.schedule = choose_schedule(q);
  plan.all_forward_first = software.interleaved_all_forward_first;
  plan.ends_as_layers = static_cast<int>(request.ends_as_layers.value_or(0));
  plan.layers = request.layers.value_or(std::vector<std::int64_t>{});
  check_precision(q);
  check_attention(q);
  check_context_parallel(q);
  resolve_sequence_parallel(q, plan);
  resolve_recompute(q, plan);
  if (!divide_gpus(q)) return std::nullopt;  // the rules below need dp
  plan.pp = static_cast<int>(q.pp);
  plan.vpp = static_cast<int>(q.vpp);
  plan.tp = static_cast<int>(q.tp);
  check_batch(q, plan);
  resolve_sharding(q, software, plan);
  resolve_experts(q, software, plan);
  check_window(q);
  check_peft(q, software, plan);
  if (request.offload && (model.experts > 0 || model.mla || model.mtp > 0)) {
    diagnostics.unsupported(request.position_of("offload"),
                            "plan.offload with experts, latent attention or prediction modules");
  }
  if (request.offload && splits_backward(plan.schedule)) {
    diagnostics.unsupported(
        request.position_of("offload"),
        fmt::format("plan.offload with plan.schedule={} (legal: gpipe, 1f1b, interleaved)", to_string(plan.schedule)));
  }
  if (request.offload && request.offload->params != Offload::Place::gpu && plan.zero == 3 && q.pp > 1) {
    diagnostics.unsupported(
        request.position_of("offload"),
        "plan.offload.params with plan.zero=3 and plan.pp above 1 (legal: offload: optimizer, or pp=1)");
  }
  plan.offload = resolve_offload(request, static_cast<int>(request.zero.value_or(0)), q.data_ranks(), train, software,
                                 cluster, diagnostics);
  if (diagnostics.error_count() > errors_before) return std::nullopt;

  plan.dp = static_cast<int>(q.dp);
  plan.cp = static_cast<int>(q.cp);
  plan.context = request.context.value_or(ContextParallel::ring);
  plan.micro_batch = q.micro_batch;
  if (request.order) plan.order = *request.order;
  plan.overlap = resolve_overlap(request, software);
  warn_about_placement(q, plan);
  return plan;
}

}  // namespace foretrain
