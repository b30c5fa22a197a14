#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cost/kernel.h"
#include "sim/engine/task_graph.h"
#include "sim/plan/stage_layout.h"
#include "sim/workload/communicators.h"

namespace foretrain {

// What a moment of a GPU's compute stream is spent on, as far as the task itself decides it.
enum class Part : std::uint8_t {
  matmul,          // bound by the matrix rate
  memory,          // bound by HBM
  kernel_latency,  // fixed device cost of kernels
  launch,          // the GPU waits for the host to issue kernels
  tensor_latency,
  tensor_transfer,  // tensor-parallel collectives inside the task
  context_latency,
  context_transfer,  // context-parallel exchanges inside the task
  expert_latency,
  expert_transfer,  // tokens on their way to experts and back
  pipeline_latency,
  pipeline_transfer,  // gathering what the previous stage sent in pieces
  straggler,          // waiting for the slowest of many ranks
  other,              // fixed cost of a step
};
inline constexpr std::size_t kParts = 14;

// The make-up of a task's nominal duration; the parts add up to it exactly.
struct Composition {
  std::array<Time, kParts> parts{};
  Time& operator[](Part part) { return parts[static_cast<std::size_t>(part)]; }
  Time operator[](Part part) const { return parts[static_cast<std::size_t>(part)]; }
  Time total() const;
  Composition& operator+=(const Composition& other);
};

// Of kernels that nothing holds up.
Composition composition_of(const KernelTime& time);

enum class TaskKind : std::uint8_t {
  forward,
  backward,        // compute, alone or with its tensor-parallel collectives contracted into it
  input_gradient,  // the two halves of a backward pass
  weight_gradient,
  tensor_collective,   // on the compute stream
  context_collective,  // likewise: keys, values and their gradients
  expert_collective,   // likewise: tokens to their experts and back
  pipeline_gather,     // likewise: the pieces of a scattered boundary tensor
  pipeline_transfer,
  gradient_reduce,   // all-reduce or reduce-scatter of gradients
  parameter_gather,  // all-gather of updated parameters (ZeRO-1, 2)
  shard_gather,      // all-gather of a block's parameters (ZeRO-3)
  tie_reduce,        // tied embedding gradients between first and last stage
  mirror_reduce,     // gradients of the two copies of dualpipe
  gradient_norm,     // agreement on the norm: a synchronisation of all ranks
  optimizer,
  step_overhead,
  copy_to_host,    // gradients or activations leave the GPU
  copy_from_host,  // weights, optimizer state or activations come back
  host_optimizer,
  nvme_read,
  nvme_write,
};

// Whether a task is compute of a pass over a chunk.
constexpr bool is_pass(TaskKind kind) { return kind <= TaskKind::weight_gradient; }

// What a task is, for reports: indexed like the engine's tasks.
struct TaskInfo {
  TaskKind kind = TaskKind::forward;
  bool on_compute_stream = false;
  std::uint32_t actor = 0;  // rank class; for communication: the communicator
  std::int32_t micro_batch = -1;
  std::int16_t chunk = -1;
  std::int16_t block = -1;        // -1: the whole chunk
  std::uint32_t composition = 0;  // into Step::compositions
};

// A stretch of a task: a kernel, a collective that the task contracts (as long as on idle links), or a wait. `of` and
// `what` name it for people: "qkv" "weight gradient", "tensor" "all-reduce".
struct TaskPiece {
  std::int16_t block = -1;  // of the task's chunk; -1: the task's own, or before the chunk's blocks
  const char* of = "";
  const char* what = "";
  Time duration;
};

// One optimizer step, ready to simulate.
struct Step {
  engine::TaskGraph graph;
  std::vector<TaskInfo> tasks;
  std::vector<Composition> compositions;
  // Where StepOptions::with_pieces: of each composition, in order; they add up to it. Empty for those of no pass.
  std::vector<std::vector<TaskPiece>> pieces;
  // Per rank class: the engine tasks of its compute stream in issue order, and its stage.
  std::vector<std::vector<engine::TaskId>> compute_tasks;
  std::vector<int> stage;
  std::vector<int> multiplicity;
  std::vector<int> gpu_kind;                    // ClusterDescription::gpu_of_kind
  std::vector<Plan::Share> share;               // of the batch
  std::vector<Communicator> communicators;      // TaskInfo::actor of communication
  std::vector<Collective> collective_of_cost;   // by cost; of communication only
  std::vector<LinkKind> link_kind_of_resource;  // for resources that are links
  std::vector<bool> resource_is_link;
  // The kind of link that limits a communicator on an idle cluster; and of each rank class's groups inside layers.
  std::vector<LinkKind> communicator_link_kind, tensor_link_kind, context_link_kind, expert_link_kind;
  // Of each communicator: the bytes a ring would have each rank send for a unit of its collectives' work (1 for a
  // ring).
  std::vector<double> communicator_ring_bytes;
  std::vector<StageLayout> layouts;
  std::int64_t micro_batches = 0;  // of the ranks with most of them
  // Ranks do not wait for each other at the end of a step: the next one starts on each as soon as it is through
  // (Software::optimizer_post_validated).
  bool staggered = false;
  int simulated_ranks = 0, total_ranks = 0;
  std::shared_ptr<const FoldedJob> folded;
};

struct StepOptions {
  Communicators::Folding folding = Communicators::Folding::symmetric;
  HostRates hosts = {};      // needed by plans that offload
  bool with_pieces = false;  // keep what tasks are made of, for traces
  // If they were made before, for a plan that spreads the job alike; folding and hosts are theirs then.
  std::shared_ptr<const Communicators> communicators = nullptr;
  // Else of this job where it is known, on a cluster of other rates: Step::folded.
  std::shared_ptr<const FoldedJob> folded = nullptr;
};

// Builds the step of a case (whose micro-batch is known) on its cluster.
Step build_step(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants,
                const StepOptions& options = {});

// "forward mb 3 chunk 0 (stage 2)", for messages and traces.
std::string task_name(const Step& step, engine::TaskId task);

}  // namespace foretrain
