#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/memory/ledger.h"
#include "sim/plan/optimizer.h"
#include "sim/report/describe.h"
#include "sim/report/figure_formula.h"
#include "sim/report/run_report.h"

// What memory figures are made of: states are bytes a parameter, the rest is what the ledger's passes take.

namespace foretrain::report {
namespace {

using Input = FigureFormula::Input;

class MemoryFormulas {
 public:
  explicit MemoryFormulas(const CaseReport& report) : r_(report) {}

  std::vector<FigureFormula> all() {
    if (r_.fullest < r_.memory.size()) add_gpu(r_.memory[r_.fullest]);
    add("memory.gpu_capacity_bytes", message("of the {}, as its catalogue entry says", r_.subject.cluster.gpu.name),
        {{"C", r_.capacity.value, "bytes", message("memory of a GPU")}}, std::round(r_.capacity.value));
    add("missing_bytes", message("what the fullest GPU needs beyond its memory, at least 0"),
        {{"M", needed(), "bytes", std::string("memory.gpu_peak_bytes")},
         {"C", r_.capacity.value, "bytes", std::string("memory.gpu_capacity_bytes")}},
        std::ceil(missing_memory(r_).value));
    add_host();
    return std::move(formulas_);
  }

 private:
  void add(std::string figure, Message formula, std::vector<Input> inputs, double value) {
    formulas_.push_back({std::move(figure), std::move(formula), std::move(inputs), value, "bytes"});
  }
  void add(std::string figure, const char* formula, std::vector<Input> inputs, double value) {
    add(std::move(figure), Message(std::string(formula)), std::move(inputs), value);
  }
  double needed() const { return r_.fullest < r_.memory.size() ? r_.memory[r_.fullest].needed.value : 0; }

  void add_gpu(const StagePeak& peak) {
    FigureFormula total{
        "memory.gpu_peak_bytes", message("sum of memory.parts at the worst moment of the step"), {}, 0, "bytes"};
    for (const auto& [name, bytes] : whole_bytes(peak).parts) {
      total.inputs.push_back({name, static_cast<double>(bytes), "bytes", "memory.parts." + name});
      total.value += static_cast<double>(bytes);
    }
    formulas_.push_back(std::move(total));
    add_pool(peak);
    add_states(peak);
    add_passing(peak);
  }

  // The allocator's figures. A run that fits holds no more than there is.
  void add_pool(const StagePeak& peak) {
    const Software& software = r_.subject.software;
    FigureFormula allocated{"memory.allocated_bytes",
                            message("sum of memory.parts without the CUDA context and communicators"),
                            {},
                            0,
                            "bytes"};
    for (const auto& [name, bytes] : peak.parts.named()) {
      allocated.inputs.push_back({name, bytes.value, "bytes", "memory.parts." + name});
      allocated.value += bytes.value;
    }
    allocated.value = std::round(allocated.value);
    formulas_.push_back(std::move(allocated));
    const Input most{"M", std::max(peak.capacity, peak.needed).value, "bytes", message("there are on the GPU")};
    add("memory.reserved_bytes", message("the allocator's pool, at most M: blocks that were freed stay in it"),
        {{"a", peak.figures.allocated.value, "bytes", std::string("memory.allocated_bytes")},
         {"f", software.reserved_over_allocated, "", message("slack of the pool in {}", software.name)},
         most},
        std::round(peak.figures.reserved.value));
    add("memory.device_bytes", message("the pool, the CUDA context and buffers of communicators, at most M"),
        {{"f", software.device_over_allocated, "", message("slack of the pool in {}", software.name)},
         {"c", outside_the_allocator(r_.subject).value, "bytes", message("CUDA context and communicators")},
         most},
        std::round(peak.figures.device.value));
  }

  // Where states are nothing but bytes a parameter that is written as such; adapters, experts and offloaded states are
  // booked apart.
  void add_states(const StagePeak& peak) {
    const Case& c = r_.subject;
    const Software::StateBytes bytes = state_bytes(c.software, c.train, c.plan.zero);
    const auto stage = static_cast<std::size_t>(peak.stage);
    const double parameters = stage < r_.step.layouts.size() ? r_.step.layouts[stage].parameters() : 0;
    const auto add_part = [&](const char* name, double each, int from_stage, Bytes booked) {
      const double ranks = c.plan.zero >= from_stage ? c.plan.shard_ranks() : 1;
      const std::string figure = fmt::format("memory.parts.{}", name);
      const Input held{"p", parameters, "", message("parameters of stage {} on one tensor-parallel rank", stage)};
      const Input share{
          "z", ranks, "",
          ranks > 1 ? message("ranks that ZeRO-{} shards them over", c.plan.zero) : message("no ranks share them")};
      const double value = parameters * each / ranks;
      if (std::abs(value - booked.value) <= 1 + 1e-9 * booked.value) {
        add(figure, "p b / z",
            {held, {"b", each, "bytes", message("a parameter, as {} keeps them", c.software.name)}, share},
            std::round(booked.value));
      } else {
        add(figure,
            message("sum over weights, adapters and experts, each by its bytes a parameter, its ranks and its place"),
            {held, share}, std::round(booked.value));
      }
    };
    add_part("weights", bytes.weights, 3, peak.parts.weights);
    add_part("gradients", bytes.gradients, 2, peak.parts.gradients);
    add_part("optimizer", bytes.optimizer, 1, peak.parts.optimizer);
  }

  // What passes take and give back: the most that any moment of the step holds together.
  void add_passing(const StagePeak& peak) {
    const Case& subject = r_.subject;
    const std::vector<StageMemory> stages =
        stage_memories(subject.plan.shares.empty() ? subject : with_share(subject, peak.share), r_.step.layouts);
    const StageMemory& memory = stages[static_cast<std::size_t>(peak.stage)];
    const auto by_chunk = [&](const char* symbol, const Message& meaning, auto bytes_of) {
      std::vector<Input> inputs;
      for (std::size_t i = 0; i < memory.chunks.size(); ++i) {
        const std::string index = memory.chunks.size() > 1 ? std::to_string(i) : "";
        inputs.push_back({symbol + index, bytes_of(memory.chunks[i]).value, "bytes", meaning});
      }
      return inputs;
    };
    using Chunk = StageMemory::ChunkMemory;
    const auto part = [](const char* name) { return fmt::format("memory.parts.{}", name); };
    add(part("gathered_parameters"), message("blocks whose sharded weights are whole while a pass runs"),
        {{"w", memory.gathered.value, "bytes", message("of the blocks gathered at a time")}},
        std::round(peak.parts.gathered_parameters.value));
    add(part("communication_buffers"), message("buckets of gradients and buffers of the framework"),
        {{"u", memory.always.communication_buffers.value, "bytes", message("always there")}},
        std::round(peak.parts.communication_buffers.value));
    add(part("activations"), message("sum of a over the micro-batches between their forward and backward pass"),
        by_chunk("a", message("that one micro-batch keeps of a chunk of layers"),
                 [](const Chunk& c) { return c.kept; }),
        std::round(peak.parts.activations.value));
    add(part("working_set"), message("w of the chunk whose backward pass runs"),
        by_chunk("w", message("that a backward pass of a chunk makes anew"),
                 [](const Chunk& c) { return c.backward_working; }),
        std::round(peak.parts.working_set.value));
    add(part("logits"), message("l of the chunk whose pass runs, and what others keep of theirs"),
        by_chunk("l", message("scores over the vocabulary and their gradient"),
                 [](const Chunk& c) { return c.logits; }),
        std::round(peak.parts.logits.value));
    add(part("optimizer_extra"), message("temporaries, while the optimizer steps"),
        {{"x", memory.optimizer_extra.value, "bytes", message("of the optimizer's step")}},
        std::round(peak.parts.optimizer_extra.value));
    const Bytes gaps = with_fragments(peak.parts, r_.subject.software.activation_fragmentation) - peak.parts.total();
    add(part("context_and_communicators"),
        message("the CUDA context, buffers of communicators, and gaps between passing tensors"),
        {{"c", outside_the_allocator(r_.subject).value, "bytes", message("CUDA context and communicators")},
         {"g", gaps.value, "bytes", message("gaps at the peak")}},
        static_cast<double>(whole_bytes(peak).parts.back().second));
  }

  void add_host() {
    add("memory.nvme_bytes", message("states on the drives of one host"),
        {{"n", static_cast<double>(r_.subject.cluster.gpus_per_node), "", message("GPUs of a host")}},
        r_.host ? std::round(r_.host->nvme.value) : 0);
    if (!r_.host) return;
    FigureFormula total{"memory.host_peak_bytes", message("sum of memory.host_parts"), {}, 0, "bytes"};
    for (const auto& [name, bytes] : r_.host->parts.named()) {
      total.inputs.push_back({name, bytes.value, "bytes", "memory.host_parts." + name});
      total.value += bytes.value;
      add("memory.host_parts." + name, message("of all ranks of the host that holds most"),
          {{"n", static_cast<double>(r_.subject.cluster.gpus_per_node), "", message("GPUs of a host")}},
          std::round(bytes.value));
    }
    total.value = std::round(total.value);
    const Input peak{"H", total.value, "bytes", std::string("memory.host_peak_bytes")};
    formulas_.push_back(std::move(total));
    std::vector<Input> both = {peak};
    if (r_.host_capacity) {
      add("memory.host_capacity_bytes", message("of a host, as the cluster says"),
          {{"D", r_.host_capacity->value, "bytes", message("memory of a host")}}, std::round(r_.host_capacity->value));
      both.push_back({"D", r_.host_capacity->value, "bytes", std::string("memory.host_capacity_bytes")});
    }
    add("memory.host_missing_bytes", message("what the fullest host needs beyond its memory, at least 0"), both,
        std::ceil(missing_host_memory(r_).value));
  }

  const CaseReport& r_;
  std::vector<FigureFormula> formulas_;
};

}  // namespace

std::vector<FigureFormula> memory_formulas(const CaseReport& report) { return MemoryFormulas(report).all(); }

}  // namespace foretrain::report
