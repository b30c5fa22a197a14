#include "sim/workload/schedules/pipeline_order.h"

#include <doctest/doctest.h>

#include <map>

using namespace foretrain;

namespace {

// Every micro-batch passes every chunk forward once, then backward once.
void check_complete(const std::vector<PipelineOp>& order, std::int64_t micro_batches, int chunks) {
  CHECK(order.size() == static_cast<std::size_t>(2 * micro_batches * chunks));
  std::map<std::pair<int, int>, int> forward, backward;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const PipelineOp& op = order[i];
    const auto key = std::pair(op.micro_batch, op.chunk);
    CHECK((op.chunk >= 0 && op.chunk < chunks));
    if (op.pass == Pass::forward) {
      CHECK(++forward[key] == 1);
    } else {
      CHECK(forward[key] == 1);
      CHECK(++backward[key] == 1);
    }
  }
}

int most_in_flight(const std::vector<PipelineOp>& order) {
  int now = 0, most = 0;
  for (const PipelineOp& op : order) {
    now += op.pass == Pass::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

TEST_CASE("schedules are complete for every stage") {
  for (int stages : {1, 2, 3, 4, 8}) {
    for (std::int64_t m : {1, 2, 8, 24}) {
      for (int stage = 0; stage < stages; ++stage) {
        check_complete(gpipe_order(m), m, 1);
        check_complete(one_f_one_b_order(stages, stage, m), m, 1);
        if (stages > 1 && m % stages == 0) {
          for (int chunks : {2, 3}) check_complete(interleaved_order(stages, chunks, stage, m), m, chunks);
        }
      }
    }
  }
}

TEST_CASE("1F1B holds at most as many micro-batches as stages are behind") {
  for (int stage = 0; stage < 8; ++stage) CHECK(most_in_flight(one_f_one_b_order(8, stage, 64)) == 8 - stage);
  CHECK(most_in_flight(one_f_one_b_order(8, 0, 3)) == 3);
}

TEST_CASE("the interleaved warm-up is Megatron-LM's") {
  const auto order = interleaved_order(4, 2, 0, 8);
  std::size_t warm_up = 0;
  while (order[warm_up].pass == Pass::forward) ++warm_up;
  CHECK(warm_up == 2 * 3 + 4 + 1);  // and the first forward of the steady state
  CHECK(order[4].chunk == 1);
  CHECK(order[4].micro_batch == 0);
}
