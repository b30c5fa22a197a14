#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "sim/analysis/case_report.h"
#include "sim/cost/placed_groups.h"
#include "sim/workload/host_work.h"
#include "sim/workload/known_layer_costs.h"

namespace foretrain {

// What can be said of plans without simulating them: no step of a plan takes less time or memory than its bounds say.
//
// Time: on the busiest stage the passes of all micro-batches run one after the other, with their collectives on idle
// links and the sends that hold them up; before them the first micro-batch has come through the stages in front, after
// them the last one goes back through these, and then come the agreement on the norm, the optimizer and the fixed cost
// of a step. Data-parallel traffic is a second chain, on a stream of its own. Nothing in a simulation runs faster than
// alone, so both are lower bounds; the waits that stages, links and GPUs cause each other are what simulation adds.
// What the host does for the ranks of a node shares its links, cores and DRAM: those carry all of it in the time of a
// step.
//
// Memory: the static bytes, and the activations in flight when most forward passes of a stage are open.
//
// Where GPUs or shares of the batch differ, all that is said of lanes: the ranks of a pipeline that hand on to each
// other, one on every stage. The slowest of some unlike lanes bounds the step, each at the rates of its own GPUs.
//
// Not to be used by two threads at once. Meant for plans that follow each other and differ little.
class PlanBounds {
 public:
  // `subject`: as_simulated(); its plan does not matter. The references must outlive the bounds.
  PlanBounds(Case subject, const Cluster& cluster, const CollectiveConstants& constants, const HostRates& hosts);
  PlanBounds(const PlanBounds&) = delete;
  PlanBounds& operator=(const PlanBounds&) = delete;

  // The plan has nothing left to balance.
  Time step_time(const Plan& plan);
  // What is missing at least on the GPU that has least left; negative where there may be room.
  Bytes missing_memory(const Plan& plan);

 private:
  // Blocks of a chunk that are alike and follow each other.
  struct Run {
    Block block;
    std::int64_t count = 1;
  };
  // Stages that hold the same and whose groups lie alike.
  struct StageKind {
    std::vector<std::vector<Run>> chunks;
    // Of the lane's rank; null where that is alone.
    const GroupShape *tensor = nullptr, *context = nullptr, *expert = nullptr, *expert_tensor = nullptr;
    int gpu = 0;  // ClusterDescription::gpu_of_kind
    double speed = 1.0;

    const GroupShape* group(Purpose purpose) const;
    bool like(const StageKind& other) const;
  };
  // Ranks with the same tensor-, context- and data-parallel coordinates.
  struct Lane {
    RankCoordinates at;
    Plan::Share share;
    std::vector<StageKind> kinds;
    std::vector<std::size_t> kind_of_stage;

    const StageKind& stage(int stage) const { return kinds[kind_of_stage[static_cast<std::size_t>(stage)]]; }
  };
  struct PassTimes {
    Time first_forward, first_backward;  // of the first chunk
    Time all, last_backward;             // of all chunks, and the backward passes of these
  };
  // Data-parallel traffic of one stage on idle links.
  struct DataTimes {
    Time on_compute_stream, on_own_stream;  // of the whole step, before the optimizer
    Time after_last_backward_began;         // of these on their own stream: what the last backward pass makes
    Time after_last_pass;                   // and what cannot start before it has ended
    Time after_optimizer;
    Time taken_from_kernels;
  };

  // What a rank has the host do in a step: bytes copied to it and back, parameters updated there.
  struct HostAmounts {
    double out = 0, back = 0, updated = 0;
  };
  // How long it takes at least: copies beside the passes, the update after them.
  struct HostTimes {
    Time copies, update;
  };

  // By chunk, the forward passes that are open and the weight gradients that are owed when a forward pass begins; and
  // the chunk of the backward pass that comes next, if one does.
  struct Moment {
    std::vector<double> open, owed;
    int forward = 0;
    std::optional<int> backward;
  };

  void enter(const Plan& plan);
  void enter(const Lane& lane);
  void enter_placement();
  void enter_host_work();
  std::vector<Lane> unlike_lanes() const;
  int place_of(int stage) const;  // of the lane in hand: a number of its own for every stage of every lane
  int rank_at(int stage) const;
  const Case& case_at(int stage) const { return cases_[static_cast<std::size_t>(lane_->stage(stage).gpu)]; }
  const LayerCosts& costs(int gpu);
  // When passes and reductions of the lane in hand are through, when a stage of it is with all there is, and what comes
  // after the agreement on the norm.
  struct Ends {
    Time passes, stage, closing;
  };
  Ends ends_of_lane();
  Bytes missing_of_lane();
  const GroupShape& shape(Purpose purpose, int stage);
  std::vector<int> expert_group(Purpose purpose, int stage) const;
  StageKind kind_of(int stage);
  const GroupShape& send_shape(int from, int to);
  Time send_time(int from, int to);
  Time collective_time(const LayerStep::GroupCollective& collective, const StageKind& kind) const;
  Time block_time(const BlockPass& pass, const StageKind& kind) const;
  Time chunk_time(const std::vector<Run>& chunk, Pass pass, const StageKind& kind);
  PassTimes pass_times(const StageKind& kind);
  Time gather_time(const StageKind& kind) const;
  Time sends_of(int stage);
  CollectiveCost data_cost(Purpose purpose, int stage, Collective op, Bytes bytes);
  // Collectives on idle links, and the time that kernels beside them lose to them.
  struct Traffic {
    Time time, taken;
    Traffic& operator+=(const Traffic& other) {
      time += other.time;
      taken += other.taken;
      return *this;
    }
    Traffic operator*(std::int64_t times) const;
  };
  struct Reductions {
    Traffic all;
    Time last;
  };
  Traffic traffic(Purpose purpose, int stage, Collective op, Bytes bytes);
  Traffic reduction(int stage, double parameters);
  Reductions reductions(int stage);
  Traffic shard_gathers(int stage);
  Time updated_gathers(int stage);
  DataTimes data_times(int stage);
  HostAmounts host_amounts(int stage);
  HostTimes host_times(int stage);
  Time host_time(Purpose purpose, double own, double others, int rank) const;
  std::vector<Moment> full_moments(int stage, std::int64_t micro_batches) const;
  double boundary_bytes() const;
  std::int64_t passes_of_a_chunk() const;

  std::vector<Case> cases_;  // as if all GPUs were of one kind, and all data-parallel ranks had the lane's share
  Case& case_;               // the first of them
  std::int64_t global_batch_;
  const Cluster& cluster_;
  const CollectiveConstants& constants_;
  const HostRates& hosts_;
  PlacedGroups groups_;
  Time norm_;
  double straggler_share_;

  // Kept from plan to plan, each with what it depends on.
  std::optional<Plan> placed_;                                         // the ranks lie as in this plan
  std::map<std::tuple<Purpose, int, int>, const GroupShape*> shapes_;  // by place_of()
  std::map<std::pair<int, int>, const GroupShape*> sends_;             // by place_of()
  std::vector<StageLayout> layouts_;
  HostWork host_;  // of the plan in hand, and the least that any of its stages has the host do
  HostAmounts least_host_amounts_;
  std::vector<Lane> lanes_;
  const Lane* lane_ = nullptr;  // in hand
  KnownLayerCosts costs_;
  std::vector<const LayerCosts*> costs_of_kind_;  // of the plan in hand; null where not looked up yet
  std::map<std::int64_t, std::vector<std::vector<Moment>>> moments_;  // by micro-batches; of the first and last stage
};

}  // namespace foretrain
