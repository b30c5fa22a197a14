#include "sim/workload/schedules/pipeline_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace foretrain;

namespace {

Plan plan_of(PipelineSchedule schedule, int pp, int vpp) {
  Plan plan;
  plan.schedule = schedule;
  plan.pp = pp;
  plan.vpp = vpp;
  return plan;
}

constexpr PassTimes kEqual{{1}, {1}, {1}, {0}, 1};

std::vector<std::vector<PipelineOp>> orders(const Plan& plan, std::int64_t m, const PassTimes& times) {
  std::vector<std::vector<PipelineOp>> all;
  for (int stage = 0; stage < plan.pp; ++stage) all.push_back(pipeline_order(plan, stage, m, times));
  return all;
}

// Every micro-batch of a chunk's passes forward once, then backward once, whole or in its two halves in order.
void check_complete(const Plan& plan, const std::vector<PipelineOp>& order, std::int64_t micro_batches) {
  const bool halves_the_batch = plan.schedule == PipelineSchedule::dualpipe;
  std::map<std::pair<int, int>, std::string> done;
  for (const PipelineOp& op : order) {
    CHECK((op.chunk >= 0 && op.chunk < plan.vpp));
    CHECK((op.micro_batch >= 0 && op.micro_batch < micro_batches));
    done[{op.micro_batch, op.chunk}] += "FXBW"[static_cast<int>(op.pass)];
  }
  CHECK(done.size() == static_cast<std::size_t>(micro_batches * plan.vpp / (halves_the_batch ? 2 : 1)));
  for (const auto& [key, passes] : done) {
    CHECK((passes == "FX" || passes == "FBW"));
    CHECK((splits_backward(plan.schedule) || passes == "FX"));
  }
  CHECK_FALSE(order.back().with_next);
}

// What a stage holds at most, in activations of a micro-batch in one chunk: all of them up to the input gradient, then
// the share that weight gradients need.
double most_held(const std::vector<PipelineOp>& order, double deferred_share = 1) {
  double now = 0, most = 0;
  for (const PipelineOp& op : order) {
    if (op.pass == Pass::forward) now += 1;
    if (op.pass == Pass::backward) now -= 1;
    if (op.pass == Pass::input_gradient) now -= 1 - deferred_share;
    if (op.pass == Pass::weight_gradient) now -= deferred_share;
    most = std::max(most, now);
  }
  return most;
}

struct Run {
  bool through = false;    // nobody waits for ever
  double makespan = 0;     // from the first pass of any stage to the last
  double longest_own = 0;  // of one stage, from its first pass to its last
};

// Runs the stages' orders against each other: a pass waits for its input from the neighbour.
Run run(const Plan& plan, const std::vector<std::vector<PipelineOp>>& all, const PassTimes& t) {
  std::map<std::tuple<int, int, int, bool>, double> ends;  // stage, chunk, micro-batch, forward?
  std::vector<double> free(all.size(), 0), first(all.size(), -1);
  std::vector<std::size_t> next(all.size(), 0);
  std::size_t left = 0;
  for (const auto& order : all) left += order.size();
  const auto input = [&](int stage, const PipelineOp& op) -> std::optional<double> {
    if (op.pass == Pass::weight_gradient) return 0;
    const bool forward = op.pass == Pass::forward;
    const ChunkPlace here{stage, op.chunk};
    const auto from = forward ? previous_chunk(plan, here) : next_chunk(plan, here);
    if (forward && !from) return 0;
    const ChunkPlace source = from.value_or(here);
    const auto made = ends.find({source.stage, source.chunk, op.micro_batch, forward || !from});
    if (made == ends.end()) return std::nullopt;
    return made->second + (source.stage == stage ? 0 : t.transfer.value);
  };
  const auto length = [&](Pass pass) {
    if (pass == Pass::forward) return t.forward.value;
    if (pass == Pass::input_gradient) return t.input_gradient.value;
    if (pass == Pass::weight_gradient) return t.weight_gradient.value;
    return t.input_gradient.value + t.weight_gradient.value;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (int stage = 0; stage < plan.pp; ++stage) {
      const auto s = static_cast<std::size_t>(stage);
      while (next[s] < all[s].size()) {
        const std::size_t count = all[s][next[s]].with_next ? 2 : 1;
        double start = free[s], end = 0;
        bool ready = true;
        for (std::size_t i = 0; i < count && ready; ++i) {
          const auto arrives = input(stage, all[s][next[s] + i]);
          ready = arrives.has_value();
          start = std::max(start, arrives.value_or(0));
        }
        if (!ready) break;
        end = start;
        for (std::size_t i = 0; i < count; ++i) end += length(all[s][next[s] + i].pass);
        for (std::size_t i = 0; i < count; ++i) {
          const PipelineOp& op = all[s][next[s] + i];
          if (op.pass != Pass::weight_gradient) ends[{stage, op.chunk, op.micro_batch, op.pass == Pass::forward}] = end;
        }
        if (first[s] < 0) first[s] = start;
        free[s] = end;
        next[s] += count;
        left -= count;
        progress = true;
      }
    }
  }
  Run result{left == 0, *std::max_element(free.begin(), free.end()), 0};
  for (std::size_t s = 0; s < all.size(); ++s) result.longest_own = std::max(result.longest_own, free[s] - first[s]);
  return result;
}

Run run(const Plan& plan, std::int64_t m, const PassTimes& t) { return run(plan, orders(plan, m, t), t); }

// Passes of one micro-batch through one chunk.
double busy(const PassTimes& t) { return t.forward.value + t.input_gradient.value + t.weight_gradient.value; }

}  // namespace

TEST_CASE("every schedule is complete, runs through and keeps to its memory") {
  const std::vector<PassTimes> kinds = {kEqual, {{1}, {1.3}, {0.7}, {0.05}, 0.45}, {{2}, {1}, {1.5}, {0.5}, 0.9}};
  for (int p : {1, 2, 3, 4, 5, 8}) {
    for (std::int64_t m : {1, 2, 3, 5, 7, 8, 12, 17, 24}) {
      for (int v : {1, 2, 3, 5}) {
        for (int i = 0; i < kPipelineSchedules; ++i) {
          const Plan plan = plan_of(static_cast<PipelineSchedule>(i), p, v);
          const bool v_fits = goes_there_and_back(plan.schedule)               ? v == 2 && p > 1
                              : plan.schedule == PipelineSchedule::interleaved ? v > 1 && p > 1
                                                                               : v == 1;
          if (!v_fits || !feeds_schedule(plan, m)) continue;
          if (plan.schedule == PipelineSchedule::dualpipe && p % 2 != 0) continue;
          CAPTURE(std::string(to_string(plan.schedule)));
          CAPTURE(p);
          CAPTURE(m);
          CAPTURE(v);
          for (const PassTimes& times : kinds) {
            const auto all = orders(plan, m, times);
            CHECK(run(plan, all, times).through);
            for (int stage = 0; stage < p; ++stage) {
              const auto& order = all[static_cast<std::size_t>(stage)];
              check_complete(plan, order, m);
              // In activations of a chunk; a stage of v chunks has v in each micro-batch of 1F1B.
              const double held = most_held(order, times.deferred_share);
              switch (plan.schedule) {
                case PipelineSchedule::gpipe:
                  CHECK(held == m);
                  break;
                case PipelineSchedule::one_f_one_b:
                  CHECK(held == std::min<std::int64_t>(p - stage, m));
                  break;
                case PipelineSchedule::zero_bubble:
                  CHECK(held <= p);
                  break;
                case PipelineSchedule::zero_bubble_2p:
                case PipelineSchedule::zero_bubble_v:
                  CHECK(held <= 2 * p + 1e-9);
                  break;
                case PipelineSchedule::dualpipe:  // p + 1 of whole stages (DeepSeek-V3, table 2)
                  CHECK(held <= p + 1);
                  break;
                case PipelineSchedule::dualpipe_v:
                  CHECK(held <= 2 * p + 1);
                  break;
                case PipelineSchedule::interleaved:
                  CHECK(held <= m * v);
                  break;
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("1F1B holds at most as many micro-batches as stages are behind") {
  for (int stage = 0; stage < 8; ++stage) CHECK(most_held(one_f_one_b_order(8, stage, 64)) == 8 - stage);
  CHECK(most_held(one_f_one_b_order(8, 0, 3)) == 3);
}

TEST_CASE("the interleaved warm-up is Megatron-LM's") {
  const auto order = interleaved_order(4, 2, 0, 8);
  std::size_t warm_up = 0;
  while (order[warm_up].pass == Pass::forward) ++warm_up;
  CHECK(warm_up == 2 * 3 + 4 + 1);  // and the first forward of the steady state
  CHECK(order[4].chunk == 1);
  CHECK(order[4].micro_batch == 0);
}

TEST_CASE("interleaved with as many micro-batches as stages: all forward first, or only where the warm-up takes all") {
  for (int stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    CHECK(most_held(interleaved_order(4, 2, stage, 4, true)) == 8);
    const auto order = interleaved_order(4, 2, stage, 4);
    CHECK(most_held(order) == std::min(8, 2 * (3 - stage) + 4 + 1));
  }
  CHECK(interleaved_order(4, 2, 1, 8, true) == interleaved_order(4, 2, 1, 8));
}

TEST_CASE("the interleaved bubble is (p-1)/v passes for any number of chunks and of micro-batches from p on") {
  for (int v : {2, 3, 5}) {
    for (std::int64_t m : {4, 8, 12, 20, 5, 6, 7, 9, 11, 13, 14, 23}) {
      const Plan plan = plan_of(PipelineSchedule::interleaved, 4, v);
      CAPTURE(v);
      CAPTURE(m);
      const double idle = run(plan, m, kEqual).makespan - static_cast<double>(m) * v * busy(kEqual);
      if (m % 4 == 0) CHECK(idle == doctest::Approx(3 * busy(kEqual)));
      CHECK(idle >= 3 * busy(kEqual) - 1e-9);
    }
  }
}

TEST_CASE("ZB-H1 idles (p-1)(F+B-W), and for the same memory less than 1F1B") {
  for (int p : {2, 4, 8}) {
    for (int m : {8, 24, 64}) {
      const Plan plan = plan_of(PipelineSchedule::zero_bubble, p, 1);
      CHECK(run(plan, m, kEqual).makespan - m * busy(kEqual) == doctest::Approx((p - 1) * 1.0));
      const Plan plain = plan_of(PipelineSchedule::one_f_one_b, p, 1);
      CHECK(run(plain, m, kEqual).makespan - m * busy(kEqual) == doctest::Approx((p - 1) * 3.0));
    }
  }
}

TEST_CASE("a stage of ZB-H2 or ZB-V never idles between its first and its last pass where times are equal") {
  for (int p : {2, 4, 8}) {
    for (int m : {16, 24, 64}) {
      const Plan h2 = plan_of(PipelineSchedule::zero_bubble_2p, p, 1);
      CHECK(run(h2, m, kEqual).longest_own == doctest::Approx(m * busy(kEqual)));
      const Plan v = plan_of(PipelineSchedule::zero_bubble_v, p, 2);
      CHECK(run(v, m, kEqual).longest_own == doctest::Approx(2 * m * busy(kEqual)));
    }
  }
}

TEST_CASE("ZB-H2 made to measure idles less than the handcrafted one") {
  const PassTimes times{{10}, {11.6}, {8}, {0.3}, 0.45};
  const Plan plan = plan_of(PipelineSchedule::zero_bubble_2p, 8, 1);
  const double measured = run(plan, 24, times).longest_own;
  const double handcrafted = run(plan, orders(plan, 24, kEqual), times).longest_own;
  CHECK(measured < handcrafted);
  CHECK(1 - 24 * busy(times) / measured < 0.03);
}

// PP/2 - 1 times (F&B + B - 3W), with a whole backward pass B and a forward and a backward pass together F&B, of the
// PP chunks there are (github.com/deepseek-ai/DualPipe): PP/2 = p for DualPipeV, which holds two on each of its p
// ranks.
TEST_CASE("DualPipe and DualPipeV have the published bubble") {
  const double published = busy(kEqual) + 2 - 3;
  for (int m : {16, 24, 26}) {
    const Plan dual = plan_of(PipelineSchedule::dualpipe, 8, 2);
    CHECK(run(dual, m, kEqual).makespan - m * busy(kEqual) == doctest::Approx(3 * published));
    const Plan v = plan_of(PipelineSchedule::dualpipe_v, 8, 2);
    CHECK(run(v, m, kEqual).makespan - 2 * m * busy(kEqual) == doctest::Approx(7 * published));
  }
}
