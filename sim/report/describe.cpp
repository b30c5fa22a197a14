#include "sim/report/describe.h"

#include <fmt/format.h>

#include "sim/report/figures.h"
#include "sim/software/read_experts.h"

namespace foretrain::report {
namespace {

std::string describe_model(const Model& m) {
  std::string experts;
  if (m.experts > 0) {
    experts = fmt::format(", {}e9 active, {} of {} experts",
                          significant(static_cast<double>(m.active_parameters()) / 1e9, 3), m.top_k, m.experts);
  }
  return fmt::format("{} ({} parameters{}, {} layers, hidden {})", m.name,
                     significant(static_cast<double>(m.parameters()) / 1e9, 3) + "e9", experts, m.layers, m.hidden);
}

std::string describe_machine(const ClusterDescription& c) {
  std::string text = fmt::format("{} x {}", c.gpus, c.gpu.name);
  const char* node = c.gpus_per_host > 0 ? "NVLink domains" : "nodes";
  if (c.nodes() > 1) text += fmt::format(" in {} {} of {}", c.nodes(), node, c.gpus_per_node);
  if (!c.node_name.empty()) text += fmt::format(" ({})", c.node_name);
  if (c.gpus_per_node > 1 && c.gpus > 1) text += fmt::format(", {}", to_string(c.intra));
  if (c.nodes() > 1) {
    text += fmt::format(", {} x {:g} Gbit/s {} a node", c.nics, c.nic_rate.value * 8 / kGiga, to_string(c.network));
  }
  if (c.power_limit_watts > 0) text += fmt::format(", at most {:g} W a GPU", c.power_limit_watts);
  return text;
}

std::string describe_training(const Train& t) {
  std::string text = fmt::format("{} sequences of {} tokens a step, {}, {}, attention {}", t.global_batch, t.seq_len,
                                 to_string(t.precision), to_string(t.optimizer), to_string(t.attention));
  if (t.master_weights == MasterWeights::none) text += ", no master weights";
  if (t.peft.active()) text += fmt::format(", {} of rank {}", to_string(t.peft.kind), t.peft.rank);
  if (t.peft.format != nullptr) text += fmt::format(" over {} weights", t.peft.format->name);
  return text;
}

std::string describe_recompute(const Recompute& recompute) {
  if (recompute.mode == Recompute::Mode::blocks) return fmt::format("{} blocks a stage", recompute.blocks);
  if (recompute.mode == Recompute::Mode::modules) return fmt::format("of {}", fmt::join(recompute.names, ", "));
  if (recompute.mode == Recompute::Mode::saved) return fmt::format("of all but {}", fmt::join(recompute.names, ", "));
  return name_of(recompute.mode);
}

std::string describe_offload(const Offload& offload) {
  std::string text;
  const auto add = [&](const char* what, Offload::Place place) {
    if (place != Offload::Place::gpu) text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", what, to_string(place));
  };
  add("optimizer", offload.optimizer);
  add("weights", offload.params);
  add("gradients", offload.gradients);
  add("activations", offload.activations);
  if (offload.fraction < 1) text += fmt::format(" ({:g} of it)", offload.fraction);
  if (offload.delayed_update) text += ", updated one step late";
  return text;
}

}  // namespace

std::string describe_plan(const Case& c) {
  const Plan& p = c.plan;
  std::string text = fmt::format("tp {}{}, pp {}", p.tp, p.sequence_parallel ? " with sequence parallelism" : "", p.pp);
  if (p.vpp > 1) text += fmt::format(" x {} chunks", p.vpp);
  if (p.pp > 1) text += fmt::format(" ({})", to_string(p.schedule));
  text += fmt::format(", dp {}", p.dp);
  if (c.model.experts > 0) text += fmt::format(", ep {}", p.ep);
  if (c.model.experts > 0 && p.etp > 1) text += fmt::format(" x etp {}", p.etp);
  if (c.model.experts > 0 && p.ep > 1) text += fmt::format(" ({})", to_string(p.expert_dispatch));
  text += fmt::format(", ZeRO {}", p.zero);
  if (p.zero > 0 && p.shard_ranks() != p.dp) text += fmt::format(" over {} ranks", p.shard_ranks());
  if (p.offload.any()) text += ", offload " + describe_offload(p.offload);
  text += fmt::format(", recompute {}, micro-batch {}", describe_recompute(p.recompute), p.micro_batch);
  if (p.micro_batch > 0) text += fmt::format(" x {} a step", micro_batches(p, c.train));
  return text;
}

std::string in_words(Cause cause) {
  switch (cause) {
    case Cause::compute:
      return "compute";
    case Cause::launch:
      return "waiting for kernel launches";
    case Cause::tp_comm:
      return "tensor-parallel comm.";
    case Cause::cp_comm:
      return "context-parallel comm.";
    case Cause::ep_comm:
      return "expert-parallel comm.";
    case Cause::dp_comm:
      return "data-parallel comm.";
    case Cause::zero_comm:
      return "ZeRO gathers";
    case Cause::pp_comm:
      return "pipeline transfers";
    case Cause::bubble:
      return "pipeline bubble";
    case Cause::offload:
      return "offload stall";
    case Cause::optimizer:
      return "optimizer";
    case Cause::other:
      return "other";
  }
  return "other";
}

std::string name_of(Recompute::Mode mode) {
  switch (mode) {
    case Recompute::Mode::none:
      return "none";
    case Recompute::Mode::selective:
      return "selective";
    case Recompute::Mode::full:
      return "full";
    case Recompute::Mode::blocks:
      return "blocks";
    case Recompute::Mode::modules:
      return "modules";
    case Recompute::Mode::saved:
      return "saved";
  }
  return "none";
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

std::vector<std::pair<std::string, std::string>> describe(const Case& c) {
  return {{"model", describe_model(c.model)},
          {"machine", describe_machine(c.cluster)},
          {"training", describe_training(c.train)},
          {"plan", describe_plan(c)},
          {"software", c.software.name}};
}

}  // namespace foretrain::report
