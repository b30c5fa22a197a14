#include "sim/analysis/memory_ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/config/catalogue.h"
#include "sim/scenario/software_default.h"

namespace foretrain {
namespace {

using config::Node;

// Of training cases. What a GPU must hold does not depend on which one it is; this one has kernels for every precision.
constexpr const char* kGpu = "h100-sxm5-80gb";
constexpr int kGpusPerNode = 8;

// Beside weights and cache: context and kernels of the driver, as training profiles have it.
constexpr double kServingContextGb = 0.6;

struct TrainingRow {
  Message use, how;
  bool spread = false;      // over all cards of the question
  std::string train, plan;  // in the words of a scenario
};

std::vector<TrainingRow> training_rows(const LadderQuestion& q) {
  std::vector<TrainingRow> rows = {
      {message("QLoRA"), message("4-bit, rank {}", q.rank), false,
       fmt::format("peft: {{kind: qlora, rank: {}, quant: nf4-dq}}", q.rank), ""},
      {message("LoRA"), message("16-bit, rank {}", q.rank), false,
       fmt::format("peft: {{kind: lora, rank: {}}}", q.rank), ""},
      {message("train"), message("8-bit AdamW"), false, "optimizer: adamw8bit", ""},
      {message("train"), message("AdamW"), false, "optimizer: adamw", ""},
      {message("train"), message("AdamW on CPU"), false, "optimizer: adamw", "zero: 2, offload: optimizer"},
      {message("train"), message("all on CPU"), false, "optimizer: adamw", "zero: 3, offload: optimizer+params"}};
  if (q.cards > 1) {
    for (int stage = 1; stage <= 3; ++stage) {
      rows.push_back({message("train"), message("ZeRO-{} over {}", stage, q.cards), true, "optimizer: adamw",
                      fmt::format("zero: {}", stage)});
    }
  }
  return rows;
}

// A scenario of one case in this row's way.
Node document_of(const LadderQuestion& q, const TrainingRow& row, Diagnostics& diagnostics) {
  const int gpus = row.spread ? q.cards : 1, per_node = std::min(gpus, kGpusPerNode);
  const std::string network = gpus > per_node ? ", nics: 8, nic_gbps: 400, net: infiniband" : "";
  const std::string text = fmt::format(
      "base:\n"
      "  train: {{seq_len: {}, global_batch: {}, precision: bf16, attention: flash2, {}}}\n"
      "  cluster: {{gpu: {}, gpus: {}, gpus_per_node: {}, intra: nvswitch{}}}\n"
      "  plan: {{micro_batch: {}, recompute: {}{}{}}}\n"
      "cases: [{{name: ladder}}]\n",
      q.seq_len, q.micro_batch * gpus, row.train, kGpu, gpus, per_node, network, q.micro_batch, q.recompute,
      row.plan.empty() ? "" : ", ", row.plan);
  Node document = config::parse_yaml(text, "memory", diagnostics).value();
  Node::Map& base = document.map().front().value.map();
  // Names of the user's stay text whatever they look like.
  base.push_back({"model", {}, Node{{}, q.model, true}});
  if (!q.software.empty()) base.push_back({"software", {}, Node{{}, q.software, true}});
  return document;
}

// One for all training rows, so that they compare.
std::string assumed_software(const LadderQuestion& q, const DataFolder& data, Diagnostics& diagnostics) {
  SoftwareNeeds needs;
  for (const TrainingRow& row : training_rows(q)) needs.add(*document_of(q, row, diagnostics).find("base"));
  const auto defaults = SoftwareDefaults::load(data, diagnostics);
  return defaults ? defaults->choose(needs).name : "";
}

struct Card {
  std::string name;
  Bytes memory;
};

std::vector<Card> cards_of(const DataFolder& data, Diagnostics& diagnostics) {
  std::vector<Card> cards;
  const config::Catalogue catalogue(data.path + "/hardware/gpus", "GPU");
  for (const std::string& name : catalogue.names()) {
    if (const auto sheet = load_datasheet(data, name, {}, diagnostics)) cards.push_back({name, sheet->gpu.memory});
  }
  std::stable_sort(cards.begin(), cards.end(), [](const Card& a, const Card& b) { return a.memory < b.memory; });
  return cards;
}

void finish(LadderRow& row, const std::vector<Card>& cards) {
  for (const auto& [name, bytes] : row.parts) row.needed += bytes;
  for (const Card& card : cards) {
    if (row.needed <= card.memory) row.held_by.push_back(card.name);
  }
}

LadderRow serving_row(const Ladder& ladder, Message how, const char* format) {
  const LadderQuestion& q = ladder.question;
  const ServingMemory memory = serving_memory(
      ladder.model, {format == nullptr ? nullptr : weight_format(format), q.streams, q.context, q.cache_bytes});
  LadderRow row{.use = message("serve"), .how = std::move(how)};
  row.parts = {{"weights", memory.weights}, {"kv_cache", memory.cache}, {"context", {kServingContextGb * kGiga}}};
  return row;
}

// What must fit of each part: activations, working set and logits with the gaps between them.
LadderRow training_row(const TrainingRow& how, const Case& subject, const Environment& environment) {
  const CaseReport report =
      simulate_case(subject, environment,
                    {.folding = Communicators::Folding::symmetric, .with_advice = false, .with_elasticity = false});
  const StagePeak& peak = report.memory[report.fullest];
  LadderRow row{.use = how.use, .how = how.how, .gpus = subject.plan.gpus()};
  Bytes named;
  for (const auto& [name, bytes] : peak.parts.named()) {
    if (bytes.value > 0) row.parts.emplace_back(name, bytes);
    named += bytes;
  }
  const Bytes outside = outside_the_allocator(report.subject);
  if (const Bytes gaps = peak.needed - outside - named; gaps.value > 0) row.parts.emplace_back("fragments", gaps);
  row.parts.emplace_back("context", outside);
  if (report.host) row.host = report.host->parts.total();
  return row;
}

LadderRow refused_row(const TrainingRow& how, const Diagnostics& said) {
  LadderRow row{.use = how.use, .how = how.how};
  for (const Diagnostic& d : said.all()) {
    if (d.severity == Severity::error || d.severity == Severity::unsupported) row.why_not = d.message;
  }
  return row;
}

}  // namespace

std::optional<Ladder> memory_ladder(const LadderQuestion& question, const Environment& environment,
                                    Diagnostics& diagnostics) {
  Ladder ladder{.question = question};
  const std::optional<Model> model =
      read_model(Node{{}, question.model, true}, environment.data.path + "/configs/models", diagnostics);
  const std::vector<Card> cards = cards_of(environment.data, diagnostics);
  if (!model || diagnostics.has_errors()) return std::nullopt;
  LadderQuestion& asked = ladder.question;
  if (asked.software.empty()) asked.software = assumed_software(asked, environment.data, diagnostics);
  if (diagnostics.has_errors()) return std::nullopt;
  // A profile that is not there is a fault of the question, not of every row.
  if (!load_software(environment.data.path + "/configs/software", asked.software, {}, diagnostics)) {
    return std::nullopt;
  }
  ladder.model = *model;
  ladder.rows = {serving_row(ladder, message("16-bit"), nullptr), serving_row(ladder, message("int8"), "int8"),
                 serving_row(ladder, message("int4"), "gptq")};
  for (const TrainingRow& how : training_rows(asked)) {
    Diagnostics said;
    const std::optional<Scenario> scenario = read_scenario(document_of(asked, how, said), environment.data, said);
    ladder.rows.push_back(scenario ? training_row(how, scenario->cases.front(), environment) : refused_row(how, said));
  }
  for (LadderRow& row : ladder.rows) {
    if (row.why_not.empty()) finish(row, cards);
  }
  return ladder;
}

}  // namespace foretrain
