#include "sim/workload/schedules/pipeline_order.h"

namespace foretrain {

std::vector<PipelineOp> pipeline_order(const Plan& plan, int stage, std::int64_t m) {
  switch (plan.schedule) {
    case PipelineSchedule::gpipe:
      return gpipe_order(m);
    case PipelineSchedule::one_f_one_b:
      return one_f_one_b_order(plan.pp, stage, m);
    case PipelineSchedule::interleaved:
      return interleaved_order(plan.pp, plan.vpp, stage, m);
  }
  return {};
}

}  // namespace foretrain
