#include "sim/report/json.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"
#include "sim/software/read_experts.h"

namespace foretrain::report {
namespace {

Json model_json(const Model& m) {
  Json json = {{"name", m.name},
               {"parameters", m.parameters()},
               {"layers", m.layers},
               {"hidden", m.hidden},
               {"heads", m.heads},
               {"kv_heads", m.kv_heads},
               {"ffn", m.ffn},
               {"vocab", m.vocab},
               {"tied_embeddings", m.tied_embeddings}};
  if (m.experts > 0) {
    json["experts"] = m.experts;
    json["top_k"] = m.top_k;
    json["expert_ffn"] = m.expert_ffn;
    json["active_parameters"] = m.active_parameters();
  }
  return json;
}

Json peft_json(const Case& c, const std::vector<StageLayout>& layouts) {
  const Peft& p = c.train.peft;
  double trained = 0, held = 0;
  for (const StageLayout& stage : layouts) {
    trained += stage.trained() * c.plan.tp;
    held += stage.parameters() * c.plan.tp;
  }
  return {{"kind", to_string(p.kind)},
          {"rank", p.rank},
          {"quant", p.format == nullptr ? Json(nullptr) : Json(p.format->name)},
          {"trained_parameters", std::llround(trained)},
          {"trained_fraction", held > 0 ? Json(trained / held) : Json(nullptr)}};
}

Json train_json(const Train& t) {
  return {{"seq_len", t.seq_len},
          {"global_batch", t.global_batch},
          {"precision", to_string(t.precision)},
          {"optimizer", to_string(t.optimizer)},
          {"attention", to_string(t.attention)},
          {"tokens", t.tokens > 0 ? Json(t.tokens) : Json(nullptr)}};
}

// How many GPUs of every name a job has.
Json gpu_kinds_json(const ClusterDescription& c) {
  Json kinds = Json::array();
  for (const Gpu* gpu : c.unlike_gpus()) {
    int count = 0;
    for (int number = 0; number < c.gpus; ++number) count += c.gpu_at(number).name == gpu->name;
    kinds.push_back({{"gpu", gpu->name}, {"gpus", count}});
  }
  return kinds;
}

Json cluster_json(const ClusterDescription& c) {
  Json json = {{"node", or_null(c.node_name)},
               {"fabric", or_null(c.fabric_name)},
               {"gpu", c.gpu.full_name()},
               {"gpus", c.gpus},
               {"nodes", c.nodes()},
               {"gpus_per_node", c.gpus_per_node},
               {"intra", to_string(c.intra)},
               {"nics", c.nics},
               {"nic_gbps", c.nic_rate.value * 8 / kGiga},
               {"net", c.nodes() > 1 ? Json(to_string(c.network)) : Json(nullptr)}};
  if (c.unlike_gpus().size() > 1) json["gpu_kinds"] = gpu_kinds_json(c);
  return json;
}

Json recompute_json(const Recompute& recompute) {
  if (recompute.mode == Recompute::Mode::blocks) return {{"blocks", recompute.blocks}};
  if (recompute.of_parts()) return {{Recompute::to_string(recompute.mode), recompute.names}};
  return Recompute::to_string(recompute.mode);
}

Json offload_json(const Offload& o) {
  Json json = {
      {"optimizer", to_string(o.optimizer)},     {"params", to_string(o.params)}, {"gradients", to_string(o.gradients)},
      {"activations", to_string(o.activations)}, {"fraction", o.fraction},        {"delayed_update", o.delayed_update}};
  if (o.paged.value > 0) json["paged_bytes"] = o.paged.value;
  return json;
}

}  // namespace

Json plan_json(const Case& c) {
  const Plan& p = c.plan;
  Json json = {{"tp", p.tp},
               {"pp", p.pp},
               {"vpp", p.vpp},
               {"dp", p.dp},
               {"sequence_parallel", p.sequence_parallel},
               {"schedule", to_string(p.schedule)},
               {"zero", p.zero},
               {"shard_group", p.shard_group},
               {"recompute", recompute_json(p.recompute)},
               {"micro_batch", p.micro_batch},
               {"order", Json::array()},
               {"overlap",
                {{"grad_reduce", p.overlap.grad_reduce},
                 {"param_gather", p.overlap.param_gather},
                 {"tp", p.overlap.tp},
                 {"p2p", p.overlap.p2p}}}};
  for (const Dimension dimension : p.order) json["order"].push_back(to_string(dimension));
  if (!p.layers.empty()) json["layers"] = p.layers;
  for (const Plan::Share& share : p.shares) {
    json["shares"].push_back({{"micro_batch", share.micro_batch}, {"micro_batches", share.micro_batches}});
  }
  if (p.zeropp.any()) {
    json["zeropp"] = {{"weights", p.zeropp.weights},
                      {"gradients", p.zeropp.gradients},
                      {"secondary", p.zeropp.secondary},
                      {"group", p.zeropp.group}};
  }
  if (c.model.experts > 0) {
    json["ep"] = p.ep;
    json["etp"] = p.etp;
    json["expert_dispatch"] = to_string(p.expert_dispatch);
    json["expert_imbalance"] = p.expert_imbalance;
    if (p.expert_capacity > 0) json["capacity_factor"] = p.expert_capacity;
    json["overlap"]["ep"] = p.overlap.ep;
  }
  if (p.cp > 1) {
    json["cp"] = p.cp;
    json["cp_kind"] = to_string(p.context);
  }
  if (p.offload.any()) json["offload"] = offload_json(p.offload);
  return json;
}

namespace {

template <class Value>
Json breakdown_json(const Breakdown& breakdown, Value value) {
  Json parts = Json::object();
  for (std::size_t cause = 0; cause < kCauses; ++cause) {
    parts[std::string(to_string(static_cast<Cause>(cause)))] = value(breakdown.parts[cause]);
  }
  return parts;
}
Json breakdown_ps(const Breakdown& breakdown) {
  return breakdown_json(breakdown, [](Time time) { return time.ps; });
}

}  // namespace

Json breakdown_s(const Breakdown& breakdown) { return breakdown_json(breakdown, exact_seconds); }

namespace {

// What the part `offload` of a breakdown consists of.
Json offload_s(const Breakdown& breakdown) {
  Json waits = Json::object();
  for (std::size_t wait = 0; wait < kOffloadWaits; ++wait) {
    waits[std::string(to_string(static_cast<OffloadWait>(wait)))] = exact_seconds(breakdown.offload[wait]);
  }
  return waits;
}

Json parts_json(const StagePeak& peak) {
  Json parts = Json::object();
  for (const auto& [name, bytes] : whole_bytes(peak).parts) parts[name] = bytes;
  return parts;
}

void add_figures(Json& json, const StagePeak& peak) {
  json["gpu_peak_bytes"] = whole_bytes(peak).total;
  json["allocated_bytes"] = std::llround(peak.figures.allocated.value);
  json["reserved_bytes"] = std::llround(peak.figures.reserved.value);
  json["device_bytes"] = std::llround(peak.figures.device.value);
}

void add_host(Json& memory, const CaseReport& r) {
  memory["host_peak_bytes"] = std::llround(r.host->parts.total().value);
  memory["host_capacity_bytes"] = r.host_capacity ? Json(std::llround(r.host_capacity->value)) : Json(nullptr);
  memory["host_fits"] = r.host_fits();
  memory["host_missing_bytes"] = static_cast<std::int64_t>(std::ceil(missing_host_memory(r).value));
  memory["nvme_bytes"] = std::llround(r.host->nvme.value);
  Json parts = Json::object();
  for (const auto& [name, bytes] : r.host->parts.named()) parts[name] = std::llround(bytes.value);
  memory["host_parts"] = std::move(parts);
}

// The peak is what must fit on the fullest GPU, and on the fullest host where a plan offloads.
Json memory_json(const CaseReport& r) {
  Json memory = Json::object();
  const bool known = r.fullest < r.memory.size();
  if (known) {
    add_figures(memory, r.memory[r.fullest]);
  } else {
    memory["gpu_peak_bytes"] = nullptr;
  }
  memory["gpu_capacity_bytes"] = std::llround(r.capacity.value);
  memory["host_peak_bytes"] = nullptr;
  memory["nvme_bytes"] = 0;
  if (r.host) add_host(memory, r);
  memory["stage"] = known ? Json(r.memory[r.fullest].stage) : Json(nullptr);
  memory["parts"] = known ? parts_json(r.memory[r.fullest]) : Json::object();
  return memory;
}

Json stages_json(const CaseReport& r) {
  Json stages = Json::array();
  for (const StagePeak& peak : r.memory) {
    Json stage{{"stage", peak.stage}};
    add_figures(stage, peak);
    stage["parts"] = parts_json(peak);
    stages.push_back(std::move(stage));
  }
  return stages;
}

// Ranks that behave alike, with what each of them spends its step on.
Json ranks_json(const CaseReport& r) {
  Json ranks = Json::array();
  for (std::size_t i = 0; i < r.per_class.size(); ++i) {
    ranks.push_back({{"stage", i < r.step.stage.size() ? Json(r.step.stage[i]) : Json(nullptr)},
                     {"gpus", i < r.step.multiplicity.size() ? Json(r.step.multiplicity[i]) : Json(nullptr)},
                     {"breakdown_ps", breakdown_ps(r.per_class[i])}});
  }
  return ranks;
}

Json changes_json(const CaseReport& r) {
  Json changes = Json::array();
  for (const FittingChange& change : r.changes) {
    changes.push_back({{"change", change.what},
                       {"gpu_peak_bytes", std::llround(change.needed.value)},
                       {"step_time_s", change.step_time ? Json(exact_seconds(*change.step_time)) : Json(nullptr)}});
  }
  return changes;
}

Json elasticity_json(const std::optional<Elasticity>& elasticity) {
  if (!elasticity) return nullptr;
  Json json = Json::object();
  for (const auto& [name, value] : elasticity->named()) json[std::string(name)] = value;
  return json;
}

Json cost_json(const CaseReport& r) {
  if (!r.hours && !r.subject.price) return nullptr;
  const auto& price = r.subject.price;
  return {{"hours", or_null(r.hours)},
          {"amount", or_null(r.cost)},
          {"per_billion_tokens", or_null(r.cost_per_billion_tokens)},
          {"currency", price ? Json(price->currency) : Json(nullptr)}};
}

// Nine in ten runs like the case are in the range. Null where there are no measured runs to tell it from.
void add_error_bar(Json& json, const std::optional<ErrorBar>& bar) {
  json["step_time_range_s"] = bar ? Json{bar->low_s, bar->high_s} : Json(nullptr);
  json["confidence"] = bar ? Json(name_of(bar->confidence)) : Json(nullptr);
  json["nearest_measured"] = nullptr;
  if (!bar) return;
  const ErrorBar::Nearest& nearest = bar->nearest;
  json["nearest_measured"] = {{"name", nearest.name},        {"source", nearest.source},     {"gpu", nearest.gpu},
                              {"gpus", nearest.gpus},        {"software", nearest.software}, {"error", nearest.error},
                              {"distance", nearest.distance}};
}

}  // namespace

Json case_json(const CaseReport& r) {
  Json json;
  json["name"] = r.name;
  json["fits"] = r.fits;
  json["step_time_s"] = exact_seconds(r.step_time);
  json["step_time_ps"] = r.step_time.ps;
  json["tokens_per_s"] = r.tokens_per_second;
  json["tokens_per_s_per_gpu"] = r.tokens_per_second_per_gpu;
  json["samples_per_s"] = r.samples_per_second;
  json["model_tflops_per_gpu"] = r.model_tflops_per_gpu;
  json["mfu"] = r.mfu;
  json["hfu"] = r.hfu;
  json["bubble_fraction"] = r.bubble_fraction;
  json["offload_stall_s"] = exact_seconds(r.breakdown[Cause::offload]);
  json["scaling_efficiency"] = or_null(r.scaling_efficiency);
  json["scaling_baseline_gpus"] = r.scaling_efficiency ? Json(r.scaling_baseline_gpus) : Json(nullptr);
  json["breakdown_s"] = breakdown_s(r.breakdown);
  json["breakdown_ps"] = breakdown_ps(r.breakdown);
  if (r.host) json["offload_s"] = offload_s(r.breakdown);
  json["memory"] = memory_json(r);
  json["missing_bytes"] = static_cast<std::int64_t>(std::ceil(missing_memory(r).value));
  json["changes"] = changes_json(r);
  add_error_bar(json, r.error_bar);
  json["simulated_ranks"] = r.step.simulated_ranks;
  json["total_ranks"] = r.step.total_ranks;
  json["micro_batches"] = r.step.micro_batches;
  json["events"] = r.schedule.events;
  json["fingerprint"] = fmt::format("{:016x}", r.schedule.fingerprint);
  json["elasticity"] = elasticity_json(r.elasticity);
  json["model"] = model_json(r.subject.model);
  json["train"] = train_json(r.subject.train);
  if (r.subject.train.peft.active()) json["train"]["peft"] = peft_json(r.subject, r.step.layouts);
  json["cluster"] = cluster_json(r.subject.cluster);
  json["software"] = r.subject.software.name;
  json["plan"] = plan_json(r.subject);
  json["cost"] = cost_json(r);
  json["stages"] = stages_json(r);
  json["ranks"] = ranks_json(r);
  json["assumptions"] = english(r.subject.assumptions);
  json["warnings"] = english(all_warnings(r));
  return json;
}

namespace {

const char* word_of(Scenario::Ask ask) {
  switch (ask) {
    case Scenario::Ask::faster:
      return "faster";
    case Scenario::Ask::cheaper:
      return "cheaper";
    case Scenario::Ask::fits:
      return "fits";
  }
  return "faster";
}

}  // namespace

Json run_answer(const RunReport& report) {
  Json json{{"schema", 1}, {"title", report.title}, {"ask", word_of(report.ask)}};
  json["cases"] = Json::array();
  for (const CaseReport& r : report.cases) json["cases"].push_back(case_json(r));
  json["verdict"] = {{"winner", or_null(report.verdict.winner)},
                     {"ratio", report.verdict.ratio},
                     {"because", report.verdict.because()},
                     {"likelihood", or_null(report.verdict.likelihood)}};
  return json;
}

std::string run_json(const RunReport& report) { return dumped(run_answer(report)); }

}  // namespace foretrain::report
