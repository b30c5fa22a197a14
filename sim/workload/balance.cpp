#include "sim/workload/balance.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "sim/cost/placed_groups.h"
#include "sim/plan/stage_layout.h"
#include "sim/workload/layer_cost.h"

namespace foretrain {
namespace {

double seconds_of(const KernelTime& time) { return (time.matmul + time.memory + time.latency).value; }

using GpuSpeed = std::pair<int, double>;  // its kind and speed

}  // namespace

// Where the unlike GPUs of a job lie under a plan, and its groups: the same for plans that place their ranks alike.
class Balancer::Places {
 public:
  // Where a stage of a data-parallel rank lies: its unlike GPUs and its groups.
  struct Place {
    std::set<GpuSpeed> gpus;
    GroupShape tensor, context;
  };

  Places(const Case& subject, const Cluster& cluster)
      : plan_(subject.plan), cluster_(subject.cluster), groups_(cluster) {
    // Of every data-parallel rank, where its GPUs are unlike the rest.
    std::vector<std::vector<std::pair<int, GpuSpeed>>> odd(static_cast<std::size_t>(plan_.dp));
    for (const ClusterDescription::OddGpu& gpu : cluster_.odd_gpus) {
      if (gpu.number >= plan_.gpus()) continue;
      const RankCoordinates at = coordinates(plan_, gpu.number);
      odd[static_cast<std::size_t>(at.dp)].push_back(
          {(at.pp * plan_.cp + at.cp) * plan_.tp + at.tp, {gpu.kind, gpu.speed}});
    }
    std::map<std::vector<std::pair<int, GpuSpeed>>, std::size_t> known;
    for (auto& gpus : odd) {
      std::sort(gpus.begin(), gpus.end());
      const auto [kind, is_new] = known.try_emplace(std::move(gpus), kinds_.size());
      if (is_new) kinds_.push_back(static_cast<int>(kind_of_.size()));
      kind_of_.push_back(kind->second);
    }
  }

  bool are_those_of(const Plan& plan) const {
    return plan.tp == plan_.tp && plan.cp == plan_.cp && plan.pp == plan_.pp && plan.dp == plan_.dp &&
           plan.order == plan_.order;
  }

  // Data-parallel ranks of a kind have the same GPUs.
  std::size_t kinds() const { return kinds_.size(); }
  const std::vector<std::size_t>& kind_of_data_ranks() const { return kind_of_; }

  const Place& at(int stage, std::size_t kind) {
    const auto [known, is_new] = places_.try_emplace({stage, kind});
    Place& place = known->second;
    if (!is_new) return place;
    const int data_rank = kinds_[kind];
    std::vector<int> tensor, context;
    for (int tp = 0; tp < plan_.tp; ++tp) tensor.push_back(rank_of(plan_, {tp, data_rank, stage, 0}));
    for (int cp = 0; cp < plan_.cp; ++cp) context.push_back(rank_of(plan_, {0, data_rank, stage, cp}));
    place.tensor = groups_.shape(tensor);
    place.context = groups_.shape(context);
    for (int cp = 0; cp < plan_.cp; ++cp) {
      for (int tp = 0; tp < plan_.tp; ++tp) {
        const auto gpu = cluster_.oddity_of(rank_of(plan_, {tp, data_rank, stage, cp}));
        place.gpus.insert({gpu.kind, gpu.speed});
      }
    }
    return place;
  }

 private:
  Plan plan_;
  ClusterDescription cluster_;
  PlacedGroups groups_;
  std::vector<int> kinds_;            // the first data-parallel rank of each
  std::vector<std::size_t> kind_of_;  // of every data-parallel rank
  std::map<std::pair<int, std::size_t>, Place> places_;
};

namespace {

using Places = Balancer::Places;

// What blocks take for one micro-batch on the GPUs of the job.
class Paces {
 public:
  Paces(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants, Places& places,
        KnownLayerCosts& known)
      : subject_(subject), cluster_(cluster), constants_(constants), places_(places), known_(known) {}

  std::size_t kinds() const { return places_.kinds(); }
  const std::vector<std::size_t>& kind_of_data_ranks() const { return places_.kind_of_data_ranks(); }

  // Forward and backward passes on the ranks that work on a stage for a kind of data-parallel rank: those of the
  // slowest.
  double seconds(const Block& block, int stage, std::size_t kind, std::int64_t micro_batch) {
    const auto key =
        std::tuple(stage, kind, micro_batch, static_cast<int>(block.kind), block.recomputed, block.layer.index());
    const auto [known, is_new] = seconds_.try_emplace(key);
    if (is_new) {
      const Places::Place& place = places_.at(stage, kind);
      for (const GpuSpeed& gpu : place.gpus) {
        const LayerCosts& costs = costs_of(gpu.first, micro_batch);
        double here = 0;
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          here += block_seconds(pass_of(costs, block, pass), gpu.second, place);
        }
        known->second = std::max(known->second, here);
      }
    }
    return known->second;
  }

 private:
  static const BlockPass& pass_of(const LayerCosts& costs, const Block& block, Pass pass) {
    switch (block.kind) {
      case Block::Kind::embedding:
        return costs.embedding(pass);
      case Block::Kind::head:
        return costs.head(pass);
      case Block::Kind::layer:
        break;
    }
    return costs.layer(block.layer, pass, block.recomputed);
  }

  double block_seconds(const BlockPass& pass, double speed, const Places::Place& place) const {
    double device = 0;
    for (const LayerStep& step : pass.steps) {
      device += seconds_of(step.compute.time()) / speed;
      if (!step.collective) continue;
      const auto& [purpose, op, bytes, exposed, beside] = *step.collective;
      const bool in_context = purpose == Purpose::context && subject_.plan.context != ContextParallel::ulysses;
      if (purpose != Purpose::tensor && !in_context) continue;
      const GroupShape& group = purpose == Purpose::tensor ? place.tensor : place.context;
      const double whole = collective_cost(op, bytes, group, cluster_, constants_).idle_time().value;
      device += beside.value > 0 ? std::max(exposed * whole, whole - beside.value / speed) : exposed * whole;
    }
    return std::max(device, pass.host.value) + pass.stall.value;
  }

  const LayerCosts& costs_of(int gpu, std::int64_t micro_batch) {
    const LayerCosts*& costs = costs_[{gpu, micro_batch}];
    if (costs == nullptr) {
      Case alike = subject_;
      alike.cluster.gpu = subject_.cluster.gpu_of_kind(gpu);
      alike.plan.micro_batch = micro_batch;
      costs = &known_.of(alike, gpu);
    }
    return *costs;
  }

  const Case& subject_;
  const Cluster& cluster_;
  const CollectiveConstants& constants_;
  Places& places_;
  KnownLayerCosts& known_;
  std::map<std::tuple<int, std::size_t, std::int64_t, int, bool, int>, double> seconds_;
  std::map<std::pair<int, std::int64_t>, const LayerCosts*> costs_;
};

// Units given one after the other to whoever is through with one more first: no other way is the last one through
// earlier, if more never takes less.
template <class Seconds>
std::vector<std::int64_t> dealt_out(std::vector<std::int64_t> given, std::int64_t units, std::int64_t at_a_time,
                                    const Seconds& seconds) {
  using Next = std::pair<double, std::size_t>;  // through with one more at
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto queue = [&](std::size_t i) { next.emplace(seconds(i, given[i] + at_a_time), i); };
  for (std::size_t i = 0; i < given.size(); ++i) {
    units -= given[i];
    queue(i);
  }
  for (; units > 0; units -= at_a_time) {
    const std::size_t i = next.top().second;
    next.pop();
    given[i] += at_a_time;
    queue(i);
  }
  return given;
}

// Layers of the chunks of a stage, as even as can be.
std::vector<std::int64_t> layers_of_stages(const Plan& plan, const std::vector<std::int64_t>& of_stage) {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(plan.model_chunks()));
  for (int stage = 0; stage < plan.pp; ++stage) {
    std::int64_t left = of_stage[static_cast<std::size_t>(stage)];
    for (int chunk = 0; chunk < plan.vpp; ++chunk) {
      const std::int64_t chunks_left = plan.vpp - chunk;
      const std::int64_t here = (left + chunks_left - 1) / chunks_left;
      layers[static_cast<std::size_t>(chunk_position(plan, {stage, chunk}))] = here;
      left -= here;
    }
  }
  return layers;
}

// Where both copies of the model lie across all stages, a stage's layers are another's too, and stay as they are.
Plan with_balanced_layers(const Case& c, Paces& paces) {
  Plan plan = c.plan;
  if (plan.schedule == PipelineSchedule::dualpipe) return plan;
  const std::vector<StageLayout> even = stage_layouts(c.model, plan, c.software, c.train.peft);
  // Of a layer on average and of the ends, on the slowest data-parallel rank.
  std::vector<std::pair<Block, double>> layers;  // those that are alike together
  double count = 0;
  for (const StageLayout& stage : even) {
    for (const Chunk& chunk : stage.chunks) {
      for (const Block& block : chunk.blocks) {
        if (block.kind != Block::Kind::layer) continue;
        auto known = std::find_if(layers.begin(), layers.end(), [&](const auto& l) { return l.first == block; });
        if (known == layers.end()) known = layers.insert(layers.end(), {block, 0});
        known->second += 1;
        count += 1;
      }
    }
  }
  std::vector<double> layer(even.size()), ends(even.size());
  for (std::size_t stage = 0; stage < even.size(); ++stage) {
    for (std::size_t kind = 0; kind < paces.kinds(); ++kind) {
      const auto seconds = [&](const Block& block) {
        return paces.seconds(block, static_cast<int>(stage), kind, plan.micro_batch);
      };
      double of_layers = 0, of_ends = 0;
      for (const auto& [block, times] : layers) of_layers += seconds(block) * times / count;
      for (const Chunk& chunk : even[stage].chunks) {
        for (const Block& block : chunk.blocks) of_ends += block.kind == Block::Kind::layer ? 0 : seconds(block);
      }
      layer[stage] = std::max(layer[stage], of_layers);
      ends[stage] = std::max(ends[stage], of_ends);
    }
  }
  const std::vector<std::int64_t> of_stage =
      dealt_out(std::vector<std::int64_t>(even.size(), plan.vpp), c.model.layers, 1,
                [&](std::size_t s, std::int64_t n) { return ends[s] + layer[s] * static_cast<double>(n); });
  plan.layers = layers_of_stages(plan, of_stage);
  Plan as_it_was = plan;
  as_it_was.layers.clear();
  if (layers_of_chunks(as_it_was, c.model) == plan.layers) return as_it_was;
  plan.ends_as_layers = 0;
  return plan;
}

Plan with_balanced_batch(const Case& c, Paces& paces) {
  const Plan& plan = c.plan;
  const std::vector<StageLayout> layouts = stage_layouts(c.model, plan, c.software, c.train.peft);
  // One micro-batch after the other on the stage that takes longest, and once through all others.
  struct Pipeline {
    double through = 0, slowest = 0;
  };
  std::map<std::pair<std::size_t, std::int64_t>, Pipeline> pipelines;
  const auto pipeline = [&](std::size_t data_rank, std::int64_t micro_batch) -> const Pipeline& {
    const std::size_t kind = paces.kind_of_data_ranks()[data_rank];
    const auto [known, is_new] = pipelines.try_emplace({kind, micro_batch});
    for (int stage = 0; is_new && stage < plan.pp; ++stage) {
      double seconds = 0;
      for (const Chunk& chunk : layouts[static_cast<std::size_t>(stage)].chunks) {
        for (const Block& block : chunk.blocks) seconds += paces.seconds(block, stage, kind, micro_batch);
      }
      known->second.through += seconds;
      known->second.slowest = std::max(known->second.slowest, seconds);
    }
    return known->second;
  };
  const auto ranks = static_cast<std::size_t>(plan.dp);
  const std::int64_t batch = c.train.global_batch, even = batch / (plan.dp * plan.micro_batch);
  std::vector<Plan::Share> shares(ranks);
  if (meets_every_micro_batch(plan, c.software)) {
    const auto sizes = dealt_out(std::vector<std::int64_t>(ranks, 1), batch / even, 1,
                                 [&](std::size_t d, std::int64_t n) { return pipeline(d, n).through; });
    for (std::size_t d = 0; d < ranks; ++d) shares[d] = {sizes[d], even};
    return with_shares(plan, std::move(shares));
  }
  // The fewest that a schedule runs with, and by how many they grow.
  const bool in_pairs = plan.schedule == PipelineSchedule::dualpipe;
  const std::int64_t least = feeds_schedule(plan, 1) ? 1 : 2 * plan.pp, units = batch / plan.micro_batch;
  if (least * plan.dp > units || (in_pairs && units % 2 != 0)) return plan;
  // As many as whole numbers below an exact division; who is through first gets those that are left.
  double rates = 0, started = 0;
  for (std::size_t d = 0; d < ranks; ++d) {
    const Pipeline& p = pipeline(d, plan.micro_batch);
    rates += 1 / p.slowest;
    started += p.through / p.slowest - 1;
  }
  const double all_through = (static_cast<double>(units) + started) / rates;
  std::vector<std::int64_t> given(ranks);
  for (std::size_t d = 0; d < ranks; ++d) {
    const Pipeline& p = pipeline(d, plan.micro_batch);
    const auto whole = static_cast<std::int64_t>((all_through - p.through) / p.slowest) + 1;
    given[d] = std::max(least, in_pairs ? whole / 2 * 2 : whole);
  }
  if (std::accumulate(given.begin(), given.end(), std::int64_t{0}) > units) given.assign(ranks, least);
  const auto counts = dealt_out(std::move(given), units, in_pairs ? 2 : 1, [&](std::size_t d, std::int64_t n) {
    const Pipeline& p = pipeline(d, plan.micro_batch);
    return p.through + p.slowest * static_cast<double>(n - 1);
  });
  for (std::size_t d = 0; d < ranks; ++d) shares[d] = {plan.micro_batch, counts[d]};
  return with_shares(plan, std::move(shares));
}

}  // namespace

Balancer::Balancer(const Cluster& cluster, const CollectiveConstants& constants)
    : cluster_(cluster), constants_(constants) {}

Balancer::~Balancer() = default;

Plan Balancer::balanced(const Case& subject) {
  if (!places_ || !places_->are_those_of(subject.plan)) places_ = std::make_unique<Places>(subject, cluster_);
  costs_.forget_if_many();
  Case c = subject;
  Paces paces(c, cluster_, constants_, *places_, costs_);
  if (c.plan.to_balance.layers) c.plan = with_balanced_layers(c, paces);
  if (c.plan.to_balance.batch) c.plan = with_balanced_batch(c, paces);
  c.plan.to_balance = {};
  return c.plan;
}

Plan balanced_plan(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants) {
  return Balancer(cluster, constants).balanced(subject);
}

}  // namespace foretrain
