#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/kernel.h"
#include "sim/plan/plan.h"

namespace foretrain {

// One pass of a micro-batch through one chunk of layers held by a pipeline stage.
struct PipelineOp {
  Pass pass = Pass::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;  // 0 .. vpp-1; where it is in the model: chunk_position()
  // Runs as one with the pass behind it: they start when both have their input, and hand on when both are done.
  bool with_next = false;

  bool operator==(const PipelineOp&) const = default;
};

// What the passes of a typical stage take, for schedules that are made to measure.
struct PassTimes {
  Seconds forward, input_gradient, weight_gradient, transfer;
  // Of the activations that a forward pass keeps, the share that is held for the weight gradient after the input
  // gradient has run.
  double deferred_share = 1;
};

// The order in which a stage issues its passes. One function a schedule; a new one is added here, in one file, and to
// pipeline_order(). When each pass really runs comes out of the simulation.
std::vector<PipelineOp> gpipe_order(std::int64_t micro_batches);
std::vector<PipelineOp> one_f_one_b_order(int stages, int stage, std::int64_t micro_batches);
// `all_forward_first`: with no more micro-batches than stages.
std::vector<PipelineOp> interleaved_order(int stages, int chunks, int stage, std::int64_t micro_batches,
                                          bool all_forward_first = false);
std::vector<PipelineOp> zero_bubble_order(int stages, int stage, std::int64_t micro_batches);
std::vector<PipelineOp> zero_bubble_2p_order(int stages, int stage, std::int64_t micro_batches, const PassTimes& times);
std::vector<PipelineOp> zero_bubble_v_order(int stages, int stage, std::int64_t micro_batches);
std::vector<PipelineOp> dualpipe_order(int stages, int stage, std::int64_t micro_batches);
std::vector<PipelineOp> dualpipe_v_order(int stages, int stage, std::int64_t micro_batches);

// `times` is looked at where made_to_measure().
std::vector<PipelineOp> pipeline_order(const Plan& plan, int stage, std::int64_t micro_batches, const PassTimes& times);
bool made_to_measure(PipelineSchedule schedule);

// Puts passes in order; micro-batches follow one another in each chunk and kind of pass.
class OrderWriter {
 public:
  // `first_micro_batch`: of each chunk.
  explicit OrderWriter(std::vector<std::int32_t> first_micro_batch)
      : forward_(first_micro_batch), backward_(std::move(first_micro_batch)) {}

  void forward(int chunk) { order_.push_back({Pass::forward, forward_[at(chunk)]++, chunk}); }
  void backward(int chunk) { order_.push_back({Pass::backward, backward_[at(chunk)]++, chunk}); }
  // The first half of a backward pass; the second is owed.
  void input_gradient(int chunk) {
    order_.push_back({Pass::input_gradient, backward_[at(chunk)]++, chunk});
    owed_.push_back({Pass::weight_gradient, order_.back().micro_batch, chunk});
  }
  // The weight gradients that are owed longest.
  void weight_gradient() { order_.push_back(owed_[paid_++]); }
  void pay_all() {
    while (owed() > 0) weight_gradient();
  }
  // Ties the last pass to the one that is written next.
  void with_next() { order_.back().with_next = true; }

  std::int64_t forwards(int chunk) const { return forward_[at(chunk)]; }
  std::int64_t backwards(int chunk) const { return backward_[at(chunk)]; }
  std::int64_t owed() const { return static_cast<std::int64_t>(owed_.size() - paid_); }
  std::vector<PipelineOp> finish() { return std::move(order_); }

 private:
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  std::vector<PipelineOp> order_, owed_;
  std::size_t paid_ = 0;
  std::vector<std::int32_t> forward_, backward_;  // next micro-batch of each chunk
};

}  // namespace foretrain
