#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/describe.h"
#include "sim/report/explain_report.h"
#include "sim/report/figures.h"

namespace foretrain::report {
namespace {

double share_of(Time part, Time whole) { return part.seconds() / whole.seconds(); }

constexpr int kBar = 24;  // columns

// A bar that starts where the one before it ended.
std::string step_of_waterfall(double from, double share) {
  const int begin = static_cast<int>(std::lround(from * kBar));
  return std::string(static_cast<std::size_t>(std::clamp(begin, 0, kBar)), ' ') + bar(share, kBar);
}

std::string waterfall(const CaseReport& r, const Terminal& terminal) {
  const Words& words = terminal.words;
  TextTable table({words("where the step goes"), words("time"), words("share"), words("0 to 100 %")});
  table.align_left(3);
  double from = 0;
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    const double share = share_of(r.breakdown[cause], r.step_time);
    if (r.breakdown[cause] == Time::zero()) continue;
    table.add(
        {{words(in_words(cause))}, {duration(r.breakdown[cause])}, {percent(share)}, {step_of_waterfall(from, share)}});
    from += share;
  }
  table.add({{words("step")}, {duration(r.step_time)}, {"100.0 %"}, {""}});
  return "\n" + table.text(terminal);
}

// The stages' shares side by side, where any two differ by a percent of the step.
std::string by_stage(const CaseReport& r, const Terminal& terminal) {
  const std::vector<Breakdown> stages = stage_breakdowns(r);
  const auto differs = [&](Cause cause) {
    const auto [least, most] = std::minmax_element(
        stages.begin(), stages.end(), [&](const Breakdown& a, const Breakdown& b) { return a[cause] < b[cause]; });
    return share_of((*most)[cause] - (*least)[cause], r.step_time) >= 0.01;
  };
  std::vector<Cause> shown;
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (stages.size() > 1 && differs(static_cast<Cause>(i))) shown.push_back(static_cast<Cause>(i));
  }
  if (shown.empty()) return "";
  const Words& words = terminal.words;
  std::vector<std::string> header = {words("where stages differ")};
  for (Cause cause : shown) header.push_back(words(in_words(cause)));
  TextTable table(header);
  // Neighbours that show the same stand together.
  const auto cells = [&](std::size_t stage) {
    std::vector<std::string> shares;
    for (Cause cause : shown) shares.push_back(percent(share_of(stages[stage][cause], r.step_time)));
    return shares;
  };
  for (std::size_t first = 0, next = 0; first < stages.size(); first = next) {
    while (next < stages.size() && cells(next) == cells(first)) ++next;
    std::vector<TextTable::Cell> row = {
        {next == first + 1 ? words("stage {}", first) : words("stages {} to {}", first, next - 1)}};
    for (const std::string& share : cells(first)) row.push_back({share});
    table.add(std::move(row));
  }
  return "\n" + table.text(terminal);
}

std::string mostly(const HeldBy& held, const Words& words) {
  std::vector<Message> parts;
  const double total = held.total();
  int shown = 0;
  for (const auto& [name, seconds] : held.named()) {
    if ((seconds < 0.1 * total && !parts.empty()) || shown++ == 2) break;
    parts.push_back(message("{} {} %", in_words(name), fmt::format("{:.0f}", 100 * seconds / total)));
  }
  return words(listed(parts));
}

std::string path(const Explanation& e, const Terminal& terminal) {
  const double step = e.report.step_time.seconds();
  const Words& words = terminal.words;
  TextTable held({words("critical path: held by"), words("time"), words("share"), ""});
  held.align_left(3);
  for (const auto& [name, seconds] : e.path.held.named()) {
    if (seconds < 5e-4 * step) continue;
    held.add({{words(in_words(name))},
              {duration(Time::from_seconds(seconds))},
              {percent(seconds / step)},
              {bar(seconds / step, kBar)}});
  }
  TextTable places({words("where it runs"), words("share"), words("stays"), words("longest"), words("held by")});
  places.align_left(4);
  constexpr int kMost = 10;
  int shown = 0;
  for (const CriticalPath::Place& place : e.path.places()) {
    if (shown++ == kMost || place.held.total() < 5e-4 * step) break;
    places.add({{words(place.longest.what)},
                {percent(place.held.total() / step)},
                {grouped(static_cast<double>(place.visits))},
                {duration(place.longest.length())},
                {mostly(place.held, words)}});
  }
  return "\n" + held.text(terminal) + "\n" + places.text(terminal);
}

std::string faster_hardware(const Explanation& e, const Terminal& terminal) {
  const Words& words = terminal.words;
  TextTable table({words("if it were faster"), words("elasticity"), words("1 % faster"), words("1 % slower"),
                   words("2 x: step"), words("saves"), words("by elasticity")});
  const double now = e.report.step_time.seconds();
  std::vector<Message> nothing, kinks;
  for (const Explanation::Faster& f : e.hardware) {
    const double saved = 1.0 - f.twice.seconds() / now;
    const Message name = in_words(to_string(f.rate));
    if (std::abs(f.elasticity) < 5e-5 && std::abs(saved) < 5e-5 && std::abs(f.loss) < 5e-5) {
      nothing.push_back(name);
      continue;
    }
    if (f.kink()) kinks.push_back(name);
    table.add({{words(name)},
               {fmt::format("{:.4f}", f.elasticity)},
               {fmt::format("{:.4f}", f.gain)},
               {fmt::format("{:.4f}", f.loss)},
               {duration(f.twice)},
               {percent(saved)},
               {percent(1.0 - f.twice_by_elasticity)}});
  }
  if (std::abs(e.report.elasticity->other) >= 5e-5) {
    table.add({{words("what no rate shortens")},
               {fmt::format("{:.4f}", e.report.elasticity->other)},
               {""},
               {""},
               {""},
               {""},
               {""}});
  }
  std::string text = "\n" + table.text(terminal);
  if (!nothing.empty()) {
    text += wrapped("  " + words("no effect: {}", listed(nothing)), terminal.width, 4) + "\n";
  }
  if (!kinks.empty()) {
    text += wrapped("  " + words("at a kink, where faster gains other than slower loses: {}", listed(kinks)),
                    terminal.width, 4) +
            "\n";
  }
  return text;
}

// Fastest first.
std::string other_software(const Explanation& e, const Terminal& terminal) {
  if (e.software.empty()) return "";
  const Outcome now = outcome_of(e.report);
  std::vector<const TriedChange*> sorted;
  std::vector<Message> nothing;
  for (const TriedChange& tried : e.software) {
    const bool same = std::abs(share_of(tried.outcome.step_time, now.step_time) - 1.0) < 5e-4 &&
                      std::abs(tried.outcome.needed / now.needed - 1.0) < 1e-3;
    if (same) {
      nothing.push_back(tried.change.what);
    } else {
      sorted.push_back(&tried);
    }
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const TriedChange* a, const TriedChange* b) {
    return a->outcome.step_time < b->outcome.step_time;
  });
  const Words& words = terminal.words;
  TextTable table({words("with another setting"), words("step"), words("change"), words("memory GiB"), words("fits")});
  for (const TriedChange* tried : sorted) {
    const Outcome& o = tried->outcome;
    table.add({{words(tried->change.what)},
               {duration(o.step_time)},
               {signed_percent(share_of(o.step_time, now.step_time) - 1.0)},
               {gib(o.needed)},
               {o.fits ? words("yes") : words("NO"), o.fits ? Style::plain : Style::bad}});
  }
  std::string text = "\n" + table.text(terminal);
  if (!nothing.empty()) {
    text += wrapped("  " + words("no effect: {}", joined(nothing, message("; "))), terminal.width, 4) + "\n";
  }
  return text;
}

Message headline(const CaseReport& r) {
  Message line = message("{}: {} a step, {} tokens/s, MFU {}, {} of {} GiB", r.name, duration(r.step_time),
                         grouped(r.tokens_per_second), percent(r.mfu), gib(outcome_of(r).needed), gib(r.capacity));
  return r.fits ? line : message("{}: DOES NOT FIT", line);
}

}  // namespace

std::string explain_table(const std::string& title, std::span<const Explanation> cases, const Terminal& terminal) {
  std::string text =
      title.empty() ? "" : styled(wrapped(printable(title), terminal.width, 2), Style::bold, terminal) + "\n";
  for (const Explanation& e : cases) {
    const CaseReport& r = e.report;
    text += (text.empty() ? "" : "\n") +
            styled(wrapped(printable(terminal.words(headline(r))), terminal.width, 2), Style::bold, terminal) + "\n";
    text += wrapped("  " + terminal.words(describe_plan(r.subject)), terminal.width, 4) + "\n";
    text += waterfall(r, terminal) + by_stage(r, terminal) + path(e, terminal) + faster_hardware(e, terminal) +
            other_software(e, terminal);
  }
  return text;
}

std::string figures_table(std::span<const ExplainedFigures> cases, const Terminal& terminal) {
  std::string text;
  for (const ExplainedFigures& c : cases) {
    text += (text.empty() ? "" : "\n") + styled(printable(c.name), Style::bold, terminal) + "\n";
    for (const FigureFormula& f : c.figures) {
      text += fmt::format("{} = {} = {:.6g}{}{}\n", f.figure, terminal.words(f.formula), f.value,
                          f.unit.empty() ? "" : " ", f.unit);
      std::size_t widest = 0;
      for (const FigureFormula::Input& in : f.inputs) widest = std::max(widest, in.symbol.size());
      for (const FigureFormula::Input& in : f.inputs) {
        const std::string value = fmt::format("{:.6g}{}{}", in.value, in.unit.empty() ? "" : " ", in.unit);
        text += fmt::format("  {:<{}} = {:<18} {}\n", in.symbol, widest, value, terminal.words(in.meaning));
      }
    }
  }
  return text;
}

}  // namespace foretrain::report
