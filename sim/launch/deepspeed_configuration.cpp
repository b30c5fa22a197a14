#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/launch/settings.h"

namespace foretrain {
namespace {

using Json = nlohmann::ordered_json;

// "true" and "3" are no texts in JSON.
Json typed(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  return value.is_boolean() || value.is_number() ? value : Json(text);
}

// "zero_optimization.stage" as maps in each other.
void put(Json& root, std::string_view path, Json value) {
  Json* at = &root;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  (*at)[std::string(path)] = std::move(value);
}

FieldTexts deepspeed_fields(const Case& c) {
  const Offload& offload = c.plan.offload;
  FieldTexts fields = common_fields(c);
  if (offload.optimizer != Offload::Place::gpu) fields["plan.offload.optimizer"] = to_string(offload.optimizer);
  if (offload.params != Offload::Place::gpu) fields["plan.offload.params"] = to_string(offload.params);
  if (c.plan.zeropp.weights) fields["plan.zeropp.weights"] = "true";
  if (c.plan.zeropp.gradients) fields["plan.zeropp.gradients"] = "true";
  return fields;
}

std::vector<Message> outside_configuration(const Case& c) {
  const Plan& plan = c.plan;
  const auto on_drives = [](Offload::Place place) { return place == Offload::Place::nvme; };
  std::vector<Message> left_out;
  if (plan.tp > 1) left_out.push_back(message("tp {}: of the model's code", plan.tp));
  if (plan.pp > 1)
    left_out.push_back(message("pp {}: PipelineModule(num_stages={}) in the model's code", plan.pp, plan.pp));
  if (plan.cp > 1) left_out.push_back(message("cp {}: sequence parallelism of Ulysses, in the model's code", plan.cp));
  if (plan.recompute.mode != Recompute::Mode::none) {
    left_out.push_back(message("recompute {}: gradient checkpointing, in the model's code or the trainer's settings",
                               Recompute::to_string(plan.recompute.mode)));
  }
  if (!plan.shares.empty())
    left_out.push_back(message("unlike shares of the batch: DeepSpeed gives all ranks the same"));
  if (plan.zero > 0 && plan.shard_ranks() < plan.data_ranks()) left_out.push_back(message("sharding in groups"));
  if (on_drives(plan.offload.optimizer) || on_drives(plan.offload.params)) {
    left_out.push_back(message("nvme_path of what is offloaded: where the drives are"));
  }
  left_out.push_back(message("the model, data, optimizer and learning rate"));
  return left_out;
}

}  // namespace

LaunchSettings deepspeed_configuration(const Case& c) {
  const Plan& plan = c.plan;
  Json json;
  for (const auto& [theirs, text] : in_their_words(deepspeed_fields(c), deepspeed_rules()))
    put(json, theirs, typed(text));
  put(json, "gradient_accumulation_steps", micro_batches(plan, c.train));
  if (plan.zeropp.secondary) put(json, "zero_optimization.zero_hpz_partition_size", plan.zeropp.group);
  if (plan.offload.activations != Offload::Place::gpu) put(json, "activation_checkpointing.cpu_checkpointing", true);
  return {json.dump(2) + "\n", outside_configuration(c)};
}

}  // namespace foretrain
