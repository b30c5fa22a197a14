#include <algorithm>

#include "sim/plan/rules.h"

namespace foretrain {
namespace {

// Query heads are split over the ranks; so are KV heads, or each is copied to a whole number of ranks.
bool splits_kv_heads(const Model& model, std::int64_t tp) {
  return model.kv_heads % tp == 0 || tp % model.kv_heads == 0;
}

bool splits_model(const Model& model, std::int64_t tp) {
  return model.heads % tp == 0 && splits_kv_heads(model, tp) && model.ffn % tp == 0 && model.hidden % tp == 0;
}

// Whether the heads of a tensor-parallel rank can be dealt to the ranks of its context-parallel group.
bool deals_heads(const Model& m, std::int64_t tp, std::int64_t cp) {
  const std::int64_t kv = std::max<std::int64_t>(1, m.kv_heads / tp);
  return m.heads / tp % cp == 0 && (kv % cp == 0 || cp % kv == 0);
}

}  // namespace

void check_tensor_parallel(const Question& q) {
  const Model& m = q.model;
  const auto legal = [&] {
    return listed(only(divisors(q.cluster.gpus), [&](std::int64_t tp) { return splits_model(m, tp); }));
  };
  if (m.heads % q.tp != 0) q.error("tp", message("tp={} does not divide heads={}; legal: {}", q.tp, m.heads, legal()));
  if (!splits_kv_heads(m, q.tp)) {
    q.error("tp",
            message("tp={} neither divides kv_heads={} nor is a multiple of it; legal: {}", q.tp, m.kv_heads, legal()));
  }
  if (m.ffn % q.tp != 0) q.error("tp", message("tp={} does not divide ffn={}; legal: {}", q.tp, m.ffn, legal()));
  if (m.hidden % q.tp != 0) {
    q.error("tp", message("tp={} does not divide hidden={}; legal: {}", q.tp, m.hidden, legal()));
  }
}

// Off unless it is asked for; experts are not trained without it.
void resolve_sequence_parallel(const Question& q, Plan& plan) {
  const bool needed = q.model.experts > 0 && q.tp > 1;
  plan.sequence_parallel = q.request.sequence_parallel.value_or(needed);
  if (needed && !q.request.sequence_parallel)
    q.note("tp", message("sequence_parallel is taken as true: experts with tp={} need it", q.tp));
  if (!plan.sequence_parallel) return;
  if (q.tp == 1) {
    q.warning("sequence_parallel", message("sequence_parallel has no effect with tp=1"));
    plan.sequence_parallel = false;
  } else if (q.train.seq_len / q.cp % q.tp != 0) {
    q.error("sequence_parallel",
            message("seq_len={} is no multiple of tp={}, which sequence_parallel needs; legal: "
                    "seq_len {}, or sequence_parallel: false",
                    q.train.seq_len, q.tp * q.cp, (q.train.seq_len / (q.tp * q.cp) + 1) * q.tp * q.cp));
  }
}

// Keys and values travel in a ring unless the scenario says; windows cut off what a ring would pass on, and no
// framework has one for them (Transformer Engine: all-gather or all-to-all with sliding windows).
void resolve_context_parallel(const Question& q, Plan& plan) {
  plan.context = q.request.context.value_or(ContextParallel::ring);
  if (q.cp == 1) return;
  if (q.model.window > 0 && !q.request.context) {
    plan.context = ContextParallel::all_gather;
    q.note("cp", message("cp_kind is taken as all-gather: the model's attention has a window"));
  } else if (q.model.window > 0 && plan.context == ContextParallel::ring) {
    q.error("cp_kind",
            message("cp_kind ring passes every key round, and the model's attention has a window; legal: all-gather, "
                    "ulysses"));
  }
  if (plan.context == ContextParallel::ulysses) {
    if (q.model.heads % q.tp == 0 && !deals_heads(q.model, q.tp, q.cp)) {
      q.error("cp", message("cp={} with cp_kind ulysses deals out the {} heads (kv_heads {}) that tp={} leaves a rank; "
                            "legal cp: {}, or cp_kind ring or all-gather",
                            q.cp, q.model.heads / q.tp, std::max<std::int64_t>(1, q.model.kv_heads / q.tp), q.tp,
                            listed(only(divisors(q.model.heads / q.tp),
                                        [&](std::int64_t cp) { return deals_heads(q.model, q.tp, cp); }))));
    } else if (q.train.seq_len % q.cp != 0) {
      q.error("cp", message("cp={} needs a seq_len that is a multiple of it, and it is {}; legal seq_len: {}", q.cp,
                            q.train.seq_len, (q.train.seq_len / q.cp + 1) * q.cp));
    }
    return;
  }
  // Every rank takes one part from the front and one from the back of a sequence, so that causal work is even.
  if (q.train.seq_len % (2 * q.cp) != 0) {
    q.error("cp", message("cp={} needs a seq_len that is a multiple of {}, and it is {}; legal seq_len: {}", q.cp,
                          2 * q.cp, q.train.seq_len, (q.train.seq_len / (2 * q.cp) + 1) * 2 * q.cp));
  }
}

bool divide_gpus(Question& q) {
  const std::int64_t gpus = q.cluster.gpus, model_ranks = q.tp * q.cp * q.pp;
  const std::string context = q.cp > 1 ? fmt::format(" x cp={}", q.cp) : "";
  if (gpus % model_ranks != 0) {
    const bool tp_fits = gpus % q.tp == 0;
    const Message legal =
        tp_fits ? message("legal pp with tp={}: {}", q.tp,
                          listed(only(divisors(gpus / q.tp), [&](std::int64_t pp) { return pp <= q.model.layers; })))
                : message("legal tp: {}", listed(only(divisors(gpus), [&](std::int64_t tp) {
                            return splits_model(q.model, tp) && (gpus % q.pp != 0 || gpus / q.pp % tp == 0);
                          })));
    q.error(tp_fits && q.pp > 1 ? "pp" : "tp",
            message("tp={}{} x pp={} = {} does not divide {} GPUs; {}", q.tp, context, q.pp, model_ranks, gpus, legal));
    return false;
  }
  q.dp = gpus / model_ranks;
  if (q.request.dp && *q.request.dp != q.dp) {
    q.error("dp", message("tp={}{} x pp={} x dp={} = {} is not the cluster's {} GPUs; legal: dp={}, or {} GPUs", q.tp,
                          context, q.pp, *q.request.dp, model_ranks * *q.request.dp, gpus, q.dp,
                          model_ranks * *q.request.dp));
    return false;
  }
  return true;
}

// Sharded state over the data-parallel ranks.
void resolve_sharding(const Question& q, const Software& software, Plan& plan) {
  plan.zero = static_cast<int>(q.request.zero.value_or(0));
  if (plan.zero >= 2 && q.pp > 1) {
    if (!software.sharded_pipeline_gathers_once) {
      q.diagnostics.unsupported(q.request.position_of("zero"),
                                message("plan.zero={} with plan.pp above 1 (a stage would scatter gradients{} once for "
                                        "every micro-batch; legal: zero 0 or 1, or pp=1)",
                                        plan.zero, plan.zero == 3 ? message(" and gather weights") : Message()));
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
    q.error("shard_group", message("shard_group={} does not divide dp={}; legal: {}", group, q.data_ranks(),
                                   listed(divisors(q.data_ranks()))));
  } else if (plan.zero == 0 && q.data_ranks() > 1) {
    q.warning("shard_group", message("shard_group has no effect with zero=0; write zero: 1, 2 or 3"));
  } else if (group != q.data_ranks()) {
    plan.shard_group = static_cast<int>(group);
  }
}

// ZeRO++: which groups there are, and what it does not go with.
void resolve_zeropp(const Question& q, const Software& software, Plan& plan) {
  const ZeroPlusPlus wanted = q.request.zeropp.value_or(ZeroPlusPlus{});
  if (!wanted.any()) return;
  if (q.request.zero.value_or(0) != 3) {
    q.error("zeropp", message("plan.zeropp is about the traffic of ZeRO-3; legal: zero: 3, or no zeropp"));
    return;
  }
  if (!software.zeropp) {
    q.error("zeropp", message("{} has no ZeRO++; legal: software: deepspeed, or no zeropp", software.name));
    return;
  }
  if (q.pp > 1)
    q.diagnostics.unsupported(q.request.position_of("zeropp"),
                              message("plan.zeropp with plan.pp above 1 (legal: pp=1)"));
  if (q.model.experts > 0)
    q.diagnostics.unsupported(q.request.position_of("zeropp"),
                              message("plan.zeropp of models with experts (legal: a dense model)"));
  if (q.train.peft.format != nullptr)
    q.error("zeropp",
            message("plan.zeropp quantises what quantised weights are already; legal: kind: lora, or no zeropp"));
  if (plan.shard_group > 0)
    q.error("shard_group", message("plan.zeropp shards over all data-parallel ranks; legal: no shard_group"));
  if (plan.zero != 3) return;  // a single rank
  const std::vector<std::int64_t> legal = only(divisors(q.data_ranks()), [](std::int64_t n) { return n >= 2; });
  plan.zeropp = wanted;
  if (wanted.group > 0) {
    if (q.data_ranks() % wanted.group != 0)
      q.error("zeropp", message("plan.zeropp.group={} does not divide dp={}; legal: {}", wanted.group, q.data_ranks(),
                                listed(legal)));
    return;
  }
  const std::int64_t in_a_node = std::max<std::int64_t>(2, q.cluster.gpus_per_node / q.tp);
  const auto group = std::find_if(legal.rbegin(), legal.rend(), [&](std::int64_t n) { return n <= in_a_node; });
  plan.zeropp.group = static_cast<int>(group == legal.rend() ? q.data_ranks() : *group);
}

// Tensor-parallel collectives are the most frequent: say so when they leave a node.
void warn_about_placement(const Question& q, const Plan& plan) {
  if (q.cluster.nodes() < 2 || plan.tp == 1) return;
  std::int64_t span = 1;  // ranks from the first member of a tensor-parallel group to beyond its last
  for (const Dimension dimension : plan.order) {
    if (dimension == Dimension::dp) span *= plan.dp;
    if (dimension == Dimension::cp) span *= plan.cp;
    if (dimension == Dimension::pp) span *= plan.pp;
    if (dimension == Dimension::tp) {
      span *= plan.tp;
      break;
    }
  }
  if (span <= q.cluster.gpus_per_node && q.cluster.gpus_per_node % span == 0) return;
  q.warning("tp", message("tp={} reaches over nodes of {} GPUs: its collectives cross the network", plan.tp,
                          q.cluster.gpus_per_node));
}

}  // namespace foretrain
