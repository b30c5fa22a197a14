#include "sim/report/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/report/figures.h"
#include "sim/software/read_experts.h"

namespace foretrain::report {
namespace {

std::string billions(std::int64_t parameters) { return significant(static_cast<double>(parameters) / 1e9, 3) + "e9"; }

Message describe_model(const Model& m) {
  const Message shape = message("{} layers, hidden {}", m.layers, m.hidden);
  if (m.experts == 0) return message("{} ({} parameters, {})", m.name, billions(m.parameters()), shape);
  return message("{} ({} parameters, {} active, {} of {} experts, {})", m.name, billions(m.parameters()),
                 billions(m.active_parameters()), m.top_k, m.experts, shape);
}

// "6 x a100-sxm4-80gb + 2 x h100-sxm5-80gb", and how many run at a speed of their own.
Message describe_gpus(const ClusterDescription& c) {
  std::vector<int> count(static_cast<std::size_t>(c.kinds()));
  int at_own_speed = 0;
  count.front() = c.gpus;
  for (const ClusterDescription::OddGpu& odd : c.odd_gpus) {
    if (odd.number >= c.gpus) continue;
    --count.front();
    ++count[static_cast<std::size_t>(odd.kind)];
    at_own_speed += odd.speed != 1.0;
  }
  std::vector<Message> kinds;
  for (int kind = 0; kind < c.kinds(); ++kind) {
    const int gpus = count[static_cast<std::size_t>(kind)];
    if (gpus == 0) continue;
    const Gpu& gpu = c.gpu_of_kind(kind);
    const Message of_kind = message("{} x {}", gpus, gpu.full_name());
    const bool limited = kind > 0 && gpu.full_name() == c.gpu.full_name();
    kinds.push_back(limited ? message("{} at another power limit", of_kind) : of_kind);
  }
  const Message all = joined(kinds, Message(std::string(" + ")));
  if (c.jitter.sigma > 0) {
    return message("{}, speeds spread by {} % (seed {})", all, fmt::format("{:g}", 100 * c.jitter.sigma),
                   c.jitter.seed);
  }
  return at_own_speed > 0 ? message("{}, {} of them at another speed", all, at_own_speed) : all;
}

Message describe_machine(const ClusterDescription& c) {
  std::vector<Message> parts;
  Message gpus = describe_gpus(c);
  if (c.nodes() > 1) {
    gpus = c.gpus_per_host > 0 ? message("{} in {} NVLink domains of {}", gpus, c.nodes(), c.gpus_per_node)
                               : message("{} in {} nodes of {}", gpus, c.nodes(), c.gpus_per_node);
  } else if (c.gpus_per_host > 0) {
    gpus = message("{} in one NVLink domain", gpus);
  }
  parts.push_back(c.node_name.empty() ? gpus : message("{} ({})", gpus, c.node_name));
  if (c.gpus_per_node > 1 && c.gpus > 1) parts.push_back(Message(to_string(c.intra)));
  if (c.nodes() > 1) {
    parts.push_back(message("{} x {} Gbit/s {} a node", c.nics, fmt::format("{:g}", c.nic_rate.value * 8 / kGiga),
                            to_string(c.network)));
  }
  if (c.power_limit_watts > 0) parts.push_back(message("at most {} W a GPU", fmt::format("{:g}", c.power_limit_watts)));
  return listed(parts);
}

Message describe_training(const Train& t) {
  std::vector<Message> parts = {message("{} sequences of {} tokens a step", t.global_batch, t.seq_len),
                                Message(to_string(t.precision)), Message(to_string(t.optimizer)),
                                message("attention {}", to_string(t.attention))};
  if (t.master_weights == MasterWeights::none) parts.push_back(message("no master weights"));
  if (t.peft.active()) {
    const Message adapters = message("{} of rank {}", to_string(t.peft.kind), t.peft.rank);
    parts.push_back(t.peft.format == nullptr ? adapters : message("{} over {} weights", adapters, t.peft.format->name));
  }
  if (t.loss.kind == Loss::Kind::chunked) parts.push_back(message("loss in {} parts", t.loss.chunks));
  if (t.loss.kind == Loss::Kind::fused) parts.push_back(message("loss without logits"));
  if (t.optimizer_in_backward) parts.push_back(message("weights updated in the backward pass"));
  if (t.fp8.recipe == Fp8::Recipe::tensor) parts.push_back(message("a scale a tensor"));
  if (t.fp8.recipe == Fp8::Recipe::block) parts.push_back(message("a scale a block"));
  if (t.fp8.dispatch) {
    parts.push_back(*t.fp8.dispatch ? message("tokens dispatched in fp8") : message("tokens dispatched in 16 bits"));
  }
  if (t.fp8.gathers_parameters) parts.push_back(message("weights gathered in fp8"));
  return listed(parts);
}

Message describe_recompute(const Case& c) {
  const Recompute& recompute = c.plan.recompute;
  if (recompute.mode == Recompute::Mode::blocks) {
    const std::int64_t layers = (c.model.layers + c.plan.pp - 1) / c.plan.pp;
    if (c.plan.pp == 1) return message("{} of {} layers", recompute.blocks, layers);
    return message("{} of {} layers a stage", recompute.blocks, layers);
  }
  const std::string names = fmt::format("{}", fmt::join(recompute.names, ", "));
  if (recompute.mode == Recompute::Mode::modules) return message("of {}", names);
  if (recompute.mode == Recompute::Mode::saved) return message("of all but {}", names);
  return std::string(Recompute::to_string(recompute.mode));
}

Message describe_offload(const Offload& offload) {
  std::vector<Message> parts;
  const auto add = [&](Message what, Offload::Place place) {
    if (place == Offload::Place::cpu) parts.push_back(message("{} to cpu", std::move(what)));
    if (place == Offload::Place::nvme) parts.push_back(message("{} to nvme", std::move(what)));
  };
  add(message("optimizer"), offload.optimizer);
  add(message("weights"), offload.params);
  add(message("gradients"), offload.gradients);
  add(message("activations"), offload.activations);
  if (offload.paged.value > 0) parts.push_back(message("{} GiB of the optimizer paged out", gib(offload.paged)));
  Message text = listed(parts);
  if (offload.fraction < 1) text = message("{} ({} of it)", text, fmt::format("{:g}", offload.fraction));
  return offload.delayed_update ? message("{}, updated one step late", text) : text;
}

// "1 x 22 + 1 x 42", "8 x (1 x 3) + 8 x (1 x 5)": ranks that follow each other and are alike together.
std::string by_data_rank(const std::vector<Plan::Share>& shares) {
  constexpr std::size_t kMostShown = 6;
  std::vector<std::string> runs;
  for (auto run = shares.begin(); run != shares.end() && runs.size() <= kMostShown;) {
    const auto end = std::find_if(run, shares.end(), [&](const Plan::Share& share) { return share != *run; });
    const std::string share = fmt::format("{} x {}", run->micro_batch, run->micro_batches);
    runs.push_back(end - run > 1 ? fmt::format("{} x ({})", end - run, share) : share);
    run = end;
  }
  if (runs.size() > kMostShown) runs.back() = "...";
  return fmt::format("{}", fmt::join(runs, " + "));
}

}  // namespace

Message listed(const std::vector<Message>& parts) { return joined(parts, message(", ")); }

Message describe_plan(const Case& c) {
  const Plan& p = c.plan;
  std::vector<Message> parts = {p.sequence_parallel ? message("tp {} with sequence parallelism", p.tp)
                                                    : message("tp {}", p.tp)};
  Message pipeline = message("pp {}", p.pp);
  if (p.vpp > 1) pipeline = message("{} x {} chunks", pipeline, p.vpp);
  parts.push_back(p.pp > 1 ? message("{} ({})", pipeline, to_string(p.schedule)) : pipeline);
  if (p.cp > 1) parts.push_back(message("cp {}", p.cp));
  parts.push_back(message("dp {}", p.dp));
  if (c.model.experts > 0) {
    Message experts = message("ep {}", p.ep);
    if (p.etp > 1) experts = message("{} x etp {}", experts, p.etp);
    if (p.ep > 1) experts = message("{} ({})", experts, to_string(p.expert_dispatch));
    const std::string capacity = fmt::format("{:g}", p.expert_capacity);
    parts.push_back(p.expert_capacity > 0 ? message("{} with capacity {}", experts, capacity) : experts);
  }
  parts.push_back(p.zero > 0 && p.shard_ranks() != p.data_ranks()
                      ? message("ZeRO {} over {} ranks", p.zero, p.shard_ranks())
                      : message("ZeRO {}", p.zero));
  if (p.zeropp.weights) parts.push_back(message("weights gathered in int8"));
  if (p.zeropp.gradients) parts.push_back(message("gradients scattered in int4"));
  if (p.zeropp.secondary) parts.push_back(message("a second copy every {} ranks", p.zeropp.group));
  if (p.offload.any()) parts.push_back(message("offload {}", describe_offload(p.offload)));
  parts.push_back(message("recompute {}", describe_recompute(c)));
  if (!p.layers.empty()) parts.push_back(message("layers {}", fmt::format("{}", fmt::join(p.layers, "+"))));
  if (p.to_balance.layers) parts.push_back(message("layers by speed"));
  if (!p.shares.empty()) {
    parts.push_back(message("micro-batch {} a step by data-parallel rank", by_data_rank(p.shares)));
  } else if (p.to_balance.batch) {
    parts.push_back(message("micro-batches by speed"));
  } else {
    parts.push_back(p.micro_batch > 0 ? message("micro-batch {} x {} a step", p.micro_batch, micro_batches(p, c.train))
                                      : message("micro-batch {}", p.micro_batch));
  }
  return listed(parts);
}

Message in_words(Cause cause) {
  switch (cause) {
    case Cause::compute:
      return message("compute");
    case Cause::launch:
      return message("waiting for kernel launches");
    case Cause::tp_comm:
      return message("tensor-parallel comm.");
    case Cause::cp_comm:
      return message("context-parallel comm.");
    case Cause::ep_comm:
      return message("expert-parallel comm.");
    case Cause::dp_comm:
      return message("data-parallel comm.");
    case Cause::zero_comm:
      return message("ZeRO gathers");
    case Cause::pp_comm:
      return message("pipeline transfers");
    case Cause::bubble:
      return message("pipeline bubble");
    case Cause::offload:
      return message("offload stall");
    case Cause::optimizer:
      return message("optimizer");
    case Cause::other:
      return message("other");
  }
  return message("other");
}

Message in_words(std::string_view rate) {
  static const std::map<std::string_view, Message> kWords = {{"matmul", message("matrix rate")},
                                                             {"memory_bandwidth", message("memory bandwidth")},
                                                             {"kernel_latency", message("kernel latency")},
                                                             {"host", message("host launch rate")},
                                                             {"nvlink", message("NVLink")},
                                                             {"pcie", message("PCIe")},
                                                             {"nic", message("network cards")},
                                                             {"host_memory", message("host memory")},
                                                             {"host_cores", message("host cores")},
                                                             {"nvme", message("NVMe drives")},
                                                             {"network_latency", message("link latency")},
                                                             {"other", message("other")}};
  const auto found = kWords.find(rate);
  return found == kWords.end() ? Message(std::string(rate)) : found->second;
}

Message in_words(Price::Per period) {
  switch (period) {
    case Price::Per::hour:
      return message("hour");
    case Price::Per::month:
      return message("month");
    case Price::Per::year:
      return message("year");
  }
  return message("hour");
}

Message in_words(Quote::Status status) {
  switch (status) {
    case Quote::Status::official:
      return message("official");
    case Quote::Status::market:
      return message("market");
    case Quote::Status::estimate:
      return message("estimate");
    case Quote::Status::historic:
      return message("historic");
    case Quote::Status::spot:
      return message("spot");
  }
  return message("estimate");
}

std::string name_of(ErrorBar::Confidence confidence) {
  switch (confidence) {
    case ErrorBar::Confidence::high:
      return "high";
    case ErrorBar::Confidence::medium:
      return "medium";
    case ErrorBar::Confidence::low:
      return "low";
  }
  return "low";
}

std::vector<Described> describe(const Case& c) {
  return {{message("model"), describe_model(c.model)},
          {message("machine"), describe_machine(c.cluster)},
          {message("training"), describe_training(c.train)},
          {message("plan"), describe_plan(c), true},
          {message("software"), c.software.name}};
}

}  // namespace foretrain::report
