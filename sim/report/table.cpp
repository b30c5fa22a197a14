#include "sim/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/report/by_case.h"
#include "sim/report/certainty.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/understood_text.h"

namespace foretrain::report {
namespace {

using Figure = ByCase::Figure;
using Cell = ByCase::Figure::Cell;

std::vector<std::string> names_of(const RunReport& report) {
  std::vector<std::string> names;
  for (const CaseReport& r : report.cases) names.push_back(r.name);
  return names;
}

Figure figure(const RunReport& report, std::string name, std::string short_name,
              const std::function<Cell(const CaseReport&)>& cell) {
  Figure result{std::move(name), std::move(short_name), {}};
  for (const CaseReport& r : report.cases) result.cells.push_back(cell(r));
  return result;
}

bool any_case(const RunReport& report, const std::function<bool(const CaseReport&)>& holds) {
  return std::any_of(report.cases.begin(), report.cases.end(), holds);
}

std::string memory_of(const CaseReport& r) {
  if (r.fullest >= r.memory.size()) return "";
  return gib(r.memory[r.fullest].needed) + " / " + gib(r.capacity);
}

void add_money(std::vector<std::string>& header, std::vector<std::vector<TextTable::Cell>>& rows,
               const RunReport& report, const Words& words) {
  if (any_case(report, [](const CaseReport& r) { return r.hours.has_value(); })) {
    header.push_back(words("hours"));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto& hours = report.cases[i].hours;
      rows[i].push_back({hours ? significant(*hours, 3) : "", Style::plain});
    }
  }
  const bool whole_job = any_case(report, [](const CaseReport& r) { return r.cost.has_value(); });
  if (!any_case(report, [](const CaseReport& r) { return r.cost_per_billion_tokens.has_value(); })) return;
  header.push_back(whole_job ? words("cost") : words("cost per 1e9 tokens"));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const CaseReport& r = report.cases[i];
    const auto& cost = whole_job ? r.cost : r.cost_per_billion_tokens;
    rows[i].push_back({cost && r.subject.price ? money(*cost) + " " + r.subject.price->currency : "", Style::plain});
  }
}

void add_scaling(std::vector<std::string>& header, std::vector<std::vector<TextTable::Cell>>& rows,
                 const RunReport& report, const Words& words) {
  header.push_back(words("scaling"));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const CaseReport& r = report.cases[i];
    rows[i].push_back({r.scaling_efficiency ? words("{} % of {}", fmt::format("{:.0f}", 100 * *r.scaling_efficiency),
                                                    r.scaling_baseline_gpus)
                                            : ""});
  }
}

// The cases side by side. Tokens a second compare plans of any batch; step times only those of one batch.
std::string comparison(const RunReport& report, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::vector<std::string> header = {words("case"),    words("fits"), words("step time"), words("tokens/s"),
                                     words("per GPU"), words("MFU"),  words("HFU"),       words("memory GiB")};
  const bool scaling = any_case(report, [](const CaseReport& r) { return r.scaling_efficiency.has_value(); });
  std::vector<std::vector<TextTable::Cell>> rows;
  const std::vector<std::string> names = names_of(report);
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    const CaseReport& r = report.cases[i];
    const bool winner = r.name == report.verdict.winner && report.cases.size() > 1;
    std::vector<TextTable::Cell> row = {{numbered(i, names), winner ? Style::bold : Style::plain},
                                        {r.fits ? words("yes") : words("NO"), r.fits ? Style::good : Style::bad},
                                        {duration(r.step_time)},
                                        {grouped(r.tokens_per_second)},
                                        {grouped(r.tokens_per_second_per_gpu)},
                                        {percent(r.mfu)},
                                        {percent(r.hfu)},
                                        {memory_of(r)}};
    rows.push_back(std::move(row));
  }
  add_money(header, rows, report, words);
  if (scaling) add_scaling(header, rows, report, words);
  TextTable table(header);
  for (auto& row : rows) table.add(std::move(row));
  std::string text = table.text(terminal);
  if (scaling) {
    text +=
        styled(
            wrapped(
                words("scaling: speed per GPU against the fewest GPUs (the number after 'of') on which the plan fits"),
                terminal.width, 2),
            Style::faint, terminal) +
        "\n";
  }
  return text;
}

Message spoken(OffloadWait wait) {
  switch (wait) {
    case OffloadWait::copy_in:
      return message("copies to the GPU");
    case OffloadWait::copy_out:
      return message("copies to the host");
    case OffloadWait::host_optimizer:
      return message("optimizer on the host");
    case OffloadWait::nvme:
      return message("NVMe drives");
  }
  return {};
}

// What offload stalls consist of.
void add_offload_waits(ByCase& by_case, const RunReport& report, const Words& words) {
  for (std::size_t i = 0; i < kOffloadWaits; ++i) {
    const auto wait = static_cast<OffloadWait>(i);
    const auto share = [wait](const CaseReport& r) {
      return r.step_time.ps == 0 ? 0.0 : exact_seconds(r.breakdown[wait]) / exact_seconds(r.step_time);
    };
    if (!any_case(report, [&](const CaseReport& r) { return share(r) >= 0.0005; })) continue;
    by_case.figures.push_back(
        figure(report, "  " + words(spoken(wait)), std::string(to_string(wait)), [&](const CaseReport& r) {
          return Cell{percent(share(r)), share(r)};
        }));
  }
}

// Only what is at least half a per mille of some step; the rest is in JSON.
std::string time_spent(const RunReport& report, const Terminal& terminal) {
  ByCase by_case{terminal.words("where the time goes (mean of all GPUs)"), names_of(report), {}};
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    const auto share = [cause](const CaseReport& r) {
      return r.step_time.ps == 0 ? 0.0 : exact_seconds(r.breakdown[cause]) / exact_seconds(r.step_time);
    };
    if (!any_case(report, [&](const CaseReport& r) { return share(r) >= 0.0005; })) continue;
    by_case.figures.push_back(
        figure(report, terminal.words(in_words(cause)), std::string(to_string(cause)), [&](const CaseReport& r) {
          return Cell{percent(share(r)), share(r)};
        }));
  }
  add_offload_waits(by_case, report, terminal.words);
  return by_case.text(terminal);
}

// What offloading holds on the fullest host.
std::string host_memory_held(const RunReport& report, const Terminal& terminal) {
  if (!any_case(report, [](const CaseReport& r) { return r.host.has_value(); })) return "";
  const Words& words = terminal.words;
  ByCase by_case{words("fullest host, GiB"), names_of(report), {}};
  const auto add = [&](std::string name, const std::function<std::optional<Bytes>(const CaseReport&)>& bytes) {
    if (!any_case(report, [&](const CaseReport& r) { return bytes(r).value_or(Bytes{}).value >= 0.05 * kGiB; })) return;
    by_case.figures.push_back(figure(report, name, name, [&](const CaseReport& r) {
      const auto held = bytes(r);
      return Cell{held ? gib(*held) : "", -1};
    }));
  };
  for (std::size_t i = 0; i < HostMemoryParts{}.named().size(); ++i) {
    add("  " + words.term(HostMemoryParts{}.named()[i].first),
        [i](const CaseReport& r) { return r.host ? std::optional(r.host->parts.named()[i].second) : std::nullopt; });
  }
  add(words("in all"),
      [](const CaseReport& r) { return r.host ? std::optional(r.host->parts.total()) : std::nullopt; });
  add(words("host memory"), [](const CaseReport& r) { return r.host ? r.host_capacity : std::nullopt; });
  add(words("on NVMe drives"), [](const CaseReport& r) { return r.host ? std::optional(r.host->nvme) : std::nullopt; });
  return by_case.text(terminal);
}

std::string memory_held(const RunReport& report, const Terminal& terminal) {
  const Words& words = terminal.words;
  ByCase by_case{words("fullest GPU, GiB"), names_of(report), {}};
  if (any_case(report, [](const CaseReport& r) { return r.fullest >= r.memory.size(); })) return "";
  const auto fullest = [](const CaseReport& r) -> const StagePeak& { return r.memory[r.fullest]; };
  const auto add = [&](std::string name, std::string short_name, const std::function<Bytes(const CaseReport&)>& bytes) {
    by_case.figures.push_back(figure(report, std::move(name), std::move(short_name), [&](const CaseReport& r) {
      return Cell{gib(bytes(r)), bytes(r) / r.capacity};
    }));
  };
  for (std::size_t i = 0; i < MemoryParts{}.named().size(); ++i) {
    const auto bytes = [&](const CaseReport& r) { return fullest(r).parts.named()[i].second; };
    if (!any_case(report, [&](const CaseReport& r) { return bytes(r).value >= 0.05 * kGiB; })) continue;
    const std::string name = words.term(MemoryParts{}.named()[i].first);
    add("  " + name, name, bytes);
  }
  add(words("allocated (torch)"), words("allocated"),
      [&](const CaseReport& r) { return fullest(r).figures.allocated; });
  add(words("reserved (torch)"), words("reserved"), [&](const CaseReport& r) { return fullest(r).figures.reserved; });
  add(words("nvidia-smi shows"), words("nvidia-smi"), [&](const CaseReport& r) { return fullest(r).figures.device; });
  add(words("must fit"), words("must fit"), [&](const CaseReport& r) { return fullest(r).needed; });
  add(words("capacity"), words("capacity"), [](const CaseReport& r) { return r.capacity; });
  for (Cell& cell : by_case.figures.back().cells) cell.share = -1;
  return by_case.text(terminal);
}

std::string gains(const RunReport& report, const Terminal& terminal) {
  ByCase by_case{terminal.words("1 % faster shortens the step by"), names_of(report), {}};
  std::vector<std::string_view> named;
  for (const CaseReport& r : report.cases) {
    for (const auto& [name, value] : r.elasticity.value_or(Elasticity{}).named()) {
      if (std::find(named.begin(), named.end(), name) == named.end()) named.push_back(name);
    }
  }
  for (const std::string_view name : named) {
    const auto value = [name](const CaseReport& r) {
      for (const auto& [mine, share] : r.elasticity.value_or(Elasticity{}).named()) {
        if (mine == name) return share;
      }
      return 0.0;
    };
    if (name == "other") continue;
    if (!any_case(report, [&](const CaseReport& r) { return value(r) >= 0.005; })) continue;
    by_case.figures.push_back(
        figure(report, terminal.words(in_words(name)), std::string(name), [&](const CaseReport& r) {
          return Cell{fmt::format("{:.2f} %", value(r)), value(r)};
        }));
  }
  return by_case.text(terminal);
}

std::string advice(const RunReport& report, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text;
  for (const CaseReport& r : report.cases) {
    if (r.fits) continue;
    const auto missing = [&](const Message& what) {
      text +=
          styled(wrapped(words("{} does not fit: {}", r.name, what), terminal.width, 2), Style::bad, terminal) + "\n";
    };
    if (const Bytes gpu = missing_memory(r); gpu.value > 0 || r.host_fits()) {
      missing(r.memory.size() > 1
                  ? message("{} GiB are missing on every GPU on pipeline stage {}", gib(gpu), r.memory[r.fullest].stage)
                  : message("{} GiB are missing on every GPU", gib(gpu)));
    }
    if (!r.host_fits()) missing(message("{} GiB of host memory are missing", gib(missing_host_memory(r))));
    if (r.changes.empty()) text += "  " + words("no small change of the plan makes it fit") + "\n";
    for (const FittingChange& change : r.changes) {
      Message line = message("fits with {}: {} GiB", change.what, gib(change.needed));
      if (change.step_time) line = message("{}, {} a step", line, duration(*change.step_time));
      text += wrapped("  " + words(line), terminal.width, 4) + "\n";
    }
  }
  return text;
}

// How far the step times may be off, and the measured run that says so first.
std::string certainty(const RunReport& report, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text;
  const std::vector<std::string> names = names_of(report);
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    const auto& bar = report.cases[i].error_bar;
    if (!bar) continue;
    text += wrapped("  " + certainty_of(names[i], *bar, words), terminal.width, 4) + "\n";
  }
  if (text.empty()) return "";
  return styled(words("how sure: nine in ten such runs are in the range"), Style::faint, terminal) + "\n" + text;
}

std::vector<const Case*> subjects_of(const RunReport& report) {
  std::vector<const Case*> subjects;
  for (const CaseReport& r : report.cases) subjects.push_back(&r.subject);
  return subjects;
}

std::vector<Said> warnings_of(const RunReport& report) {
  std::vector<Said> warnings;
  for (const CaseReport& r : report.cases) warnings.push_back({r.name, r.warnings});
  return warnings;
}

std::string findings(const Verdict& verdict, const Terminal& terminal) {
  const Style answer = verdict.winner.empty() ? Style::bad : Style::good;
  std::string text;
  for (const Finding& finding : verdict.findings) {
    text += styled(wrapped(terminal.words(finding.said), terminal.width, 2), answer, terminal) + "\n";
    for (const Message& reason : finding.reasons)
      text += wrapped("  " + terminal.words(reason), terminal.width, 4) + "\n";
  }
  return text;
}

}  // namespace

std::string run_table(const RunReport& report, const Terminal& terminal) {
  const std::vector<std::string> sections = {
      report.title.empty() ? "" : styled(wrapped(report.title, terminal.width, 2), Style::bold, terminal) + "\n",
      findings(report.verdict, terminal),
      comparison(report, terminal),
      certainty(report, terminal),
      advice(report, terminal),
      time_spent(report, terminal),
      memory_held(report, terminal),
      host_memory_held(report, terminal),
      gains(report, terminal),
      understood(subjects_of(report), Plans::shown, terminal),
      assumed(subjects_of(report), terminal),
      sentences(message("warnings"), warnings_of(report), terminal)};
  std::string text;
  for (const std::string& section : sections) {
    if (!section.empty()) text += (text.empty() ? "" : "\n") + section;
  }
  return text;
}

}  // namespace foretrain::report
