#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "sim/config/quote.h"
#include "sim/plan/plan.h"
#include "sim/plan/read_offload.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

constexpr config::Range kRanks = {1, 1048576};

bool says_auto(const Node* node) { return node != nullptr && node->is_scalar() && node->scalar() == "auto"; }

std::optional<PipelineSchedule> read_schedule(MapReader& plan) {
  std::vector<std::string> names;
  for (int i = 0; i < kPipelineSchedules; ++i) names.emplace_back(to_string(static_cast<PipelineSchedule>(i)));
  const std::optional<std::size_t> chosen = plan.choice("schedule", names);
  return chosen ? std::optional(static_cast<PipelineSchedule>(*chosen)) : std::nullopt;
}

// The layers of each chunk, in the model's order; or `auto`.
std::optional<std::vector<std::int64_t>> read_layers(MapReader& plan, PlanRequest& request) {
  request.layers_auto = says_auto(plan.node("layers"));
  if (request.layers_auto) return std::nullopt;
  const auto texts = plan.text_list("layers");
  if (!texts) return std::nullopt;
  constexpr std::int64_t kMostLayers = 1'000'000;
  std::vector<std::int64_t> layers;
  for (const std::string& text : *texts) {
    std::int64_t value = -1;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc{} || end != text.data() + text.size() || value < 0 || value > kMostLayers) {
      plan.error("layers", message("plan.layers: {} is no number of layers; write those of every chunk, in the "
                                   "model's order, for instance [7, 8, 8, 7]",
                                   config::in_quotes(text)));
      return std::nullopt;
    }
    layers.push_back(value);
  }
  return layers;
}

constexpr config::Range kShare = {1, 1e6};

// A list with a number for every data-parallel rank, or a map with one for every kind of GPU.
std::optional<PlanRequest::PerRank> read_per_rank(MapReader& plan, const char* key, Diagnostics& diagnostics) {
  PlanRequest::PerRank numbers;
  const Node& node = plan.child(key);
  if (node.is_map()) {
    MapReader of_gpu(node, diagnostics, fmt::format("plan.{}", key));
    for (const Node::Entry& entry : node.map()) numbers.of_gpu[entry.key] = of_gpu.required_integer(entry.key, kShare);
    of_gpu.finish();
    return numbers;
  }
  const auto list = plan.number_list(key, config::Unit::count, kShare);
  if (!list) return std::nullopt;
  for (const double number : *list) {
    if (number != std::floor(number)) {
      plan.error(key, message("plan.{}: {} is no whole number", key, fmt::format("{:g}", number)));
      return std::nullopt;
    }
    numbers.of_rank.push_back(static_cast<std::int64_t>(number));
  }
  return numbers;
}

void read_micro_batches(MapReader& plan, PlanRequest& request, Diagnostics& diagnostics) {
  const Node *size = plan.node("micro_batch"), *count = plan.node("micro_batches");
  request.micro_batch_auto = says_auto(size);
  if (size != nullptr && !size->is_scalar()) {
    request.micro_batch_of_rank = read_per_rank(plan, "micro_batch", diagnostics);
  } else if (!request.micro_batch_auto) {
    request.micro_batch = plan.integer("micro_batch", kShare);
  }
  request.micro_batches_auto = says_auto(count);
  if (present(count) == nullptr || request.micro_batches_auto) return;
  if (count->is_scalar()) {
    if (const auto number = plan.integer("micro_batches", kShare)) request.micro_batches_of_rank = {{*number}, {}};
  } else {
    request.micro_batches_of_rank = read_per_rank(plan, "micro_batches", diagnostics);
  }
  if (request.micro_batch_auto) {
    plan.error("micro_batch", message("micro_batch auto does not go with numbers in micro_batches; write the size, or "
                                      "micro_batches: auto"));
  }
}

void read_overlap(MapReader& plan, PlanRequest& request, Diagnostics& diagnostics) {
  const Node* node = plan.node("overlap");
  if (node == nullptr) return;
  MapReader overlap(*node, diagnostics, "plan.overlap");
  request.overlap_grad_reduce = overlap.boolean("grad_reduce");
  request.overlap_param_gather = overlap.boolean("param_gather");
  request.overlap_tp = overlap.boolean("tp");
  request.overlap_p2p = overlap.boolean("p2p");
  request.overlap_ep = overlap.boolean("ep");
  overlap.finish();
}

// "tp-cp-ep-dp-pp", or the same as a list.
std::optional<RankOrder> read_order(MapReader& plan) {
  const std::optional<std::vector<std::string>> names = plan.text_list("order");
  if (!names) return std::nullopt;
  const std::string written = fmt::format("{}", fmt::join(*names, "-"));
  RankOrder order = kUsualOrder;
  do {
    if (to_string(order) == written) return order;
  } while (std::next_permutation(order.begin(), order.end()));
  plan.error("order", message("plan.order {} must name each of tp, cp, ep, dp, pp once, the fastest-varying first; "
                              "for instance tp-cp-ep-dp-pp",
                              config::in_quotes(written)));
  return std::nullopt;
}

// zeropp: true | {weights, gradients, secondary, group}
std::optional<ZeroPlusPlus> read_zeropp(MapReader& plan, Diagnostics& diagnostics) {
  const Node* node = plan.node("zeropp");
  if (present(node) == nullptr) return std::nullopt;
  if (!node->is_map()) {
    if (!plan.boolean("zeropp").value_or(false)) return std::nullopt;
    return ZeroPlusPlus{true, true, true, 0};
  }
  MapReader map(*node, diagnostics, "plan.zeropp");
  ZeroPlusPlus zeropp;
  zeropp.weights = map.boolean("weights").value_or(false);
  zeropp.gradients = map.boolean("gradients").value_or(false);
  zeropp.group = static_cast<int>(map.integer("group", {2, 1048576}).value_or(0));
  // A group that nothing else needs is for the second copy.
  zeropp.secondary = map.boolean("secondary").value_or(zeropp.group > 0 && !zeropp.gradients);
  map.finish();
  return zeropp;
}

}  // namespace

std::optional<PlanRequest> read_plan(const Node& node, Diagnostics& diagnostics) {
  if (node.is_scalar() && node.scalar() == "auto") {
    PlanRequest open;
    open.automatic = true;
    open.position = node.position;
    return open;
  }
  const int errors_before = diagnostics.error_count();
  MapReader plan(node, diagnostics, "plan");
  PlanRequest request;
  request.position = node.position;
  if (node.is_map()) {
    for (const Node::Entry& entry : node.map()) request.positions.emplace(entry.key, entry.value.position);
  }

  request.tp = plan.integer("tp", kRanks);
  request.pp = plan.integer("pp", kRanks);
  request.vpp = plan.integer("vpp", kRanks);
  request.dp = plan.integer("dp", kRanks);
  request.cp = plan.integer("cp", kRanks);
  request.ep = plan.integer("ep", kRanks);
  request.etp = plan.integer("etp", kRanks);
  if (const auto kind = plan.choice("expert_dispatch", {"all-to-all", "two-level", "all-gather"})) {
    request.expert_dispatch = static_cast<Software::Experts::Dispatch>(*kind);
  }
  request.expert_imbalance = plan.number("expert_imbalance", config::Unit::count, {1, 1000});
  request.expert_capacity = plan.number("capacity_factor", config::Unit::count, {0.1, 1000});
  if (const auto kind = plan.choice("cp_kind", {"ring", "all-gather", "ulysses"})) {
    request.context = static_cast<ContextParallel>(*kind);
  }
  request.sequence_parallel = plan.boolean("sequence_parallel");
  request.schedule = read_schedule(plan);
  request.zero = plan.integer("zero", {0, 3});
  request.shard_group = plan.integer("shard_group", kRanks);
  request.recompute = read_recompute(plan, diagnostics);
  read_micro_batches(plan, request, diagnostics);
  request.order = read_order(plan);
  read_overlap(plan, request, diagnostics);
  request.offload = read_offload(plan, diagnostics);
  request.ends_as_layers = plan.integer("ends_as_layers", {0, 2});
  request.layers = read_layers(plan, request);
  request.zeropp = read_zeropp(plan, diagnostics);
  plan.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return request;
}

}  // namespace foretrain
