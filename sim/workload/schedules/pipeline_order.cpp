#include "sim/workload/schedules/pipeline_order.h"

namespace foretrain {

bool made_to_measure(PipelineSchedule schedule) { return schedule == PipelineSchedule::zero_bubble_2p; }

std::vector<PipelineOp> pipeline_order(const Plan& plan, int stage, std::int64_t m, const PassTimes& times) {
  switch (plan.schedule) {
    case PipelineSchedule::gpipe:
      return gpipe_order(m);
    case PipelineSchedule::one_f_one_b:
      return one_f_one_b_order(plan.pp, stage, m);
    case PipelineSchedule::interleaved:
      return interleaved_order(plan.pp, plan.vpp, stage, m, plan.all_forward_first);
    case PipelineSchedule::zero_bubble:
      return zero_bubble_order(plan.pp, stage, m);
    case PipelineSchedule::zero_bubble_2p:
      return zero_bubble_2p_order(plan.pp, stage, m, times);
    case PipelineSchedule::zero_bubble_v:
      return zero_bubble_v_order(plan.pp, stage, m);
    case PipelineSchedule::dualpipe:
      return dualpipe_order(plan.pp, stage, m);
    case PipelineSchedule::dualpipe_v:
      return dualpipe_v_order(plan.pp, stage, m);
  }
  return {};
}

}  // namespace foretrain
