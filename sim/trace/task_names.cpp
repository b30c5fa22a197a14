#include "sim/trace/task_names.h"

#include <fmt/format.h>

#include <cmath>

namespace foretrain::trace {
namespace {

std::string range(std::int64_t first, std::int64_t last) {
  return first == last ? fmt::format("layer {}", first) : fmt::format("layers {}..{}", first, last);
}

// What a pass works on, and other tasks are called, before the micro-batch.
const char* verb(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return "forward";
    case TaskKind::backward:
      return "backward";
    case TaskKind::input_gradient:
      return "input gradient";
    case TaskKind::weight_gradient:
      return "weight gradient";
    case TaskKind::gradient_reduce:
      return "gradients";
    case TaskKind::parameter_gather:
      return "parameters";
    case TaskKind::shard_gather:
      return "weights";
    case TaskKind::tie_reduce:
      return "tied embeddings";
    case TaskKind::mirror_reduce:
      return "mirrored gradients";
    case TaskKind::pipeline_gather:
      return "boundary tensor";
    case TaskKind::gradient_norm:
      return "all-reduce gradient norm";
    case TaskKind::optimizer:
      return "optimizer";
    case TaskKind::step_overhead:
      return "step overhead";
    case TaskKind::copy_to_host:
      return "copy to host";
    case TaskKind::copy_from_host:
      return "copy from host";
    case TaskKind::host_optimizer:
      return "optimizer on the host";
    case TaskKind::nvme_read:
      return "NVMe read";
    case TaskKind::nvme_write:
      return "NVMe write";
    case TaskKind::tensor_collective:
    case TaskKind::context_collective:
    case TaskKind::expert_collective:
    case TaskKind::pipeline_transfer:
      return "";
  }
  return "";
}

bool is_collective(TaskKind kind) { return kind >= TaskKind::tensor_collective && kind <= TaskKind::mirror_reduce; }

}  // namespace

TaskNames::TaskNames(const CaseReport& report) : step_(report.step) {
  const Plan& plan = report.subject.plan;
  const std::vector<std::int64_t> layers = layers_of_chunks(plan, report.subject.model);
  for (std::size_t stage = 0; stage < step_.layouts.size(); ++stage) {
    std::vector<ChunkNames>& chunks = chunks_.emplace_back();
    for (const Chunk& chunk : step_.layouts[stage].chunks) {
      const ChunkPlace place{static_cast<int>(stage), static_cast<int>(chunks.size())};
      const auto position = static_cast<std::ptrdiff_t>(chunk_position(plan, place));
      std::int64_t first = 0;
      for (auto before = layers.begin(); before != layers.begin() + position; ++before) first += *before;
      ChunkNames& names = chunks.emplace_back();
      std::int64_t next = first;
      bool embeds = false, predicts = false, ends = false;
      for (const Block& block : chunk.blocks) {
        if (block.kind == Block::Kind::embedding) {
          names.blocks.emplace_back("embedding");
          embeds = true;
        } else if (block.kind == Block::Kind::head) {
          names.blocks.emplace_back("head");
          ends = true;
        } else if (block.layer.predictor) {
          names.blocks.emplace_back("prediction module");
          predicts = true;
        } else {
          names.blocks.push_back(fmt::format("layer {}", next++));
        }
      }
      const auto add = [&](bool there, const std::string& what) {
        if (there) names.whole += (names.whole.empty() ? "" : ", ") + what;
      };
      add(embeds, "embedding");
      add(next > first, range(first, next - 1));
      add(predicts, "prediction module");
      add(ends, "head");
    }
  }
}

const TaskNames::ChunkNames* TaskNames::chunk(const TaskInfo& info) const {
  if (info.chunk < 0) return nullptr;
  const std::uint32_t rank = is_pass(info.kind) ? info.actor : step_.communicators[info.actor].rank_classes.front();
  return &chunks_[static_cast<std::size_t>(step_.stage[rank])][static_cast<std::size_t>(info.chunk)];
}

std::string TaskNames::block(engine::TaskId task, int index) const {
  const TaskInfo& info = step_.tasks[task.index()];
  const ChunkNames* names = chunk(info);
  if (index < 0) index = info.block;
  return names == nullptr || index < 0 ? "" : names->blocks[static_cast<std::size_t>(index)];
}

// The part of the model that a task is about, where it is about one.
std::string TaskNames::part(const TaskInfo& info) const {
  const ChunkNames* names = chunk(info);
  if (names == nullptr) return "";
  if (info.block >= 0) return names->blocks[static_cast<std::size_t>(info.block)];
  return is_pass(info.kind) ? names->whole : "";
}

std::string TaskNames::of(engine::TaskId task) const {
  const TaskInfo& info = step_.tasks[task.index()];
  std::string name;
  const auto add = [&](const std::string& word) {
    if (!word.empty()) name += (name.empty() ? "" : " ") + word;
  };
  if (is_collective(info.kind)) add(to_string(step_.collective_of_cost[step_.graph.cost_of(task).index()]));
  add(verb(info.kind));
  add(part(info));
  if (info.micro_batch >= 0) add(fmt::format("micro-batch {}", info.micro_batch));
  return name;
}

std::string arguments(const Step& step, engine::TaskId task) {
  const TaskInfo& info = step.tasks[task.index()];
  if (is_pass(info.kind) || info.kind == TaskKind::optimizer || info.kind == TaskKind::step_overhead ||
      info.kind == TaskKind::gradient_norm) {
    return "";
  }
  const Communicator& communicator = step.communicators[info.actor];
  const char* unit = info.kind == TaskKind::host_optimizer ? "parameters" : "bytes";
  const std::string amount =
      fmt::format(R"("{}":{})", unit, std::llround(step.graph.cost(step.graph.cost_of(task)).work));
  if (!is_collective(info.kind)) return amount;
  return fmt::format(R"("ranks":{},"algorithm":"{}",{})", communicator.shape.ranks, to_string(communicator.algorithm),
                     amount);
}

const char* category(TaskKind kind) {
  if (is_pass(kind)) return "pass";
  if (is_collective(kind) || kind == TaskKind::gradient_norm) return "collective";
  if (kind == TaskKind::copy_to_host || kind == TaskKind::copy_from_host) return "copy";
  if (kind == TaskKind::optimizer || kind == TaskKind::step_overhead) return "step";
  return "host";
}

}  // namespace foretrain::trace
