#pragma once

#include <compare>
#include <cstdint>

#include "sim/plan/plan.h"

namespace foretrain {

// What was asked for, with what `over` says in place of what `request` says.
PlanRequest with_fixed(PlanRequest request, const PlanRequest& over);

// What was asked for without the values that searches vary.
PlanRequest without_choices(PlanRequest request);

// Whether a file or a flag says where states and activations are, be it `none`.
bool says_offload(const PlanRequest& request);

// One plan of a search: what the search varies, in the order that decides between equals. Fixed values stand in the
// request it was made from.
struct PlanChoice {
  std::int64_t tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool stages_within_replicas = false;  // order tp-cp-ep-pp-dp rather than the request's
  std::int64_t zero = 0, shard_group = 0, micro_batch = 1;
  bool sequence_parallel = false;
  Recompute::Mode recompute = Recompute::Mode::none;
  std::int64_t blocks = 0;
  // In host memory, and of that on NVMe drives.
  enum class States { none, optimizer, optimizer_and_weights } on_host = States::none, on_drives = States::none;
  bool activations_on_host = false;
  // Layers of stages and shares of data-parallel ranks in proportion to the speeds of their GPUs: balanced_plan().
  bool layers_by_speed = false, batch_by_speed = false;

  auto operator<=>(const PlanChoice&) const = default;
};
PlanRequest request_of(const PlanChoice& choice, const PlanRequest& fixed);

}  // namespace foretrain
