#include "sim/report/csv.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "sim/report/csv_row.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/validation_names.h"

namespace foretrain::report {
namespace {

void add_memory(CsvRow& row, const CaseReport& r) {
  const StagePeak peak = r.fullest < r.memory.size() ? r.memory[r.fullest] : StagePeak{};
  const WholeBytes whole = whole_bytes(peak);
  row.add("gpu_peak_bytes", whole.total);
  row.add("gpu_capacity_bytes", r.capacity);
  row.add("allocated_bytes", peak.figures.allocated);
  row.add("reserved_bytes", peak.figures.reserved);
  row.add("device_bytes", peak.figures.device);
  row.add("missing_bytes", static_cast<std::int64_t>(std::ceil(missing_memory(r).value)));
  for (const auto& [name, bytes] : whole.parts) row.add("memory_" + name + "_bytes", bytes);
}

void add_subject(CsvRow& row, const Case& c) {
  row.add("model", c.model.name);
  row.add("parameters", c.model.parameters());
  row.add("gpu", c.cluster.gpu.full_name());
  row.add("gpus", c.plan.gpus());
  row.add("software", c.software.name);
  row.add("seq_len", c.train.seq_len);
  row.add("global_batch", c.train.global_batch);
  row.add("precision", to_string(c.train.precision));
  row.add("tp", c.plan.tp);
  row.add("pp", c.plan.pp);
  row.add("vpp", c.plan.vpp);
  row.add("dp", c.plan.dp);
  row.add("zero", c.plan.zero);
  row.add("recompute", Recompute::to_string(c.plan.recompute.mode));
  row.add("micro_batch", c.plan.micro_batch);
}

CsvRow case_row(const CaseReport& r) {
  CsvRow row;
  row.add("name", r.name);
  row.add("fits", r.fits);
  row.add("step_time_s", exact_seconds(r.step_time));
  row.add("step_time_low_s", r.error_bar ? std::optional(r.error_bar->low_s) : std::nullopt);
  row.add("step_time_high_s", r.error_bar ? std::optional(r.error_bar->high_s) : std::nullopt);
  row.add("confidence", r.error_bar ? name_of(r.error_bar->confidence) : "");
  row.add("tokens_per_s", r.tokens_per_second);
  row.add("tokens_per_s_per_gpu", r.tokens_per_second_per_gpu);
  row.add("samples_per_s", r.samples_per_second);
  row.add("model_tflops_per_gpu", r.model_tflops_per_gpu);
  row.add("mfu", r.mfu);
  row.add("hfu", r.hfu);
  row.add("bubble_fraction", r.bubble_fraction);
  row.add("scaling_efficiency", r.scaling_efficiency);
  for (std::size_t cause = 0; cause < kCauses; ++cause) {
    row.add(std::string(to_string(static_cast<Cause>(cause))) + "_s", exact_seconds(r.breakdown.parts[cause]));
  }
  add_memory(row, r);
  add_subject(row, r.subject);
  row.add("hours", r.hours);
  row.add("cost", r.cost);
  row.add("cost_per_billion_tokens", r.cost_per_billion_tokens);
  row.add("currency", r.subject.price ? r.subject.price->currency : "");
  row.add("fingerprint", fmt::format("{:016x}", r.schedule.fingerprint));
  row.add("host_peak_bytes", r.host ? std::optional(r.host->parts.total()) : std::nullopt);
  row.add("nvme_bytes", r.host ? std::optional(r.host->nvme) : std::nullopt);
  row.add("warnings", fmt::format("{}", fmt::join(english(all_warnings(r)), "; ")));
  return row;
}

// A refused case has nothing but its name and the reason.
CsvRow validation_row(const std::string& source, const Comparison& c, const std::string& refused) {
  const bool compared = refused.empty();
  CsvRow row;
  row.add("name", c.name);
  row.add("source", source);
  row.add("trust", c.trust);
  row.add("measured_step_time_s", c.measured_step_time_s);
  row.add("predicted_step_time_s", c.predicted_step_time_s);
  row.add("error", c.error());
  row.add("memory_kind", c.measured_memory ? name_of(c.memory_kind) : "");
  row.add("measured_memory_bytes", c.measured_memory);
  row.add("predicted_memory_bytes", c.predicted_memory);
  row.add("memory_error", c.memory_error());
  row.add("measured_oom", compared ? std::optional(c.measured_oom) : std::nullopt);
  row.add("predicted_oom", c.predicted_oom);
  row.add("refused", refused);
  row.add("failure", c.failure);
  return row;
}

std::string sheet(const std::vector<CsvRow>& rows) {
  std::string text = rows.empty() ? "" : rows.front().names();
  for (const CsvRow& row : rows) text += row.values();
  return text;
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string run_csv(const RunReport& report) {
  std::vector<CsvRow> rows;
  for (const CaseReport& r : report.cases) rows.push_back(case_row(r));
  return sheet(rows);
}

std::string validation_csv(const Validation& validation) {
  const auto source = [&](std::size_t file) { return source_name(validation.sources[file].path); };
  std::vector<CsvRow> rows;
  for (const Comparison& c : validation.cases) rows.push_back(validation_row(source(c.file), c, ""));
  for (const Refusal& r : validation.refused) {
    Comparison nothing;
    nothing.name = r.name;
    rows.push_back(validation_row(source(r.file), nothing, r.why));
  }
  return sheet(rows);
}

}  // namespace foretrain::report
