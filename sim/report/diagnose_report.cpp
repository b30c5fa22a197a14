#include "sim/report/diagnose_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"

namespace foretrain::report {
namespace {

using Finding = Diagnosis::Finding;
constexpr std::size_t kMostCauses = 8;

std::string seconds(double s) { return duration(Time::from_seconds(s)); }

Message figure_words(LogFigure figure) {
  const std::array<Message, kLogFigures> words = {message("seconds an iteration"),
                                                  message("step time"),
                                                  message("samples/s"),
                                                  message("tokens/s"),
                                                  message("tokens/s and GPU"),
                                                  message("TFLOP/s and GPU"),
                                                  message("MFU"),
                                                  message("forward passes"),
                                                  message("backward passes"),
                                                  message("rest of the step"),
                                                  message("memory allocated")};
  return words[static_cast<std::size_t>(figure)];
}

std::string value_of(LogFigure figure, double value) {
  switch (figure) {
    case LogFigure::iteration_s:
    case LogFigure::step_s:
    case LogFigure::forward_s:
    case LogFigure::backward_s:
    case LogFigure::optimizer_s:
      return value < 1e6 ? seconds(value) : significant(value, 4) + " s";
    case LogFigure::mfu:
      return percent(value);
    case LogFigure::memory_bytes:
      return gib({value}) + " GiB";
    default:
      return value >= 1000 ? grouped(value) : significant(value, 4);
  }
}

Message speed_verdict(const Diagnosis& d) {
  const double step = d.report.step_time.seconds();
  const double ratio = *d.step_s / step;
  const Message range = d.report.error_bar
                            ? message("nine in ten such runs take {} to {}", seconds(d.low_s), seconds(d.high_s))
                            : message("how far such predictions are off is not known");
  const Message found = message("a step takes {}, {} predicted ({}); {}", value_of(LogFigure::step_s, *d.step_s),
                                seconds(step), signed_percent(ratio - 1), range);
  if (d.finding == Finding::normal) return message("Normal: {}", found);
  const Message off =
      d.finding == Finding::slow ? message("Too slow: {}", found) : message("Faster than it should be: {}", found);
  if (!d.most_off) return off;
  return message("{}; most off: {} with {} instead of {}", off, figure_words(d.most_off->figure),
                 value_of(d.most_off->figure, d.most_off->measured),
                 value_of(d.most_off->figure, d.most_off->predicted));
}

Message memory_verdict(const Diagnosis& d) {
  const Outcome now = outcome_of(d.report);
  if (d.finding == Finding::fits_not) {
    return message("Out of memory, as simulated: {} GiB are needed, {} GiB are there", gib(now.needed),
                   gib(d.report.capacity));
  }
  return message("Out of memory, although it should fit: {} of {} GiB are needed as described", gib(now.needed),
                 gib(d.report.capacity));
}

Message verdict(const Diagnosis& d) {
  if (d.out_of_memory) return memory_verdict(d);
  return d.step_s ? speed_verdict(d) : message("The log does not say how long a step takes");
}

std::string causes(const Diagnosis& d, const Terminal& terminal) {
  const Words& words = terminal.words;
  if (d.finding == Finding::normal || d.finding == Finding::no_speed) return "";
  if (d.finding == Finding::fits_not) {
    std::string text = "\n" + words("what would make it fit") + "\n";
    for (const FittingChange& change : d.report.changes) {
      Message line = message("{}: {} GiB", change.what, gib(change.needed));
      if (change.step_time) line = message("{}, {} a step", line, duration(*change.step_time));
      text += wrapped("  " + words(line), terminal.width, 4) + "\n";
    }
    return d.report.changes.empty() ? "" : text;
  }
  if (d.causes.empty()) return "\n" + words("no known cause comes nearer to it") + "\n";
  TextTable table({words("step"), "GiB", words("off by"), words("explains it"), words("known causes, nearest first")});
  table.align_left(4);
  for (std::size_t i = 0; i < std::min(kMostCauses, d.causes.size()); ++i) {
    const Diagnosis::Cause& c = d.causes[i];
    table.add({{seconds(c.step_s)},
               {gib(c.needed)},
               {percent(std::expm1(c.distance))},
               {c.explains ? words("yes") : words("in part"), c.explains ? Style::good : Style::plain},
               {words(c.what)}});
  }
  table.add({{duration(d.report.step_time)},
             {gib(outcome_of(d.report).needed)},
             {percent(std::expm1(d.distance))},
             {words("no")},
             {words("as described")}});
  return "\n" + table.text(terminal);
}

const char* finding_name(Finding finding) {
  constexpr std::array<const char*, 6> names = {"normal", "slow", "fast", "does-not-fit", "should-fit", "no-speed"};
  return names[static_cast<std::size_t>(finding)];
}

Json oom_json(const OutOfMemory& o) {
  const auto bytes = [](const std::optional<Bytes>& b) { return b ? Json(std::llround(b->value)) : Json(nullptr); };
  return {{"tried_bytes", bytes(o.tried)},         {"capacity_bytes", bytes(o.capacity)},
          {"free_bytes", bytes(o.free)},           {"in_use_bytes", bytes(o.in_use)},
          {"allocated_bytes", bytes(o.allocated)}, {"reserved_unallocated_bytes", bytes(o.reserved_unallocated)}};
}

}  // namespace

std::string diagnosis_table(const Diagnosis& d, const Terminal& terminal) {
  const bool good = d.finding == Finding::normal;
  const Words& words = terminal.words;
  std::string text = styled(wrapped(printable(words("{}: {}", d.report.name, verdict(d))), terminal.width, 2),
                            good ? Style::good : Style::bad, terminal) +
                     "\n";
  if (!d.compared.empty()) {
    TextTable table({words("figure"), words("log"), words("simulated"), words("log / simulated")});
    for (const Diagnosis::Compared& c : d.compared) {
      table.add({{words(figure_words(c.figure))},
                 {value_of(c.figure, c.measured)},
                 {value_of(c.figure, c.predicted)},
                 {c.predicted > 0 ? significant(c.ratio(), 3) : ""}});
    }
    text += "\n" + table.text(terminal);
  }
  if (!d.memory_notes.empty()) text += "\n";
  for (const Message& note : d.memory_notes) text += wrapped("  " + words(note), terminal.width, 4) + "\n";
  return text + causes(d, terminal);
}

std::string diagnosis_json(const Diagnosis& d) {
  Json compared = Json::array(), all = Json::array();
  for (const Diagnosis::Compared& c : d.compared) {
    compared.push_back({{"figure", to_string(c.figure)}, {"log", c.measured}, {"simulated", c.predicted}});
  }
  for (const Diagnosis::Cause& c : d.causes) {
    all.push_back({{"cause", c.name},
                   {"what", c.what.english()},
                   {"step_time_s", c.step_s},
                   {"gpu_peak_bytes", std::llround(c.needed.value)},
                   {"distance", c.distance},
                   {"explains", c.explains}});
  }
  Json json{{"schema", 1},
            {"case", d.report.name},
            {"finding", finding_name(d.finding)},
            {"measured_step_time_s", or_null(d.step_s)},
            {"predicted_step_time_s", exact_seconds(d.report.step_time)},
            {"normal_range_s", d.report.error_bar ? Json{d.low_s, d.high_s} : Json(nullptr)},
            {"compared", std::move(compared)},
            {"most_off", d.most_off ? Json(to_string(d.most_off->figure)) : Json(nullptr)},
            {"distance_as_described", d.distance},
            {"causes", std::move(all)},
            {"out_of_memory", d.out_of_memory ? oom_json(*d.out_of_memory) : Json(nullptr)},
            {"notes", english(d.memory_notes)}};
  return dumped(json);
}

}  // namespace foretrain::report
