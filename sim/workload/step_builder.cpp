#include "sim/workload/step_builder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/memory/ledger.h"

namespace foretrain {
namespace {

// The work of a tree or of in-switch reduction is the buffer; a ring sends 2(n-1)/n of it.
double ring_bytes(const Communicator& c) {
  const bool of_buffer = c.algorithm == Algorithm::tree || c.algorithm == Algorithm::nvls;
  return of_buffer ? 2.0 * (c.shape.ranks - 1) / c.shape.ranks : 1.0;
}

TaskKind kind_of(Pass pass) {
  constexpr std::array kinds = {TaskKind::forward, TaskKind::backward, TaskKind::input_gradient,
                                TaskKind::weight_gradient};
  return kinds[static_cast<std::size_t>(pass)];
}

// After which the gradients of the chunk's weights hold another micro-batch.
bool completes_gradients(Pass pass) { return pass == Pass::backward || pass == Pass::weight_gradient; }

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
      shared_communicators_(options.communicators
                                ? options.communicators
                                : std::make_shared<const Communicators>(subject, cluster, constants, options.folding,
                                                                        options.hosts, options.folded)),
      communicators_(*shared_communicators_),
      // The slowest of n ranks falls behind the mean by about as much with every doubling (weak-scaling series).
      straggler_share_(subject.software.jitter_per_doubling * std::log2(subject.plan.gpus())),
      with_pieces_(options.with_pieces) {
  find_kinds();
}

void StepBuilder::find_kinds() {
  std::map<std::pair<int, Plan::Share>, std::size_t> known;
  for (const Classes::RankClass& rank : communicators_.rank_classes()) {
    gpu_.push_back(case_.cluster.oddity_of(rank.representative));
    step_.gpu_kind.push_back(gpu_.back().kind);
    step_.share.push_back(share_of(case_.plan, case_.train, coordinates(case_.plan, rank.representative).dp));
    const auto [kind, is_new] = known.try_emplace({gpu_.back().kind, step_.share.back()}, kinds_.size());
    kind_.push_back(kind->second);
    if (!is_new) continue;
    Case alike = case_.plan.shares.empty() ? case_ : with_share(case_, step_.share.back());
    alike.cluster.gpu = case_.cluster.gpu_of_kind(gpu_.back().kind);
    LayerCosts costs(alike);
    kinds_.push_back({std::move(alike), std::move(costs)});
  }
}

Step StepBuilder::build() {
  step_.layouts = stage_layouts(case_.model, case_.plan, case_.software, case_.train.peft);
  step_.micro_batches = micro_batches(case_.plan, case_.train);
  step_.total_ranks = case_.plan.gpus();
  step_.simulated_ranks = static_cast<int>(communicators_.rank_classes().size());
  create_streams();
  form_crews();
  step_.staggered =
      is_zero_bubble(case_.plan.schedule) && case_.software.optimizer_post_validated && case_.plan.zero == 0;
  order_passes();
  for (std::size_t crew = 0; crew < crews_.size(); ++crew) issue_crew(crew);
  join_stages();
  finish_step();
  check_that_all_met();
  step_.communicators = communicators_.all();
  step_.folded = communicators_.folded();
  return std::move(step_);
}

void StepBuilder::form_crews() {
  crew_of_.resize(step_.share.size());
  for (int stage = 0; stage < case_.plan.pp; ++stage) {
    const std::size_t first = crews_.size();
    for (std::uint32_t rank = 0; rank < step_.share.size(); ++rank) {
      if (step_.stage[rank] != stage) continue;
      std::size_t crew = first;
      while (crew < crews_.size() && crews_[crew].share != step_.share[rank]) ++crew;
      if (crew == crews_.size()) crews_.push_back({stage, step_.share[rank], {}, {}});
      crews_[crew].ranks.push_back(rank);
      crew_of_[rank] = crew;
    }
  }
}

void StepBuilder::order_passes() {
  std::map<Plan::Share, PassTimes> times;
  for (Crew& crew : crews_) {
    const auto [known, is_new] = times.try_emplace(crew.share);
    if (is_new && made_to_measure(case_.plan.schedule)) known->second = typical_pass_times(crew.share);
    crew.order = pipeline_order(case_.plan, crew.stage, crew.share.micro_batches, known->second);
  }
}

void StepBuilder::create_streams() {
  const std::size_t passes = static_cast<std::size_t>(3 * case_.plan.vpp * step_.micro_batches);
  for (const Communicators::FoldedLink& link : communicators_.links()) {
    link_.push_back(step_.graph.add_resource(link.rate));
    step_.resource_is_link.push_back(true);
    step_.link_kind_of_resource.push_back(link.kind);
  }
  for (std::uint32_t r = 0; r < communicators_.rank_classes().size(); ++r) {
    for (auto* streams : {&compute_, &data_, &send_forward_, &send_backward_}) {
      streams->push_back(step_.graph.add_stream());
    }
    sms_.push_back(step_.graph.add_resource(kPicosecondsPerSecond));
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
    auto context = communicators_.find(r, Purpose::context, Algorithm::ring);
    if (!context) context = communicators_.find(r, Purpose::context, Algorithm::all_to_all);
    step_.context_link_kind.push_back(context ? step_.communicator_link_kind[*context] : LinkKind::nvlink);
    auto expert = communicators_.find(r, Purpose::expert, Algorithm::all_to_all);
    if (!expert) expert = communicators_.find(r, Purpose::expert, Algorithm::ring);
    if (!expert) expert = communicators_.find(r, Purpose::expert_tensor, Algorithm::ring);
    step_.expert_link_kind.push_back(expert ? step_.communicator_link_kind[*expert] : LinkKind::nvlink);
  }
  step_.compute_tasks.resize(compute_.size());
  reduced_.resize(compute_.size());
  gradients_out_.resize(compute_.size());
  updated_.resize(compute_.size());
  step_waits_.resize(compute_.size());
  if (!case_.plan.offload.any()) return;
  for (std::vector<engine::StreamId>& streams : host_streams_) {
    for (std::size_t r = 0; r < compute_.size(); ++r) streams.push_back(step_.graph.add_stream());
  }
}

std::size_t StepBuilder::pass_index(const PipelineOp& op) const {
  const auto chunks = static_cast<std::size_t>(case_.plan.vpp);
  const std::size_t kind = op.pass == Pass::forward ? 0 : op.pass == Pass::weight_gradient ? 2 : 1;
  return (static_cast<std::size_t>(op.micro_batch) * chunks + static_cast<std::size_t>(op.chunk)) * 3 + kind;
}

engine::TaskId StepBuilder::add_task(engine::CostId cost, TaskInfo info) {
  step_.tasks.push_back(info);
  return step_.graph.add_task(cost);
}

std::uint32_t StepBuilder::add_composition(const Composition& composition) {
  step_.compositions.push_back(composition);
  if (with_pieces_) step_.pieces.emplace_back();
  return static_cast<std::uint32_t>(step_.compositions.size() - 1);
}

// Of the tensor that one context-parallel rank hands to the next stage.
double StepBuilder::boundary_elements(std::uint32_t rank) const {
  const std::int64_t sequences = step_.share[rank].micro_batch;
  return static_cast<double>(sequences * case_.train.seq_len / case_.plan.cp * case_.model.hidden);
}

bool StepBuilder::receives_pieces(const PipelineOp& op) const {
  const Plan& plan = case_.plan;
  if (plan.tp == 1 || plan.pp == 1 || plan.sequence_parallel || !case_.software.pipeline_scatter_gather) return false;
  if (op.pass == Pass::weight_gradient) return false;
  const ChunkPlace here{stage_, op.chunk};
  const auto sender = op.pass == Pass::forward ? previous_chunk(plan, here) : next_chunk(plan, here);
  return sender && sender->stage != stage_;
}

bool StepBuilder::is_first_forward(const PipelineOp& op) const {
  return op.pass == Pass::forward && op.micro_batch == chunk_spans_[static_cast<std::size_t>(op.chunk)].first_forward;
}

// Data-parallel traffic runs beside the first forward passes (parameters that come back from the last step) and from
// the first pass whose gradients are reduced.
StepBuilder::Window StepBuilder::data_traffic_window(const std::vector<PipelineOp>& order) const {
  Window window{0, order.size()};
  if (!has_data_traffic()) return window;
  if (case_.plan.zero == 3 && !gathers_once(case_)) return {order.size(), 0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool gathers = !gathered_.empty() || case_.plan.zero == 3;
    if (gathers && is_first_forward(order[i])) window.gathers_until = i + 1;
    if (reduces_in(order[i])) window.reductions_from = std::min(window.reductions_from, i);
  }
  return window;
}

bool StepBuilder::communicates_in_layers() const {
  const Plan& plan = case_.plan;
  return plan.tp * plan.cp > 1 || (case_.model.experts > 0 && plan.ep * plan.etp > 1);
}

// Another crew of the stage may have data-parallel traffic at any time.
bool StepBuilder::contraction_is_exact() const {
  return !communicates_in_layers() || isolation_.always ||
         (isolation_.outside_data_traffic && case_.plan.shares.empty());
}

void StepBuilder::take(std::size_t crew) {
  crew_ = crew;
  stage_ = crews_[crew].stage;
  ranks_ = crews_[crew].ranks;
}

// Takes a crew in hand for its passes, of which nothing is prepared yet.
void StepBuilder::enter(std::size_t crew) {
  take(crew);
  prepared_.clear();
  prepared_gather_.reset();
  contracted_.clear();
  collective_costs_.clear();
  block_ends_.clear();
  activations_out_.clear();
  activation_copies_.clear();
  isolation_ = {true, true};
  if (communicates_in_layers()) {
    for (std::uint32_t rank : ranks_) {
      const auto mine = communicators_.isolation(rank);
      isolation_.always = isolation_.always && mine.always;
      isolation_.outside_data_traffic = isolation_.outside_data_traffic && mine.outside_data_traffic;
    }
  }
}

// How long the passes of the stage with most layers take when nothing disturbs them, in the pipelines with this share.
PassTimes StepBuilder::typical_pass_times(const Plan::Share& share) {
  const auto layers = [](const StageLayout& stage) { return stage.chunks.front().layers(); };
  const auto fullest =
      std::max_element(step_.layouts.begin(), step_.layouts.end(),
                       [&](const StageLayout& a, const StageLayout& b) { return layers(a) < layers(b); });
  const auto stage = static_cast<std::size_t>(fullest - step_.layouts.begin());
  const auto crew = std::find_if(crews_.begin(), crews_.end(),
                                 [&](const Crew& c) { return c.stage == static_cast<int>(stage) && c.share == share; });
  enter(static_cast<std::size_t>(crew - crews_.begin()));
  const auto longest = [this](Pass pass) {
    Time most;
    for (std::uint32_t made_of : contracted({pass, 0, 0}).composition) {
      most = std::max(most, step_.compositions[made_of].total());
    }
    return Seconds{most.seconds()};
  };
  PassTimes times{longest(Pass::forward), longest(Pass::input_gradient), longest(Pass::weight_gradient), {0}, 1};
  for (std::uint32_t rank = 0; rank < compute_.size(); ++rank) {
    const auto way = communicators_.find(rank, Purpose::forward, Algorithm::direct);
    if (!way || step_.share[rank] != share) continue;
    const CollectiveCost cost = communicators_.cost_of(*way, Collective::send, boundary_bytes(rank));
    times.transfer = std::max(times.transfer, Seconds{idle_duration(*way, cost, 1.0).seconds()});
  }
  const StageMemory::ChunkMemory memory = stage_memories(case_of(ranks_.front()), step_.layouts)[stage].chunks.front();
  if (memory.kept.value > 0) times.deferred_share = memory.deferred / memory.kept;
  return times;
}

void StepBuilder::issue_crew(std::size_t crew) {
  enter(crew);
  buckets_ =
      gradient_buckets(step_.layouts[static_cast<std::size_t>(stage_)], case_.software.gradient_bytes, bucket_bytes());
  const std::vector<PipelineOp>& order = crews_[crew].order;
  chunk_spans_.assign(static_cast<std::size_t>(case_.plan.vpp), {});
  for (auto op = order.rbegin(); op != order.rend(); ++op) {
    if (op->pass == Pass::forward) chunk_spans_[static_cast<std::size_t>(op->chunk)].first_forward = op->micro_batch;
  }
  for (const PipelineOp& op : order) {
    if (!completes_gradients(op.pass)) continue;
    chunk_spans_[static_cast<std::size_t>(op.chunk)].last_gradients = op.micro_batch;
  }
  issue_parameter_gathers_before_forward();
  const Window window = data_traffic_window(order);

  Span span;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool beside_data_traffic = window.contains(i);
    span.first.assign(ranks_.size(), {});
    span.last.assign(ranks_.size(), {});
    if (!beside_data_traffic && contraction_is_exact() && !offload_needs_blocks(order[i])) {
      issue_contracted(order[i], span);
    } else {
      issue_blocks(order[i], beside_data_traffic, span);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      first_task_[ranks_[r]][pass_index(order[i])] = span.first[r];
      last_task_[ranks_[r]][pass_index(order[i])] = span.last[r];
      if (i == 0 || !order[i - 1].with_next) continue;
      first_task_[ranks_[r]][pass_index(order[i])] = first_task_[ranks_[r]][pass_index(order[i - 1])];
      last_task_[ranks_[r]][pass_index(order[i - 1])] = span.last[r];
    }
  }
  finish_reductions();
}

void StepBuilder::issue_contracted(const PipelineOp& op, Span& span) {
  const ContractedPass& pass = contracted(op);
  const TaskKind kind = kind_of(op.pass);
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
  const TaskKind kind = kind_of(op.pass);
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

// A pass over a chunk without work of its own, so that there is something to wait for.
void StepBuilder::issue_idle(const PipelineOp& op, Span& span) {
  const engine::CostId nothing = constant_cost(Time::zero());
  const std::uint32_t of_nothing = add_composition({});
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const TaskId task = add_task(nothing, {kind_of(op.pass), true, ranks_[r], op.micro_batch,
                                           static_cast<std::int16_t>(op.chunk), -1, of_nothing});
    step_.graph.enqueue(compute_[ranks_[r]], task);
    step_.compute_tasks[ranks_[r]].push_back(task);
    span.first[r] = span.last[r] = task;
  }
}

void StepBuilder::issue_blocks(const PipelineOp& op, bool contended, Span& span) {
  const Plan& plan = case_.plan;
  const auto& blocks =
      step_.layouts[static_cast<std::size_t>(stage_)].chunks[static_cast<std::size_t>(op.chunk)].blocks;
  const int count = static_cast<int>(blocks.size());
  auto block_at = [&](int i) { return op.pass == Pass::forward ? i : count - 1 - i; };
  // Products for weight gradients need no weights.
  const bool gathers = plan.zero == 3 && has_shards() && op.pass != Pass::weight_gradient &&
                       (!gathers_once(case_) || is_first_forward(op));
  const bool from_group = plan.zeropp.secondary && op.pass != Pass::forward;
  const bool fetches = plan.offload.params != Offload::Place::gpu && (!from_group || second_copy_on_host(case_));
  const bool prefetches = (gathers || fetches) && case_.software.zero3_overlap;
  const int ahead = prefetches ? case_.software.zero3_prefetch_layers : 0;
  std::vector<PerRank> gathered(blocks.size()), gathered_experts(blocks.size());

  // Issues the gather of the i-th block of this pass; it may start once the block before the one that runs has ended.
  auto gather = [&](int i) {
    const Block& block = blocks[static_cast<std::size_t>(block_at(i))];
    const Bytes bytes = gathered_bytes(block.rest, block.kind);
    const std::size_t ended = block_ends_.size();
    const PerRank after = ended > 0 && prefetches ? block_ends_[ended - 1] : PerRank{};
    const bool twice = op.pass != Pass::forward && block.recomputed && case_.software.zero3_gathers_with_recompute == 3;
    for (int times = twice ? 2 : 1; times > 0; --times) {
      PerRank& ready = gathered[static_cast<std::size_t>(i)];
      ready = after;
      if (fetches) ready = fetch_parameters(block, ended > 0 ? block_ends_[ended - 1] : PerRank{}, !prefetches, op);
      const PerRank fetched = ready;
      if (gathers && !(fetches && case_.software.offload.whole_blocks)) {
        ready = issue_collective(from_group ? Purpose::local : Purpose::shard, Collective::all_gather, bytes,
                                 TaskKind::shard_gather, ready, !prefetches, op);
        store_second_copy(block, ready, !prefetches, op);
      }
      const Bytes of_experts = gathered_bytes(block.experts, block.kind);
      if (gathers && of_experts.value > 0 && !(fetches && case_.software.offload.whole_blocks)) {
        gathered_experts[static_cast<std::size_t>(i)] =
            issue_collective(Purpose::expert_shard, Collective::all_gather, of_experts, TaskKind::shard_gather,
                             fetches ? fetched : after, !prefetches, op);
      }
    }
  };

  // Activations that left the GPU come back one block ahead of their backward pass.
  std::vector<PerRank> returned(blocks.size());
  auto bring_back = [&](int i) {
    const int index = block_at(i);
    const auto left = activations_out_.find({op.micro_batch, op.chunk, index});
    if (left == activations_out_.end()) return;
    const PerRank ended = block_ends_.empty() ? PerRank{} : block_ends_.back();
    returned[static_cast<std::size_t>(i)] =
        issue_host(Purpose::from_host, offloaded_activations(op, index), {&left->second, &ended}, op);
    activations_out_.erase(left);
  };

  const auto has_work = [&](const Block& block) {
    const PreparedBlock& steps = prepared(block, op.pass);
    return std::any_of(steps.begin(), steps.end(),
                       [](const PreparedStep& step) { return step.has_compute || !step.collectives.empty(); });
  };
  if (receives_pieces(op)) issue_prepared(prepared_gather(), op, -1, contended, span);
  if (std::none_of(blocks.begin(), blocks.end(), has_work)) issue_idle(op, span);
  int next_gather = 0, next_return = 0;
  for (int i = 0; i < count; ++i) {
    const int index = block_at(i);
    const Block& block = blocks[static_cast<std::size_t>(index)];
    if (gathers || fetches) {
      while (next_gather <= std::min(i + ahead, count - 1)) gather(next_gather++);
    }
    if (op.pass == Pass::backward) {
      while (next_return <= std::min(i + 1, count - 1)) bring_back(next_return++);
    }
    Span block_span{PerRank(ranks_.size()), PerRank(ranks_.size())};
    issue_prepared(prepared(block, op.pass), op, index, contended, block_span);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!block_span.first[r].valid()) continue;
      if (!span.first[r].valid()) span.first[r] = block_span.first[r];
      span.last[r] = block_span.last[r];
      auto wait_for = [&](const PerRank& tasks) {
        if (r < tasks.size() && tasks[r].valid()) step_.graph.add_dependency(tasks[r], block_span.first[r]);
      };
      if (prefetches) {
        wait_for(gathered[static_cast<std::size_t>(i)]);
        wait_for(gathered_experts[static_cast<std::size_t>(i)]);
      }
      wait_for(returned[static_cast<std::size_t>(i)]);
      // Two buffers: the copy before the last must be through before another block fills one.
      if (op.pass == Pass::forward && activation_copies_.size() > 1) {
        wait_for(activation_copies_[activation_copies_.size() - 2]);
      }
      if (!gathered_.empty() && is_first_forward(op)) {
        for (const PerRank& tasks : gathered_[static_cast<std::size_t>(op.chunk)][static_cast<std::size_t>(index)]) {
          wait_for(tasks);
        }
      }
    }
    if (plan.offload.any() || gathers) block_ends_.push_back(block_span.last);
    if (op.pass == Pass::forward) {
      if (const double leaving = offloaded_activations(op, index); leaving > 0) {
        activation_copies_.push_back(issue_host(Purpose::to_host, leaving, {&block_span.last}, op));
        activations_out_[{op.micro_batch, op.chunk, index}] = activation_copies_.back();
      }
    }
    if (plan.data_ranks() == 1 && gradients_leave_in(op)) {
      for (const GradientBucket& bucket : buckets_) {
        if (bucket.chunk == op.chunk && bucket.block == index) {
          copy_gradients_out(bucket.parameters, bucket.experts, block_span.last, op);
        }
      }
    }
    if (!reduces_in(op)) continue;
    // A block without work in this pass is done when those before it are.
    if (plan.zero == 3) {
      if (const double rest = block.rest.trained(); rest > 0) reduce_gradients(rest, false, span.last, op);
      if (const double experts = block.experts.trained(); experts > 0) reduce_gradients(experts, true, span.last, op);
    } else {
      for (const GradientBucket& bucket : buckets_) {
        if (bucket.chunk != op.chunk || bucket.block != index) continue;
        reduce_gradients(bucket.parameters, bucket.experts, span.last, op);
      }
    }
  }
}

Step build_step(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants,
                const StepOptions& options) {
  return StepBuilder(subject, cluster, constants, options).build();
}

}  // namespace foretrain
