#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/workload/layer_cost.h"
#include "sim/workload/schedules/pipeline_order.h"
#include "sim/workload/step.h"

namespace foretrain {

// Kernels are measured in picoseconds of work on a resource that does 1e12 of them a second: the GPU's SMs.
inline constexpr double kPicosecondsPerSecond = 1e12;

// Whether sharded weights are gathered in a stage's first forward pass and stay so (ZeRO-3 with a pipeline).
bool gathers_once(const Case& subject);
// ZeRO-2 and -3 reduce after every micro-batch: a rank has nowhere to keep a whole gradient. Others, and what keeps
// weights gathered over a pipeline's step, accumulate and reduce in the last one.
bool reduces_every_micro_batch(const Case& subject);

// Turns a case into the tasks of one step. Stage by stage it issues the passes of the pipeline schedule on the compute
// streams of the stage's rank classes, with the data-parallel traffic they cause, and then joins the stages. Where
// data-parallel ranks have unlike shares of the batch, the rank classes of a stage fall into crews that pass the same
// micro-batches; their data-parallel traffic is the stage's.
//
// A pass is one task where nothing can disturb it (exact contraction), a task per block where gathers or reductions
// hang on its blocks, and is cut at its tensor-parallel collectives where those may meet other traffic.
class StepBuilder {
 public:
  StepBuilder(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants,
              const StepOptions& options);
  Step build();

 private:
  using TaskId = engine::TaskId;
  // One value for each rank class of the stage in hand.
  using PerRank = std::vector<TaskId>;

  // step_builder.cpp: the passes
  struct PreparedStep {
    std::vector<Composition> compute;              // per rank class of the stage
    std::vector<engine::CostId> alone, contended;  // costs of `compute`: undisturbed, or sharing its SMs
    std::vector<std::uint32_t> composition;        // ids
    std::vector<KernelList> kernels;               // per rank class, at a GPU's usual speed; where pieces are kept
    bool has_compute = false;
    struct Join {
      std::uint32_t communicator;
      engine::CostId cost;
      Time duration;  // on idle links
    };
    std::vector<Join> collectives;  // one a communicator of the stage that takes part
    TaskKind collective_kind = TaskKind::tensor_collective;
  };
  using PreparedBlock = std::vector<PreparedStep>;
  struct ContractedPass {
    std::vector<engine::CostId> cost;
    std::vector<std::uint32_t> composition;
  };
  struct Span {
    PerRank first, last;
  };
  struct Window {  // the ops of a stage beside which its data-parallel traffic may run
    std::size_t gathers_until = 0, reductions_from = 0;
    bool contains(std::size_t op) const { return op < gathers_until || op >= reductions_from; }
  };

  // Rank classes of a stage with the same share of the batch: they issue the same passes.
  struct Crew {
    int stage = 0;
    Plan::Share share;
    std::vector<std::uint32_t> ranks;
    std::vector<PipelineOp> order;
  };

  void find_kinds();
  void create_streams();
  void form_crews();
  void order_passes();
  void take(std::size_t crew);
  void enter(std::size_t crew);
  void issue_crew(std::size_t crew);
  PassTimes typical_pass_times(const Plan::Share& share);
  void issue_idle(const PipelineOp& op, Span& span);
  bool is_first_forward(const PipelineOp& op) const;
  Window data_traffic_window(const std::vector<PipelineOp>& order) const;
  void issue_contracted(const PipelineOp& op, Span& span);
  void issue_blocks(const PipelineOp& op, bool contended, Span& span);
  void issue_prepared(const PreparedBlock& block, const PipelineOp& op, int block_index, bool contended, Span& span);
  const PreparedBlock& prepared(const Block& block, Pass pass);
  const PreparedBlock& prepared_gather();
  const std::vector<PreparedStep::Join>& joins(const LayerStep::GroupCollective& collective);
  // What a rank class does in a pass, by its kind.
  using PassOfKind = std::vector<const BlockPass*>;
  PreparedBlock prepare(const PassOfKind& pass, TaskKind collective_kind);
  LayerStep::GroupCollective collective_of_all(const PassOfKind& pass, std::size_t step) const;
  const ContractedPass& contracted(const PipelineOp& op);
  std::vector<TaskPiece> pieces_of(const PreparedStep& step, std::size_t rank) const;
  std::vector<TaskPiece> contracted_pieces(const PipelineOp& op, std::size_t rank);
  double boundary_elements(std::uint32_t rank) const;
  Bytes boundary_bytes(std::uint32_t rank) const;  // of them, what one rank sends
  bool receives_pieces(const PipelineOp& op) const;
  bool communicates_in_layers() const;
  bool contraction_is_exact() const;

  // step_data_parallel.cpp
  void issue_parameter_gathers_before_forward();
  TaskId meet(std::uint32_t communicator, engine::CostId cost, const TaskInfo& info);
  void check_that_all_met() const;
  PerRank issue_collective(Purpose purpose, Collective op, Bytes bytes, TaskKind kind, const PerRank& after,
                           bool on_compute_stream, const PipelineOp& op_of);
  CollectiveCost data_parallel_cost(std::uint32_t rank, Purpose purpose, Collective op, Bytes bytes,
                                    TaskKind kind) const;
  Bytes conversion_bytes(Purpose purpose, Collective op, Bytes sent) const;
  bool has_data_traffic() const;
  bool has_shards() const;
  void reduce_gradients(double parameters, bool experts, const PerRank& after, const PipelineOp& op);
  void finish_reductions();
  bool reduces_in(const PipelineOp& op) const;
  double bucket_bytes() const;
  Bytes gathered_bytes(const Parameters& held, Block::Kind kind) const;
  std::vector<GradientBucket> gather_buckets() const;
  void finish_step();
  PerRank gather_parameters_after_step(const PerRank& after);

  // step_offload.cpp
  PerRank issue_host(Purpose purpose, double amount, std::initializer_list<const PerRank*> after, const PipelineOp& op,
                     bool on_compute_stream = false);
  bool updates_on_host() const;
  bool gradients_leave_in(const PipelineOp& op) const;
  void copy_gradients_out(double parameters, bool experts, const PerRank& after, const PipelineOp& op);
  PerRank fetch_parameters(const Block& block, const PerRank& after, bool on_compute_stream, const PipelineOp& op);
  void store_second_copy(const Block& block, const PerRank& gathered, bool on_compute_stream, const PipelineOp& op);
  double offloaded_activations(const PipelineOp& op, int block_index) const;
  bool offload_needs_blocks(const PipelineOp& op) const;
  void update_offloaded_state(TaskId norm);
  void update_on_host(const PerRank& start, const PerRank& gradients);
  void update_streamed(const PerRank& start);
  void quantise_masters(double parameters, const PerRank& written);
  void page_states(const PerRank& start);

  // step_pipeline.cpp
  void join_stages();
  void send(std::uint32_t rank_class, const PipelineOp& op, const PipelineOp* next);
  void reduce_between_stages(Purpose purpose, TaskKind kind);

  // Bookkeeping
  TaskId add_task(engine::CostId cost, TaskInfo info);
  engine::CostId constant_cost(Time duration) { return step_.graph.add_cost(duration, 0.0, 1.0, {}); }
  std::uint32_t add_composition(const Composition& composition);
  engine::CostId communication_cost(std::uint32_t communicator, Collective op, const CollectiveCost& cost,
                                    double exposed, bool takes_sms);
  Time idle_duration(std::uint32_t communicator, const CollectiveCost& cost, double exposed) const;
  std::size_t pass_index(const PipelineOp& op) const;

  // As if all ranks were like this one.
  const Case& case_of(std::uint32_t rank) const { return kinds_[kind_[rank]].subject; }
  const std::vector<PipelineOp>& order_of(std::uint32_t rank) const { return crews_[crew_of_[rank]].order; }
  double speed_of(std::uint32_t rank) const { return gpu_[rank].speed; }

  const Case& case_;
  const Cluster& cluster_;
  // Ranks with the same kind of GPU and the same share of the batch.
  struct RankKind {
    Case subject;  // as if all ranks were of this kind
    LayerCosts costs;
  };
  std::vector<RankKind> kinds_;
  std::vector<std::size_t> kind_;  // per rank class
  std::shared_ptr<const Communicators> shared_communicators_;
  const Communicators& communicators_;
  double straggler_share_;
  bool with_pieces_;
  Step step_;
  std::vector<engine::StreamId> compute_, data_, send_forward_, send_backward_;  // per rank class
  std::vector<ClusterDescription::OddGpu> gpu_;                                  // per rank class
  std::vector<engine::ResourceId> sms_;                                          // per rank class
  std::vector<engine::ResourceId> link_;                                         // per folded link
  std::vector<Crew> crews_;                                                      // stage by stage
  std::vector<std::size_t> crew_of_;                                             // per rank class
  // Per rank class, indexed by pass_index: the first and last task of a pass on its compute stream.
  std::vector<std::vector<TaskId>> first_task_, last_task_;
  std::vector<TaskId> reduced_;                        // per rank class: the last gradient reduction, if any
  std::vector<std::vector<TaskId>> tied_;              // per rank class: reductions with other stages
  std::map<std::uint32_t, engine::CostId> send_cost_;  // per communicator
  // Offload: streams a kind of work and rank class, the last copy of gradients, what the end of the step waits for.
  static constexpr std::size_t kHostStreams = 5;
  std::array<std::vector<engine::StreamId>, kHostStreams> host_streams_;
  std::map<std::pair<std::uint32_t, double>, engine::CostId> host_cost_;  // per communicator and amount
  std::vector<TaskId> gradients_out_;
  std::vector<std::vector<TaskId>> step_waits_;  // per rank class
  std::vector<TaskId> optimizer_;                // per rank class: its update on the GPU
  std::vector<TaskId> updated_;                  // per rank class: weights are back on the GPU, if they left
  // Where a group spans crews, by communicator: its collectives, and how many of them each crew has joined.
  struct Meetings {
    std::vector<TaskId> tasks;
    std::map<std::size_t, std::size_t> joined;
  };
  std::map<std::uint32_t, Meetings> meetings_;

  // The crew in hand.
  std::size_t crew_ = 0;
  int stage_ = 0;
  std::span<const std::uint32_t> ranks_;
  Communicators::Isolation isolation_;
  std::map<std::array<int, 4>, PreparedBlock> prepared_;
  std::optional<PreparedBlock> prepared_gather_;
  std::map<std::array<int, 2>, ContractedPass> contracted_;
  std::map<std::array<double, 5>, std::vector<PreparedStep::Join>> collective_costs_;
  std::vector<GradientBucket> buckets_;
  struct ChunkSpan {  // micro-batches of a chunk's first forward pass, and of the last pass that completes gradients
    std::int32_t first_forward = 0, last_gradients = 0;
  };
  std::vector<ChunkSpan> chunk_spans_;
  std::vector<std::vector<std::vector<PerRank>>> gathered_;  // [chunk][block]: what its first forward waits for
  std::map<std::array<int, 3>, PerRank> activations_out_;    // micro-batch, chunk, block
  std::vector<PerRank> activation_copies_;                   // of the forward passes, in issue order
  std::vector<PerRank> block_ends_;  // ends of the stage's block passes in issue order (ZeRO-3 prefetch)
};

}  // namespace foretrain
