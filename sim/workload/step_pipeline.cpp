#include <algorithm>

#include "sim/workload/step_builder.h"

namespace foretrain {

// Sends what a pass made to the stage that needs it next, and lets that stage's pass wait for it. Without overlap the
// sender's compute stream waits for the transfer too, as batched point-to-point calls make it (Megatron-LM, DeepSpeed).
void StepBuilder::send(std::uint32_t rank, const PipelineOp& op, const PipelineOp* next) {
  const Plan& plan = case_.plan;
  const int stage = step_.stage[rank];
  const bool forward = op.pass == Pass::forward;
  PipelineOp target = op;
  if (forward && stage == plan.pp - 1) ++target.chunk;
  if (!forward && stage == 0) --target.chunk;
  if (target.chunk < 0 || target.chunk >= plan.vpp) return;

  const TaskId made = last_task_[rank][pass_index(op)];
  if (plan.pp == 1) {
    step_.graph.add_dependency(made, first_task_[rank][pass_index(target)]);
    return;
  }
  const bool in_pieces = plan.sequence_parallel || case_.software.pipeline_scatter_gather;
  const Bytes bytes{boundary_elements() * element_bytes(case_.train.precision) / (in_pieces ? plan.tp : 1)};
  const Purpose purpose = forward ? Purpose::forward : Purpose::backward;
  const auto communicator = communicators_.find(rank, purpose, Algorithm::direct);
  if (!communicator) throw std::logic_error("a pipeline stage has no way to send");
  auto [known, inserted] = send_cost_.try_emplace(*communicator);
  if (inserted) {
    const CollectiveCost cost = communicators_.cost_of(*communicator, Collective::send, bytes);
    known->second = communication_cost(*communicator, cost, 1.0, false);
  }
  const TaskId transfer = add_task(known->second, {TaskKind::pipeline_transfer, false, *communicator, op.micro_batch,
                                                   static_cast<std::int16_t>(op.chunk), -1, 0});
  step_.graph.enqueue(forward ? send_forward_[rank] : send_backward_[rank], transfer);
  step_.graph.add_dependency(made, transfer);
  const std::uint32_t receiver = communicators_.all()[*communicator].rank_classes.back();
  step_.graph.add_dependency(transfer, first_task_[receiver][pass_index(target)]);
  if (!plan.overlap.p2p && next != nullptr) {
    step_.graph.add_dependency(transfer, first_task_[rank][pass_index(*next)]);
  }
}

void StepBuilder::join_stages() {
  const Plan& plan = case_.plan;
  for (std::uint32_t rank = 0; rank < compute_.size(); ++rank) {
    const std::vector<PipelineOp>& order = order_[static_cast<std::size_t>(step_.stage[rank])];
    for (std::size_t i = 0; i < order.size(); ++i) {
      send(rank, order[i], i + 1 < order.size() ? &order[i + 1] : nullptr);
    }
    if (step_.stage[rank] != plan.pp - 1) continue;
    // The last chunk's backward starts from its own forward.
    for (std::int64_t m = 0; m < step_.micro_batches; ++m) {
      const PipelineOp forward{Pass::forward, static_cast<std::int32_t>(m), plan.vpp - 1};
      const PipelineOp backward{Pass::backward, static_cast<std::int32_t>(m), plan.vpp - 1};
      step_.graph.add_dependency(last_task_[rank][pass_index(forward)], first_task_[rank][pass_index(backward)]);
    }
  }
  reduce_tied_embeddings();
}

// Embedding and head share their weights: first and last stage add up their gradients once both are reduced.
void StepBuilder::reduce_tied_embeddings() {
  tied_.resize(compute_.size());
  if (!case_.model.tied_embeddings || case_.plan.pp == 1) return;
  const double table = step_.layouts.front().chunks.front().blocks.front().parameters;
  const Bytes bytes{table * case_.software.gradient_bytes};
  std::vector<std::uint32_t> done;
  for (std::uint32_t rank = 0; rank < compute_.size(); ++rank) {
    const CollectiveCost cost = communicators_.cost(rank, Purpose::tie, Collective::all_reduce, bytes);
    const auto communicator = communicators_.find(rank, Purpose::tie, cost.algorithm);
    if (!communicator || std::find(done.begin(), done.end(), *communicator) != done.end()) continue;
    done.push_back(*communicator);
    const TaskId task = add_task(communication_cost(*communicator, cost, 1.0, false),
                                 {TaskKind::tie_reduce, false, *communicator, -1, -1, -1, 0});
    for (std::uint32_t member : communicators_.all()[*communicator].rank_classes) {
      const std::vector<PipelineOp>& order = order_[static_cast<std::size_t>(step_.stage[member])];
      step_.graph.add_dependency(last_task_[member][pass_index(order.back())], task);
      if (reduced_[member].valid()) step_.graph.add_dependency(reduced_[member], task);
      tied_[member].push_back(task);
    }
  }
}

}  // namespace foretrain
