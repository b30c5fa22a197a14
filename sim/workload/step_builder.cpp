#include "sim/workload/step_builder.h"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

// The work of a tree or of in-switch reduction is the buffer; a ring sends 2(n-1)/n of it.
double ring_bytes(const Communicator& c) {
  const bool of_buffer = c.algorithm == Algorithm::tree || c.algorithm == Algorithm::nvls;
  return of_buffer ? 2.0 * (c.shape.ranks - 1) / c.shape.ranks : 1.0;
}

}  // namespace
Time Composition::total() const {
  Time sum;
  for (Time part : parts) sum += part;
  return sum;
}

Composition& Composition::operator+=(const Composition& other) {
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += other.parts[i];
  return *this;
}

StepBuilder::StepBuilder(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants,
                         const StepOptions& options)
    : case_(subject),
      cluster_(cluster),
      costs_(subject),
      communicators_(subject, cluster, constants, options.folding),
      // The slowest of n ranks falls behind the mean by about as much with every doubling (weak-scaling series).
      straggler_share_(subject.software.jitter_per_doubling * std::log2(subject.plan.gpus())) {}

Step StepBuilder::build() {
  step_.layouts = stage_layouts(case_.model, case_.plan, case_.software);
  step_.micro_batches = micro_batches(case_.plan, case_.train);
  step_.total_ranks = case_.plan.gpus();
  step_.simulated_ranks = static_cast<int>(communicators_.rank_classes().size());
  create_streams();
  for (int stage = 0; stage < case_.plan.pp; ++stage) issue_stage(stage);
  join_stages();
  finish_step();
  return std::move(step_);
}

void StepBuilder::create_streams() {
  ranks_of_stage_.resize(static_cast<std::size_t>(case_.plan.pp));
  const std::size_t passes = static_cast<std::size_t>(2 * case_.plan.vpp * step_.micro_batches);
  for (const Communicators::FoldedLink& link : communicators_.links()) {
    link_.push_back(step_.graph.add_resource(link.rate));
    step_.resource_is_link.push_back(true);
    step_.link_kind_of_resource.push_back(link.kind);
  }
  for (std::uint32_t r = 0; r < communicators_.rank_classes().size(); ++r) {
    ranks_of_stage_[static_cast<std::size_t>(communicators_.stage_of(r))].push_back(r);
    for (auto* streams : {&compute_, &data_, &send_forward_, &send_backward_}) {
      streams->push_back(step_.graph.add_stream());
    }
    gpu_.push_back(step_.graph.add_resource(kPicosecondsPerSecond));
    step_.resource_is_link.push_back(false);
    step_.link_kind_of_resource.push_back(LinkKind::nvlink);
    first_task_.emplace_back(passes);
    last_task_.emplace_back(passes);
    step_.stage.push_back(communicators_.stage_of(r));
    step_.multiplicity.push_back(communicators_.rank_classes()[r].multiplicity);
  }
  for (std::uint32_t c = 0; c < communicators_.all().size(); ++c) {
    step_.communicator_link_kind.push_back(communicators_.limiting_link(c));
    step_.communicator_ring_bytes.push_back(ring_bytes(communicators_.all()[c]));
  }
  for (std::uint32_t r = 0; r < compute_.size(); ++r) {
    const auto ring = communicators_.find(r, Purpose::tensor, Algorithm::ring);
    step_.tensor_link_kind.push_back(ring ? step_.communicator_link_kind[*ring] : LinkKind::nvlink);
    const auto context = communicators_.find(r, Purpose::context, Algorithm::ring);
    step_.context_link_kind.push_back(context ? step_.communicator_link_kind[*context] : LinkKind::nvlink);
  }
  step_.compute_tasks.resize(compute_.size());
  reduced_.resize(compute_.size());
}

std::size_t StepBuilder::pass_index(const PipelineOp& op) const {
  const auto chunks = static_cast<std::size_t>(case_.plan.vpp);
  return (static_cast<std::size_t>(op.micro_batch) * chunks + static_cast<std::size_t>(op.chunk)) * 2 +
         (op.pass == Pass::backward ? 1 : 0);
}

engine::TaskId StepBuilder::add_task(engine::CostId cost, TaskInfo info) {
  step_.tasks.push_back(info);
  return step_.graph.add_task(cost);
}

std::uint32_t StepBuilder::add_composition(const Composition& composition) {
  step_.compositions.push_back(composition);
  return static_cast<std::uint32_t>(step_.compositions.size() - 1);
}

// Of the tensor that one context-parallel rank hands to the next stage.
double StepBuilder::boundary_elements() const {
  return static_cast<double>(case_.plan.micro_batch * case_.train.seq_len / case_.plan.cp * case_.model.hidden);
}

bool StepBuilder::receives_pieces(const PipelineOp& op) const {
  const Plan& plan = case_.plan;
  if (plan.tp == 1 || plan.pp == 1 || plan.sequence_parallel || !case_.software.pipeline_scatter_gather) return false;
  const bool first = stage_ == 0 && op.chunk == 0;
  const bool last = stage_ == plan.pp - 1 && op.chunk == plan.vpp - 1;
  return op.pass == Pass::forward ? !first : !last;
}

// Data-parallel traffic runs beside the first forward passes (parameters that come back from the last step) and from
// the first pass whose gradients are reduced.
StepBuilder::Window StepBuilder::data_traffic_window(const std::vector<PipelineOp>& order) const {
  Window window{0, order.size()};
  if (case_.plan.data_ranks() == 1) return window;
  if (case_.plan.zero == 3) return {order.size(), 0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!gathered_.empty() && order[i].pass == Pass::forward && order[i].micro_batch == 0) window.gathers_until = i + 1;
    if (reduces_in(order[i])) window.reductions_from = std::min(window.reductions_from, i);
  }
  return window;
}

bool StepBuilder::contraction_is_exact() const {
  return case_.plan.tp * case_.plan.cp == 1 || isolation_.always || isolation_.outside_data_traffic;
}

void StepBuilder::issue_stage(int stage) {
  stage_ = stage;
  ranks_ = ranks_of_stage_[static_cast<std::size_t>(stage)];
  prepared_.clear();
  prepared_gather_.reset();
  contracted_.clear();
  collective_costs_.clear();
  block_ends_.clear();
  isolation_ = {true, true};
  if (case_.plan.tp * case_.plan.cp > 1) {
    for (std::uint32_t rank : ranks_) {
      const auto mine = communicators_.isolation(rank);
      isolation_.always = isolation_.always && mine.always;
      isolation_.outside_data_traffic = isolation_.outside_data_traffic && mine.outside_data_traffic;
    }
  }
  buckets_ =
      gradient_buckets(step_.layouts[static_cast<std::size_t>(stage)], case_.software.gradient_bytes, bucket_bytes());
  order_.push_back(pipeline_order(case_.plan, stage, step_.micro_batches));
  const std::vector<PipelineOp>& order = order_.back();
  issue_parameter_gathers_before_forward();
  const Window window = data_traffic_window(order);

  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool beside_data_traffic = window.contains(i);
    Span span{PerRank(ranks_.size()), PerRank(ranks_.size())};
    if (!beside_data_traffic && contraction_is_exact()) {
      issue_contracted(order[i], span);
    } else {
      issue_blocks(order[i], beside_data_traffic, span);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      first_task_[ranks_[r]][pass_index(order[i])] = span.first[r];
      last_task_[ranks_[r]][pass_index(order[i])] = span.last[r];
    }
  }
  finish_reductions();
}

void StepBuilder::issue_contracted(const PipelineOp& op, Span& span) {
  const ContractedPass& pass = contracted(op);
  const TaskKind kind = op.pass == Pass::forward ? TaskKind::forward : TaskKind::backward;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const TaskId task = add_task(pass.cost[r], {kind, true, ranks_[r], op.micro_batch,
                                                static_cast<std::int16_t>(op.chunk), -1, pass.composition[r]});
    step_.graph.enqueue(compute_[ranks_[r]], task);
    step_.compute_tasks[ranks_[r]].push_back(task);
    span.first[r] = span.last[r] = task;
  }
}

void StepBuilder::issue_prepared(const PreparedBlock& block, const PipelineOp& op, int block_index, bool contended,
                                 Span& span) {
  const TaskKind kind = op.pass == Pass::forward ? TaskKind::forward : TaskKind::backward;
  auto issued = [&](std::size_t r, TaskId task) {
    step_.graph.enqueue(compute_[ranks_[r]], task);
    step_.compute_tasks[ranks_[r]].push_back(task);
    if (!span.first[r].valid()) span.first[r] = task;
    span.last[r] = task;
  };
  for (const PreparedStep& step : block) {
    if (step.has_compute) {
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const engine::CostId cost = contended ? step.contended[r] : step.alone[r];
        issued(r, add_task(cost, {kind, true, ranks_[r], op.micro_batch, static_cast<std::int16_t>(op.chunk),
                                  static_cast<std::int16_t>(block_index), step.composition[r]}));
      }
    }
    for (const PreparedStep::Join& join : step.collectives) {
      const TaskId task =
          add_task(join.cost, {step.collective_kind, true, join.communicator, op.micro_batch,
                               static_cast<std::int16_t>(op.chunk), static_cast<std::int16_t>(block_index), 0});
      const auto& members = communicators_.all()[join.communicator].rank_classes;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (std::find(members.begin(), members.end(), ranks_[r]) != members.end()) issued(r, task);
      }
    }
  }
}

void StepBuilder::issue_blocks(const PipelineOp& op, bool contended, Span& span) {
  const Plan& plan = case_.plan;
  const auto& blocks =
      step_.layouts[static_cast<std::size_t>(stage_)].chunks[static_cast<std::size_t>(op.chunk)].blocks;
  const int count = static_cast<int>(blocks.size());
  auto block_at = [&](int i) { return op.pass == Pass::forward ? i : count - 1 - i; };
  const bool gathers = plan.zero == 3 && plan.shard_ranks() > 1;
  const bool prefetches = gathers && case_.software.zero3_overlap;
  const int ahead = prefetches ? case_.software.zero3_prefetch_layers : 0;
  std::vector<PerRank> gathered(blocks.size());

  // Issues the gather of the i-th block of this pass; it may start once the block before the one that runs has ended.
  auto gather = [&](int i) {
    const Block& block = blocks[static_cast<std::size_t>(block_at(i))];
    const Bytes bytes{block.parameters * element_bytes(case_.train.precision)};
    const std::size_t ended = block_ends_.size();
    const PerRank after = ended > 0 && prefetches ? block_ends_[ended - 1] : PerRank{};
    const bool twice =
        op.pass == Pass::backward && block.recomputed && case_.software.zero3_gathers_with_recompute == 3;
    for (int times = twice ? 2 : 1; times > 0; --times) {
      gathered[static_cast<std::size_t>(i)] = issue_collective(Purpose::shard, Collective::all_gather, bytes,
                                                               TaskKind::shard_gather, after, !prefetches, op);
    }
  };

  if (receives_pieces(op)) issue_prepared(prepared_gather(), op, -1, contended, span);
  int next_gather = 0;
  for (int i = 0; i < count; ++i) {
    const int index = block_at(i);
    const Block& block = blocks[static_cast<std::size_t>(index)];
    if (gathers) {
      while (next_gather <= std::min(i + ahead, count - 1)) gather(next_gather++);
    }
    Span block_span{PerRank(ranks_.size()), PerRank(ranks_.size())};
    issue_prepared(prepared(block.kind, block.recomputed, op.pass), op, index, contended, block_span);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!block_span.first[r].valid()) continue;
      if (!span.first[r].valid()) span.first[r] = block_span.first[r];
      span.last[r] = block_span.last[r];
      auto wait_for = [&](const PerRank& tasks) {
        if (r < tasks.size() && tasks[r].valid()) step_.graph.add_dependency(tasks[r], block_span.first[r]);
      };
      if (gathers && prefetches) wait_for(gathered[static_cast<std::size_t>(i)]);
      if (!gathered_.empty() && op.pass == Pass::forward && op.micro_batch == 0) {
        wait_for(gathered_[static_cast<std::size_t>(op.chunk)][static_cast<std::size_t>(index)]);
      }
    }
    if (gathers) block_ends_.push_back(block_span.last);
    if (!reduces_in(op)) continue;
    if (plan.zero == 3) {
      if (block.parameters > 0) reduce_gradients(block.parameters, block_span.last, op);
    } else {
      for (const GradientBucket& bucket : buckets_) {
        if (bucket.chunk == op.chunk && bucket.block == index) reduce_gradients(bucket.parameters, block_span.last, op);
      }
    }
  }
}

Step build_step(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants,
                const StepOptions& options) {
  return StepBuilder(subject, cluster, constants, options).build();
}

}  // namespace foretrain
