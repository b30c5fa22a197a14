#pragma once

#include "sim/engine/work_duration.h"
#include "sim/workload/layer_cost.h"

namespace foretrain {

// A collective on idle links, of which `exposed` is not hidden.
inline Time duration(const CollectiveCost& cost, double exposed = 1.0) {
  if (!(cost.wire_bytes.value > 0)) return to_time(cost.latency * exposed);
  return to_time(cost.latency * exposed) + engine::work_duration(cost.wire_bytes.value * exposed, cost.cap.value);
}

// So many times a duration, but never beyond what is simulated.
inline Time scaled(Time one, std::int64_t times) {
  constexpr std::int64_t kMost = engine::kLastInstant / 64;
  return one.ps > 0 && times > kMost / one.ps ? Time{kMost} : one * times;
}

}  // namespace foretrain
