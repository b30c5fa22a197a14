#include "sim/report/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/figures.h"
#include "sim/report/json_support.h"

namespace foretrain::report {
namespace {

Message out_of_scope() { return message("How fast a model answers is out of scope: only its memory is counted."); }

// The columns of the table, each the sum of parts of a ledger.
struct Column {
  Message name;
  std::vector<std::string_view> parts;
};
std::vector<Column> columns() {
  return {{message("weights"), {"weights", "gathered_parameters"}},
          {message("grads"), {"gradients", "communication_buffers"}},
          {message("states"), {"optimizer"}},
          {message("step"), {"optimizer_extra"}},
          {message("activ."), {"activations", "working_set", "logits", "fragments"}},
          {message("cache"), {"kv_cache"}}};
}

Bytes sum_of(const LadderRow& row, const Column& column) {
  Bytes sum;
  for (const auto& [name, bytes] : row.parts) {
    if (std::find(column.parts.begin(), column.parts.end(), name) != column.parts.end()) sum += bytes;
  }
  return sum;
}

std::string gigabytes(Bytes bytes) { return bytes.value > 0 ? fmt::format("{:.1f}", bytes.value / kGiga) : ""; }

// With what its host must have for the plan, if anything.
Message smallest_card(const LadderRow& row) {
  if (row.held_by.empty()) return message("none");
  const std::string host = row.host.value > 0 ? fmt::format(" + {:.0f} GB", row.host.value / kGiga) : "";
  return (row.gpus > 1 ? fmt::format("{} x ", row.gpus) : "") + row.held_by.front() + host;
}

// What the figures are of.
Message counted(const LadderQuestion& q) {
  const Message serving = q.streams == 1 ? message("Serving 1 stream of {} tokens", q.context)
                                         : message("Serving {} streams of {} tokens", q.streams, q.context);
  return message(
      "{}; training micro-batches of {} x {} tokens with recompute {} in {}. GB (1e9 bytes) on one GPU; + GB: of its "
      "host",
      serving, q.micro_batch, q.seq_len, q.recompute, q.software);
}

}  // namespace

std::string memory_table(const Ladder& ladder, const Terminal& terminal) {
  const Words& words = terminal.words;
  const std::vector<Column> shown = columns();
  const std::string parameters = fmt::format("{:.2f}", static_cast<double>(ladder.model.parameters()) / 1e9);
  std::string text =
      styled(printable(words("{}, {}e9 parameters", ladder.model.name, parameters)), Style::bold, terminal) + "\n" +
      wrapped(printable(words(counted(ladder.question))), terminal.width, 2) + "\n\n";
  std::vector<std::string> header = {words("use"), words("how")};
  for (const Column& column : shown) header.push_back(words(column.name));
  header.insert(header.end(), {words("in all"), words("smallest GPU")});
  TextTable table(header);
  table.align_left(1);
  table.align_left(header.size() - 1);
  std::string notes;
  for (const LadderRow& row : ladder.rows) {
    std::vector<TextTable::Cell> cells = {{words(row.use)}, {words(row.how)}};
    const bool known = row.why_not.empty();
    for (const Column& column : shown) cells.push_back({known ? gigabytes(sum_of(row, column)) : ""});
    cells.push_back({known ? gigabytes(row.needed) : "-", Style::bold});
    cells.push_back({known ? words(smallest_card(row)) : "", row.held_by.empty() ? Style::bad : Style::plain});
    table.add(std::move(cells));
    if (!known)
      notes += wrapped(printable(words("{}, {}: {}", row.use, row.how, row.why_not)), terminal.width, 2) + "\n";
  }
  return text + table.text(terminal) + notes + "\n" + styled(words(out_of_scope()), Style::faint, terminal) + "\n";
}

std::string memory_json(const Ladder& ladder) {
  const LadderQuestion& q = ladder.question;
  Json rows = Json::array();
  for (const LadderRow& row : ladder.rows) {
    const bool known = row.why_not.empty();
    Json parts = Json::object();
    for (const auto& [name, bytes] : row.parts) parts[name] = std::llround(bytes.value);
    rows.push_back({{"use", row.use.english()},
                    {"how", row.how.english()},
                    {"gpus", row.gpus},
                    {"needed_bytes", known ? Json(std::llround(row.needed.value)) : Json(nullptr)},
                    {"host_bytes", known ? Json(std::llround(row.host.value)) : Json(nullptr)},
                    {"parts", std::move(parts)},
                    {"held_by", row.held_by},
                    {"why_not", or_null(row.why_not.english())}});
  }
  return dumped(Json{
      {"schema", 1},
      {"model", ladder.model.name},
      {"parameters", ladder.model.parameters()},
      {"serving", {{"streams", q.streams}, {"context", q.context}, {"cache_element_bytes", q.cache_bytes}}},
      {"training",
       {{"software", q.software}, {"seq_len", q.seq_len}, {"micro_batch", q.micro_batch}, {"recompute", q.recompute}}},
      {"rows", std::move(rows)},
      {"out_of_scope", out_of_scope().english()}});
}

}  // namespace foretrain::report
