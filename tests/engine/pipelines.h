#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/task_graph.h"

namespace foretrain::engine::test {

enum class PipelineSchedule { gpipe, one_forward_one_backward };

// A training pipeline of equal stages on one stream each, no transfer times: forward of a micro-batch follows the
// stage before, backward the stage after (Huang et al., "GPipe", 2019; Narayanan et al., "PipeDream", 2019).
// With `link_bytes` > 0 activations travel between neighbours over a link of 1e11 bytes/s a stage.
inline TaskGraph make_pipeline(PipelineSchedule kind, std::size_t stages, std::size_t micro_batches, Time forward,
                               Time backward, double link_bytes = 0.0) {
  TaskGraph graph;
  std::vector<std::vector<TaskId>> f(stages), b(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::vector<ResourceUse> own{{graph.add_resource(1.0), 1.0}};
    const auto forward_cost = graph.add_cost(Time::zero(), forward.seconds(), 1.0, own);
    const auto backward_cost = graph.add_cost(Time::zero(), backward.seconds(), 1.0, own);
    for (std::size_t i = 0; i < micro_batches; ++i) {
      f[stage].push_back(graph.add_task(forward_cost));
      b[stage].push_back(graph.add_task(backward_cost));
    }
  }
  const auto connect = [&](CostId transfer, StreamId stream, TaskId from, TaskId to) {
    if (link_bytes == 0.0) {
      graph.add_dependency(from, to);
      return;
    }
    const auto send = graph.add_task(transfer);
    graph.enqueue(stream, send);
    graph.add_dependency(from, send);
    graph.add_dependency(send, to);
  };
  for (std::size_t stage = 0; stage + 1 < stages; ++stage) {
    const std::vector<ResourceUse> link{{graph.add_resource(1e11), 1.0}};
    const auto transfer = graph.add_cost(Time{2'000'000}, link_bytes, 1e12, link);
    const auto down = graph.add_stream(), up = graph.add_stream();
    for (std::size_t i = 0; i < micro_batches; ++i) {
      connect(transfer, down, f[stage][i], f[stage + 1][i]);
      connect(transfer, up, b[stage + 1][i], b[stage][i]);
    }
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const auto stream = graph.add_stream();
    const std::size_t ahead = kind == PipelineSchedule::gpipe ? micro_batches : std::min(micro_batches, stages - stage);
    std::size_t next_backward = 0;
    for (std::size_t i = 0; i < micro_batches; ++i) {
      if (i >= ahead) graph.enqueue(stream, b[stage][next_backward++]);
      graph.enqueue(stream, f[stage][i]);
    }
    while (next_backward < micro_batches) graph.enqueue(stream, b[stage][next_backward++]);
  }
  for (std::size_t i = 0; i < micro_batches; ++i) graph.add_dependency(f[stages - 1][i], b[stages - 1][i]);
  return graph;
}

}  // namespace foretrain::engine::test
