#include <algorithm>

#include "sim/workload/step_builder.h"

namespace foretrain {

Bytes StepBuilder::boundary_bytes(std::uint32_t rank) const {
  const bool in_pieces = case_.plan.sequence_parallel || case_.software.pipeline_scatter_gather;
  return {boundary_elements(rank) * element_bytes(case_.train.precision) / (in_pieces ? case_.plan.tp : 1)};
}

// Sends what a pass made to the stage that needs it next, and lets that stage's pass wait for it. Without overlap the
// sender's compute stream waits for the transfer too, as batched point-to-point calls make it (Megatron-LM, DeepSpeed).
void StepBuilder::send(std::uint32_t rank, const PipelineOp& op, const PipelineOp* next) {
  if (op.pass == Pass::weight_gradient) return;
  const Plan& plan = case_.plan;
  const int stage = step_.stage[rank];
  const ChunkPlace here{stage, op.chunk};
  const auto place = op.pass == Pass::forward ? next_chunk(plan, here) : previous_chunk(plan, here);
  if (!place) return;
  PipelineOp target = op;
  target.chunk = place->chunk;

  const TaskId made = last_task_[rank][pass_index(op)];
  if (place->stage == stage) {
    step_.graph.add_dependency(made, first_task_[rank][pass_index(target)]);
    return;
  }
  // Where chunks go back again, forward passes send to the stage before, too.
  const bool to_next_stage = goes_there_and_back(plan.schedule) ? place->stage > stage : op.pass == Pass::forward;
  const Purpose purpose = to_next_stage ? Purpose::forward : Purpose::backward;
  const auto communicator = communicators_.find(rank, purpose, Algorithm::direct);
  if (!communicator) throw std::logic_error("a pipeline stage has no way to send");
  auto [known, inserted] = send_cost_.try_emplace(*communicator);
  if (inserted) {
    const CollectiveCost cost = communicators_.cost_of(*communicator, Collective::send, boundary_bytes(rank));
    known->second = communication_cost(*communicator, Collective::send, cost, 1.0, false);
  }
  const TaskId transfer = add_task(known->second, {TaskKind::pipeline_transfer, false, *communicator, op.micro_batch,
                                                   static_cast<std::int16_t>(op.chunk), -1, 0});
  step_.graph.enqueue(to_next_stage ? send_forward_[rank] : send_backward_[rank], transfer);
  step_.graph.add_dependency(made, transfer);
  const std::uint32_t receiver = communicators_.all()[*communicator].rank_classes.back();
  step_.graph.add_dependency(transfer, first_task_[receiver][pass_index(target)]);
  if (!plan.overlap.p2p && next != nullptr) {
    step_.graph.add_dependency(transfer, first_task_[rank][pass_index(*next)]);
  }
}

void StepBuilder::join_stages() {
  for (std::uint32_t rank = 0; rank < compute_.size(); ++rank) {
    const int stage = step_.stage[rank];
    const std::vector<PipelineOp>& order = order_of(rank);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t behind = i + (order[i].with_next ? 2 : 1);
      send(rank, order[i], behind < order.size() ? &order[behind] : nullptr);
    }
    // The last chunk's backward starts from its own forward.
    for (const PipelineOp& op : order) {
      if (op.pass != Pass::forward || next_chunk(case_.plan, {stage, op.chunk})) continue;
      const PipelineOp backward{Pass::backward, op.micro_batch, op.chunk, false};
      step_.graph.add_dependency(last_task_[rank][pass_index(op)], first_task_[rank][pass_index(backward)]);
    }
  }
  tied_.resize(compute_.size());
  if (case_.model.tied_embeddings && !ends_share_a_stage(case_.plan)) {
    reduce_between_stages(Purpose::tie, TaskKind::tie_reduce);
  }
  if (case_.plan.schedule == PipelineSchedule::dualpipe) {
    reduce_between_stages(Purpose::mirror, TaskKind::mirror_reduce);
  }
}

// Two stages that hold the same weights add up their gradients once both are reduced: the table of tied embeddings, or
// all that a stage of dualpipe holds.
void StepBuilder::reduce_between_stages(Purpose purpose, TaskKind kind) {
  std::vector<std::uint32_t> done;
  for (std::uint32_t rank = 0; rank < compute_.size(); ++rank) {
    const StageLayout& layout = step_.layouts[static_cast<std::size_t>(step_.stage[rank])];
    const double shared =
        purpose == Purpose::tie ? step_.layouts.front().chunks.front().blocks.front().trained() : layout.trained();
    if (shared <= 0) continue;  // frozen
    const Bytes bytes{shared * case_.software.gradient_bytes};
    const CollectiveCost cost = communicators_.cost(rank, purpose, Collective::all_reduce, bytes);
    const auto communicator = communicators_.find(rank, purpose, cost.algorithm);
    if (!communicator || std::find(done.begin(), done.end(), *communicator) != done.end()) continue;
    done.push_back(*communicator);
    const TaskId task = add_task(communication_cost(*communicator, Collective::all_reduce, cost, 1.0, false),
                                 {kind, false, *communicator, -1, -1, -1, 0});
    for (std::uint32_t member : communicators_.all()[*communicator].rank_classes) {
      step_.graph.add_dependency(last_task_[member][pass_index(order_of(member).back())], task);
      if (reduced_[member].valid()) step_.graph.add_dependency(reduced_[member], task);
      tied_[member].push_back(task);
    }
  }
}

}  // namespace foretrain
