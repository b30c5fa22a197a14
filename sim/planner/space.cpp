#include "sim/planner/space.h"

#include <algorithm>
#include <functional>

namespace foretrain {
namespace {

// A replica's batch is not cut into larger micro-batches than anybody runs.
constexpr std::int64_t kLargestMicroBatch = 1024;

std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 1; i <= std::min(n, most); ++i) {
    if (n % i == 0) result.push_back(i);
  }
  return result;
}

std::vector<std::int64_t> fixed_or(const std::optional<std::int64_t>& fixed, std::vector<std::int64_t> open) {
  return fixed ? std::vector{*fixed} : std::move(open);
}

std::vector<std::int64_t> degrees(const std::optional<std::int64_t>& fixed, bool offered, std::int64_t n,
                                  std::int64_t most) {
  return fixed_or(fixed, divisors(n, offered ? most : 1));
}

std::vector<PipelineSchedule> schedules(const Case& c, const PlanRequest& fixed, std::int64_t pp) {
  if (fixed.schedule) return {*fixed.schedule};
  if (pp == 1) return {PipelineSchedule::one_f_one_b};
  std::vector<PipelineSchedule> open = {PipelineSchedule::one_f_one_b};
  const Software::Offers& offers = c.software.offers;
  if (offers.interleaved && pp >= offers.interleaved_stages) open.push_back(PipelineSchedule::interleaved);
  if (offers.zero_bubble) {
    for (auto zero_bubble :
         {PipelineSchedule::zero_bubble, PipelineSchedule::zero_bubble_2p, PipelineSchedule::zero_bubble_v}) {
      open.push_back(zero_bubble);
    }
  }
  if (offers.dualpipe) {
    if (pp % 2 == 0) open.push_back(PipelineSchedule::dualpipe);
    open.push_back(PipelineSchedule::dualpipe_v);
  }
  return open;
}

// Chunks of a stage under a schedule.
std::vector<std::int64_t> chunks(const Case& c, const PlanRequest& fixed, std::int64_t pp, PipelineSchedule schedule) {
  if (fixed.vpp) return {*fixed.vpp};
  if (goes_there_and_back(schedule)) return {2};
  if (schedule != PipelineSchedule::interleaved) return {1};
  const std::int64_t layers = c.model.layers / pp;
  std::vector<std::int64_t> open = divisors(layers, layers);
  // Where layers do not divide, the ends of the model get one fewer: 126 layers in 8 stages are cut as 128 would be.
  if (c.model.layers % pp != 0) {
    for (std::int64_t vpp : divisors(layers + 1, layers)) open.push_back(vpp);
    std::sort(open.begin(), open.end());
    open.erase(std::unique(open.begin(), open.end()), open.end());
  }
  std::erase(open, 1);
  return open;
}

// Ranks that experts are spread over.
std::vector<std::int64_t> expert_degrees(const Case& c, const PlanRequest& fixed, std::int64_t pp) {
  return fixed_or(fixed.ep,
                  c.model.experts > 0 ? divisors(c.cluster.gpus / pp, c.model.experts) : std::vector<std::int64_t>{1});
}

// Members of a data-parallel group that lie in the node of the first.
std::int64_t group_within_node(const Case& c, const Plan& plan) {
  const auto node = [&c](int rank) { return rank / c.cluster.gpus_per_node; };
  std::int64_t members = 0;
  for (int dp = 0; dp < plan.dp; ++dp) {
    for (int cp = 0; cp < plan.cp; ++cp) members += node(rank_of(plan, {0, dp, 0, cp})) == 0;
  }
  return members;
}

}  // namespace

PlanSpace::PlanSpace(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants)
    : case_(subject), cluster_(cluster), constants_(constants), fixed_(subject.open_plan.value_or(PlanRequest{})) {
  const std::int64_t gpus = subject.cluster.gpus;
  const Software::Offers& offers = subject.software.offers;
  for (std::int64_t tp : degrees(fixed_.tp, offers.tensor, gpus, gpus)) {
    for (std::int64_t cp : degrees(fixed_.cp, offers.context, gpus / std::min(tp, gpus), gpus)) {
      for (std::int64_t pp : degrees(fixed_.pp, offers.pipeline, gpus, std::min(gpus, subject.model.layers))) {
        if (gpus % tp != 0 || gpus / tp % cp != 0 || gpus / tp / cp % pp != 0) continue;
        for (PipelineSchedule schedule : schedules(subject, fixed_, pp)) {
          for (std::int64_t vpp : chunks(subject, fixed_, pp, schedule)) {
            for (std::int64_t ep : expert_degrees(subject, fixed_, pp)) {
              PlanChoice family;
              family.ep = ep;
              family.tp = tp, family.cp = cp, family.pp = pp, family.vpp = vpp, family.schedule = schedule;
              add_family(family);
              const bool several = offers.rank_orders && pp > 1 && tp * cp * pp < gpus && subject.cluster.nodes() > 1;
              if (!several || fixed_.order) continue;
              family.stages_within_replicas = true;
              add_family(family);
            }
          }
        }
      }
    }
  }
}

// What a run without a pipeline said of overlap may not be had with one.
PlanRequest PlanSpace::request_for(const PlanChoice& choice) const {
  PlanRequest request = request_of(choice, fixed_);
  if (choice.pp > 1 && !fixed_.pp && !case_.software.offers.overlap_in_pipelines) request.overlap_grad_reduce = false;
  return request;
}

// With the micro-batch left open, the rules that look at it are left aside.
void PlanSpace::add_family(const PlanChoice& choice) {
  PlanRequest request = request_for(choice);
  request.micro_batch.reset();
  request.micro_batch_auto = true;
  request.zero = fixed_.zero;
  request.shard_group = fixed_.shard_group;
  request.recompute = fixed_.recompute;
  // A batch that does not divide may still be dealt out.
  if (unlike(choice).data_ranks) request.micro_batches_auto = true;
  // Some models need sequence parallelism, some batches forbid it.
  for (bool sequence : {false, true}) {
    if (sequence && !case_.software.offers.sequence && !fixed_.sequence_parallel) continue;
    request.sequence_parallel = fixed_.sequence_parallel.value_or(sequence);
    Diagnostics said;
    if (resolve_plan(request, case_.model, case_.train, case_.cluster, case_.software, said)) {
      families_.push_back(choice);
      return;
    }
    if (refusal_.all().empty()) refusal_ = said;
  }
}

std::optional<Plan> PlanSpace::plan_of(const PlanChoice& choice) const {
  Balancer balancer(cluster_, constants_);
  Balances balances{balancer, {}};
  return plan_of(choice, balances);
}

std::optional<Plan> PlanSpace::plan_of(const PlanChoice& choice, Balances& balances) const {
  Diagnostics said;
  std::optional<Plan> plan =
      resolve_plan(request_for(choice), case_.model, case_.train, case_.cluster, case_.software, said);
  if (!plan || !plan->to_balance.any()) return plan;
  const std::tuple key(plan->micro_batch, plan->recompute.mode, plan->recompute.blocks, plan->sequence_parallel,
                       plan->zero, plan->to_balance.layers, plan->to_balance.batch);
  const auto [balanced, is_new] = balances.known.try_emplace(key);
  if (is_new) {
    Case subject = case_;
    subject.plan = *plan;
    balanced->second = balances.balancer.balanced(subject);
  }
  plan->to_balance = {};
  plan->layers = balanced->second.layers;
  plan->shares = balanced->second.shares;
  plan->ends_as_layers = balanced->second.ends_as_layers;
  plan->micro_batch = balanced->second.micro_batch;
  // What comes out even is no plan of its own.
  if (choice.layers_by_speed && plan->layers.empty()) return std::nullopt;
  if (choice.batch_by_speed && plan->shares.empty()) return std::nullopt;
  return plan;
}

PlanSpace::Unlike PlanSpace::unlike(const PlanChoice& family) const {
  Unlike unlike;
  const ClusterDescription& cluster = case_.cluster;
  if (cluster.odd_gpus.empty()) return unlike;
  Plan plan;
  plan.tp = static_cast<int>(family.tp), plan.cp = static_cast<int>(family.cp), plan.pp = static_cast<int>(family.pp);
  plan.dp = cluster.gpus / (plan.tp * plan.cp * plan.pp);
  plan.order = request_of(family, fixed_).order.value_or(plan.order);
  using Gpus = std::vector<std::pair<int, double>>;
  std::vector<Gpus> of_stage(static_cast<std::size_t>(plan.pp)), of_data_rank(static_cast<std::size_t>(plan.dp));
  for (int rank = 0; rank < plan.gpus(); ++rank) {
    const RankCoordinates at = coordinates(plan, rank);
    const ClusterDescription::OddGpu gpu = cluster.oddity_of(rank);
    of_stage[static_cast<std::size_t>(at.pp)].emplace_back(gpu.kind, gpu.speed);
    of_data_rank[static_cast<std::size_t>(at.dp)].emplace_back(gpu.kind, gpu.speed);
  }
  const auto differ = [](std::vector<Gpus>& all) {
    for (Gpus& gpus : all) std::sort(gpus.begin(), gpus.end());
    return std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end();
  };
  const bool ends_count = fixed_.ends_as_layers.value_or(0) > 0;
  unlike.stages = !fixed_.layers && !fixed_.layers_auto && !ends_count && differ(of_stage);
  unlike.data_ranks = !fixed_.splits_unevenly() && differ(of_data_rank);
  return unlike;
}

std::vector<std::int64_t> PlanSpace::micro_batches(std::int64_t data_ranks, bool by_speed) const {
  if (fixed_.micro_batch) return {*fixed_.micro_batch};
  if (fixed_.micro_batch_of_rank) return {1};
  const std::int64_t batch = case_.train.global_batch, most = std::min(batch / data_ranks, kLargestMicroBatch);
  return by_speed || fixed_.splits_unevenly() ? divisors(batch, most) : divisors(batch / data_ranks, most);
}

void PlanSpace::for_each(std::size_t family, Balancer& balancer, const Visit& visit) const {
  PlanChoice choice = families_[family];
  std::vector<bool> sequence_parallel = {false};
  if (choice.tp > 1 && case_.software.offers.sequence) sequence_parallel.push_back(true);
  if (fixed_.sequence_parallel) sequence_parallel = {*fixed_.sequence_parallel};
  const std::vector<Recompute> recompute = recomputes();
  const std::vector<std::int64_t> stages = zero_stages();
  const std::vector<std::pair<PlanChoice::States, bool>> on_host = places();
  const std::int64_t dp = case_.cluster.gpus / (choice.tp * choice.cp * choice.pp);
  const bool alone = dp * choice.cp == 1;
  const Unlike gpus = unlike(choice);

  std::optional<std::int64_t> group;  // within a node; the same for all of the family

  // Values that this plan would not use make the same plan as others.
  Balances balances{balancer, {}};
  const auto try_choice = [&] {
    const std::optional<Plan> plan = plan_of(choice, balances);
    if (!plan || layer_passes(*plan, case_.model, case_.train) > kMostLayerPasses ||
        (!fixed_.zero && plan->zero != choice.zero) ||
        (!fixed_.sequence_parallel && plan->sequence_parallel != choice.sequence_parallel) ||
        (!fixed_.shard_group && plan->shard_group != choice.shard_group) ||
        (choice.on_host == PlanChoice::States::optimizer_and_weights && plan->offload.params == Offload::Place::gpu)) {
      return false;
    }
    visit(choice, *plan);
    return true;
  };
  const auto try_sharding = [&](std::int64_t zero) {
    choice.zero = zero;
    choice.shard_group = fixed_.shard_group.value_or(0);
    const bool legal = try_choice();
    if (!legal || zero == 0 || fixed_.shard_group || case_.cluster.nodes() == 1) return;
    if (!case_.software.offers.sharding_groups) return;
    if (!group) group = group_within_node(case_, *plan_of(choice));
    choice.shard_group = *group;
    if (*group > 1) try_choice();
  };
  const auto try_micro_batch = [&](std::int64_t micro_batch) {
    choice.micro_batch = micro_batch;
    for (const Recompute& again : recompute) {
      choice.recompute = again.mode;
      choice.blocks = again.blocks;
      for (bool sequence : sequence_parallel) {
        choice.sequence_parallel = sequence;
        for (const auto& [states, activations] : on_host) {
          choice.on_host = states;
          choice.activations_on_host = activations;
          if (activations && !moves_activations(choice)) continue;
          if (states != PlanChoice::States::none && alone && !case_.software.offers.offload_alone) continue;
          for (std::int64_t zero : stages) try_sharding(zero);
        }
      }
    }
  };
  for (int layers_by_speed = 0; layers_by_speed <= gpus.stages; ++layers_by_speed) {
    choice.layers_by_speed = layers_by_speed == 1;
    for (int batch_by_speed = 0; batch_by_speed <= gpus.data_ranks; ++batch_by_speed) {
      choice.batch_by_speed = batch_by_speed == 1;
      for (std::int64_t size : micro_batches(dp, choice.batch_by_speed)) try_micro_batch(size);
    }
  }
}

// What needs least memory comes first.
std::vector<Recompute> PlanSpace::recomputes() const {
  if (fixed_.recompute) return {*fixed_.recompute};
  std::vector<Recompute> open = {{Recompute::Mode::full, 0}, {Recompute::Mode::none, 0}};
  // Elsewhere selective recompute has nothing to do again: flash kernels keep no scores.
  const Software& software = case_.software;
  if (software.selective_is_every_other_layer ||
      (software.offers.selective_recompute && case_.train.attention == AttentionKernel::standard)) {
    open.push_back({Recompute::Mode::selective, 0});
  }
  return open;
}

std::vector<std::int64_t> PlanSpace::zero_stages() const {
  if (fixed_.zero) return {*fixed_.zero};
  std::vector<std::int64_t> open;
  for (std::size_t stage = 0; stage < case_.software.offers.zero.size(); ++stage) {
    if (case_.software.offers.zero[stage]) open.push_back(static_cast<std::int64_t>(stage));
  }
  return open;
}

std::vector<std::pair<PlanChoice::States, bool>> PlanSpace::places() const {
  using States = PlanChoice::States;
  std::vector<std::pair<States, bool>> open = {{States::none, false}};
  if (says_offload(fixed_)) return open;
  const Software::Offload& can = case_.software.offload;
  if (can.optimizer) open.emplace_back(States::optimizer, false);
  if (can.optimizer && can.params) open.emplace_back(States::optimizer_and_weights, false);
  if (!can.activations || case_.software.offers.activations == Software::Offers::Activations::stay) return open;
  for (std::size_t i = 0, states = open.size(); i < states; ++i) open.emplace_back(open[i].first, true);
  return open;
}

bool PlanSpace::moves_activations(const PlanChoice& choice) const {
  using Activations = Software::Offers::Activations;
  switch (case_.software.offers.activations) {
    case Activations::stay:
      return false;
    case Activations::without_recompute:
      return choice.recompute == Recompute::Mode::none && choice.pp == 1;
    case Activations::checkpoints:
      return choice.recompute == Recompute::Mode::full;
    case Activations::leave:
      return true;
  }
  return false;
}

std::int64_t PlanSpace::recompute_levels(const PlanChoice& choice, const Plan& plan) const {
  if (fixed_.recompute || !case_.software.offers.block_recompute || choice.recompute != Recompute::Mode::none ||
      choice.activations_on_host) {
    return 0;
  }
  const std::vector<std::int64_t> layers = layers_of_chunks(plan, case_.model);
  return *std::max_element(layers.begin(), layers.end()) - 1;
}

PlanChoice PlanSpace::at_recompute_level(const PlanChoice& choice, const Plan& plan, std::int64_t level) {
  PlanChoice at = choice;
  at.recompute = level == 0 ? Recompute::Mode::none : Recompute::Mode::blocks;
  at.blocks = level * plan.vpp;
  return at;
}

std::optional<PlanChoice> PlanSpace::with_more_on_drives(const PlanChoice& choice) const {
  const HostDescription& host = case_.cluster.host;
  if (!case_.software.offload.nvme || !host.nvme_read || !host.nvme_write) return std::nullopt;
  if (choice.on_drives >= choice.on_host) return std::nullopt;
  PlanChoice more = choice;
  more.on_drives = static_cast<PlanChoice::States>(static_cast<int>(choice.on_drives) + 1);
  return more;
}

}  // namespace foretrain
