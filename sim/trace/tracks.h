#pragma once

#include <string>
#include <vector>

#include "sim/workload/step.h"

namespace foretrain::trace {

// The tracks of a rank, in the order they are shown. Each holds the tasks of one of the engine's streams, or those that
// happen once a step, so that its slices cannot overlap.
enum class Lane : int {
  step_time,  // what every moment of the step counts as in the breakdown
  compute,
  kernels,  // what the passes of `compute` are made of
  tensor,
  context,
  expert,
  expert_tensor,
  pipeline_gather,
  data,
  shard,
  replica,
  expert_data,
  tie,
  mirror,
  norm,
  send_forward,
  send_backward,
  copy_in,
  copy_out,
  host_optimizer,
  nvme_read,
  nvme_write,
};
inline constexpr int kLanes = 22;

// Where a task is shown. `blocking`: data-parallel traffic or a copy that holds up the compute stream; it has a track
// of its own beside that of what runs in the background.
struct Place {
  std::uint32_t rank_class = 0;
  Lane lane = Lane::compute;
  bool blocking = false;

  int thread() const { return 2 * static_cast<int>(lane) + (blocking ? 2 : 1); }
};
// Numbers of threads are 1 to this: viewers take 0 for the idle thread of a machine.
inline constexpr int kThreads = 2 * kLanes;
std::string thread_name(int thread);

// Of every rank class that takes part in a task; a transfer between stages is shown where it is sent.
std::vector<Place> places(const Step& step, engine::TaskId task);

}  // namespace foretrain::trace
