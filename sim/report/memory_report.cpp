#include "sim/report/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/report/figures.h"
#include "sim/report/json_support.h"

namespace foretrain::report {
namespace {

constexpr const char* kOutOfScope = "How fast a model answers is out of scope: only its memory is counted.";

// The columns of the table, each the sum of parts of a ledger.
struct Column {
  const char* name;
  std::array<const char*, 6> parts;
};
constexpr std::array<Column, 6> kColumns = {{
    {"weights", {"weights", "gathered_parameters"}},
    {"grads", {"gradients", "communication_buffers"}},
    {"states", {"optimizer"}},
    {"step", {"optimizer_extra"}},
    {"activ.", {"activations", "working_set", "logits", "fragments"}},
    {"cache", {"kv_cache"}},
}};

Bytes sum_of(const LadderRow& row, const Column& column) {
  Bytes sum;
  for (const auto& [name, bytes] : row.parts) {
    const bool counted = std::any_of(column.parts.begin(), column.parts.end(),
                                     [&](const char* part) { return part != nullptr && part == name; });
    if (counted) sum += bytes;
  }
  return sum;
}

std::string gigabytes(Bytes bytes) { return bytes.value > 0 ? fmt::format("{:.1f}", bytes.value / kGiga) : ""; }

// With what its host must have for the plan, if anything.
std::string smallest_card(const LadderRow& row) {
  if (row.held_by.empty()) return "none";
  const std::string host = row.host.value > 0 ? fmt::format(" + {:.0f} GB", row.host.value / kGiga) : "";
  return (row.gpus > 1 ? fmt::format("{} x ", row.gpus) : "") + row.held_by.front() + host;
}

}  // namespace

std::string memory_table(const Ladder& ladder, const Terminal& terminal) {
  const LadderQuestion& q = ladder.question;
  const std::string title =
      fmt::format("{}, {:.2f}e9 parameters", ladder.model.name, static_cast<double>(ladder.model.parameters()) / 1e9);
  std::string text = styled(printable(title), Style::bold, terminal) + "\n" +
                     wrapped(fmt::format("Serving {} {} of {} tokens; training micro-batches of {} x {} tokens with "
                                         "recompute {} in {}. GB (1e9 bytes) on one GPU; + GB: of its host",
                                         q.streams, q.streams == 1 ? "stream" : "streams", q.context, q.micro_batch,
                                         q.seq_len, q.recompute, printable(q.software)),
                             terminal.width, 2) +
                     "\n\n";
  std::vector<std::string> header = {"use", "how"};
  for (const Column& column : kColumns) header.emplace_back(column.name);
  header.insert(header.end(), {"in all", "smallest GPU"});
  TextTable table(header);
  table.align_left(1);
  table.align_left(header.size() - 1);
  std::string notes;
  for (const LadderRow& row : ladder.rows) {
    std::vector<TextTable::Cell> cells = {{row.use}, {row.how}};
    const bool known = row.why_not.empty();
    for (const Column& column : kColumns) cells.push_back({known ? gigabytes(sum_of(row, column)) : ""});
    cells.push_back({known ? gigabytes(row.needed) : "-", Style::bold});
    cells.push_back({known ? smallest_card(row) : "", row.held_by.empty() ? Style::bad : Style::plain});
    table.add(std::move(cells));
    if (!known)
      notes += wrapped(fmt::format("{}, {}: {}", row.use, row.how, printable(row.why_not)), terminal.width, 2) + "\n";
  }
  return text + table.text(terminal) + notes + "\n" + styled(kOutOfScope, Style::faint, terminal) + "\n";
}

std::string memory_json(const Ladder& ladder) {
  const LadderQuestion& q = ladder.question;
  Json rows = Json::array();
  for (const LadderRow& row : ladder.rows) {
    const bool known = row.why_not.empty();
    Json parts = Json::object();
    for (const auto& [name, bytes] : row.parts) parts[name] = std::llround(bytes.value);
    rows.push_back({{"use", row.use},
                    {"how", row.how},
                    {"gpus", row.gpus},
                    {"needed_bytes", known ? Json(std::llround(row.needed.value)) : Json(nullptr)},
                    {"host_bytes", known ? Json(std::llround(row.host.value)) : Json(nullptr)},
                    {"parts", std::move(parts)},
                    {"held_by", row.held_by},
                    {"why_not", or_null(row.why_not)}});
  }
  return dumped(Json{
      {"schema", 1},
      {"model", ladder.model.name},
      {"parameters", ladder.model.parameters()},
      {"serving", {{"streams", q.streams}, {"context", q.context}, {"cache_element_bytes", q.cache_bytes}}},
      {"training",
       {{"software", q.software}, {"seq_len", q.seq_len}, {"micro_batch", q.micro_batch}, {"recompute", q.recompute}}},
      {"rows", std::move(rows)},
      {"out_of_scope", kOutOfScope}});
}

}  // namespace foretrain::report
