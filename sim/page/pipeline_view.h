#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain::page {

// What a GPU does for a stretch of its step.
enum class Activity : std::uint8_t {
  forward,
  backward,
  input_gradient,
  weight_gradient,
  communication,  // of ranks; on the compute stream, or beside it
  optimizer,
  host,      // copies from and to the host, the host's own work
  other,     // fixed cost of a step
  left_out,  // slices that would not fit the picture, taken together
};
inline constexpr std::size_t kActivities = 9;
const char* to_string(Activity activity);

// The step of one GPU of each pipeline stage, as a picture needs it. Passes that the simulation cut into blocks are
// whole again.
struct PipelineView {
  struct Slice {
    Activity activity = Activity::forward;
    std::int32_t micro_batch = -1;
    std::int32_t chunk = -1;
    Time begin, end;
    std::size_t stands_for = 1;  // slices; more than one only if left out
  };
  struct Stage {
    int stage = 0;
    int gpus = 0;                          // that behave like this one
    std::vector<Slice> compute;            // in order of time, none over another
    std::vector<Slice> beside;             // communication and host work on other streams; what touches is one slice
    std::array<Time, kActivities> time{};  // on the compute stream, all slices
    std::size_t passes = 0;
  };
  std::vector<Stage> stages;
  int all_stages = 0;
  Time end;
};

struct PipelineLimits {
  std::size_t stages = 32;     // shown; evenly chosen, with the first and the last
  std::size_t slices = 12000;  // of all stages together; each stage then leaves out the middle of its step
};

PipelineView pipeline_view(const Step& step, const engine::Schedule& schedule, const Communicators& communicators,
                           const PipelineLimits& limits = {});

}  // namespace foretrain::page
