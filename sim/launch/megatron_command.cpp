#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim/launch/settings.h"

namespace foretrain {
namespace {

// A flag with what follows it, one a line of the command.
using Flags = std::vector<std::string>;

FieldTexts megatron_fields(const Case& c) {
  const Plan& plan = c.plan;
  FieldTexts fields = common_fields(c);
  const auto put = [&](const char* path, auto value) { fields[path] = fmt::format("{}", value); };
  put("plan.tp", plan.tp);
  put("plan.pp", plan.pp);
  if (plan.schedule == PipelineSchedule::interleaved) put("plan.vpp", plan.vpp);
  if (plan.cp > 1) put("plan.cp", plan.cp);
  if (c.model.experts > 0) {
    put("plan.ep", plan.ep);
    put("plan.etp", plan.etp);
  }
  put("plan.sequence_parallel", plan.sequence_parallel);
  if (plan.tp > 1) put("plan.overlap.tp", plan.overlap.tp);
  if (plan.zero > 0 && plan.data_ranks() > 1) put("plan.overlap.param_gather", plan.overlap.param_gather);
  const Optimizer optimizer = c.train.optimizer;
  if (optimizer == Optimizer::adamw || optimizer == Optimizer::sgd) put("train.optimizer", to_string(optimizer));
  const Recompute::Mode recompute = plan.recompute.mode;
  const bool whole_layers = recompute == Recompute::Mode::full || recompute == Recompute::Mode::blocks;
  const bool of_parts = recompute == Recompute::Mode::selective || recompute == Recompute::Mode::modules;
  if (whole_layers || of_parts) put("plan.recompute", whole_layers ? "full" : "selective");
  return fields;
}

void add_recompute(const Recompute& recompute, int chunks, Flags& flags) {
  if (recompute.mode == Recompute::Mode::full) {
    flags.insert(flags.end(), {"--recompute-method uniform", "--recompute-num-layers 1"});
  } else if (recompute.mode == Recompute::Mode::blocks) {
    // Of every chunk.
    flags.insert(flags.end(), {"--recompute-method block",
                               fmt::format("--recompute-num-layers {}", (recompute.blocks + chunks - 1) / chunks)});
  } else if (recompute.mode == Recompute::Mode::modules) {
    flags.push_back(fmt::format("--recompute-modules {}", fmt::join(recompute.names, " ")));
  }
}

void add_experts(const Plan& plan, Flags& flags) {
  constexpr std::array dispatchers = {"alltoall", "flex", "allgather"};
  flags.push_back(
      fmt::format("--moe-token-dispatcher-type {}", dispatchers[static_cast<std::size_t>(plan.expert_dispatch)]));
}

void add_sharding(const Plan& plan, Flags& flags) {
  if (plan.zero >= 2) {
    // docs/source/api-guide/custom_fsdp.md of Megatron-LM: required configurations.
    flags.insert(flags.end(), {"--use-megatron-fsdp", "--no-gradient-accumulation-fusion",
                               "--use-distributed-optimizer", "--ckpt-format fsdp_dtensor"});
  }
  if (plan.zero > 0 && plan.shard_ranks() < plan.data_ranks()) {
    flags.push_back(fmt::format("--num-distributed-optimizer-instances {}", plan.data_ranks() / plan.shard_ranks()));
  }
}

void add_offload(const Case& c, Flags& flags) {
  const Offload& offload = c.plan.offload;
  if (offload.optimizer != Offload::Place::gpu) {
    flags.insert(flags.end(), {"--optimizer-cpu-offload", "--use-precision-aware-optimizer",
                               fmt::format("--optimizer-offload-fraction {:g}", offload.fraction)});
  }
  // The last layer's activations are needed again at once.
  if (offload.activations != Offload::Place::gpu) {
    flags.push_back(fmt::format("--cpu-offloading-num-layers {}", c.model.layers - 1));
  }
}

std::vector<Message> without_flag(const Case& c) {
  const Plan& plan = c.plan;
  std::vector<Message> left_out;
  const bool known_schedule =
      plan.schedule == PipelineSchedule::one_f_one_b || plan.schedule == PipelineSchedule::interleaved;
  if (!known_schedule)
    left_out.push_back(message("schedule {}: Megatron-LM itself has no flag for it", to_string(plan.schedule)));
  if (!plan.layers.empty()) {
    left_out.push_back(
        message("layers {}: --pipeline-model-parallel-layout says where they lie", fmt::join(plan.layers, ", ")));
  }
  if (!plan.shares.empty())
    left_out.push_back(message("unlike shares of the batch: Megatron-LM gives all ranks the same"));
  if (plan.recompute.mode == Recompute::Mode::saved) left_out.push_back(message("recompute of all but saved outputs"));
  if (c.train.optimizer != Optimizer::adamw && c.train.optimizer != Optimizer::sgd) {
    left_out.push_back(message("optimizer {}", to_string(c.train.optimizer)));
  }
  if (c.train.precision == Precision::nvfp4) left_out.push_back(message("precision {}", to_string(c.train.precision)));
  if (c.train.peft.active()) left_out.push_back(message("adapters"));
  left_out.push_back(message("the model's shape, data and learning rate"));
  return left_out;
}

}  // namespace

LaunchSettings megatron_command(const Case& c) {
  const Plan& plan = c.plan;
  const int per_node = std::min(c.cluster.gpus, c.cluster.gpus_per_node);
  Flags flags;
  for (const auto& [theirs, text] : in_their_words(megatron_fields(c), megatron_rules())) {
    std::string flag = "--" + theirs;
    std::replace(flag.begin(), flag.end(), '_', '-');
    flags.push_back(text == "true" ? flag : flag + " " + text);
  }
  if (is_quantised(c.train.precision)) flags.emplace_back("--bf16");
  add_recompute(plan.recompute, plan.vpp, flags);
  if (c.model.experts > 0) add_experts(plan, flags);
  add_sharding(plan, flags);
  add_offload(c, flags);
  if (plan.cp > 1) {
    constexpr std::array kinds = {"p2p", "all_gather", "a2a"};
    flags.push_back(fmt::format("--cp-comm-type {}", kinds[static_cast<std::size_t>(plan.context)]));
  }
  if (plan.ends_as_layers > 0) flags.emplace_back("--account-for-loss-in-pipeline-split");
  if (plan.ends_as_layers > 1) flags.emplace_back("--account-for-embedding-in-pipeline-split");
  const auto at = [&plan](Dimension d) { return std::find(plan.order.begin(), plan.order.end(), d); };
  if (plan.pp > 1 && plan.dp > 1 && at(Dimension::pp) < at(Dimension::dp)) flags.emplace_back("--use-tp-pp-dp-mapping");
  std::string text =
      fmt::format("torchrun --nproc_per_node {} --nnodes {} pretrain_gpt.py", per_node, c.cluster.nodes());
  for (const std::string& flag : flags) text += " \\\n  " + flag;
  return {text + "\n", without_flag(c)};
}

}  // namespace foretrain
