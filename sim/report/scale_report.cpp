#include "sim/report/scale_report.h"

#include <fmt/format.h>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"
#include "sim/report/understood_text.h"

namespace foretrain::report {

std::string scale_json(const std::string& title, std::span<const ScaledCase> cases, bool weak) {
  Json json{{"schema", 1}, {"title", title}, {"scaling", weak ? "weak" : "strong"}, {"cases", Json::array()}};
  for (const ScaledCase& c : cases) {
    Json points = Json::array();
    for (const ScalePoint& point : c.points) {
      const bool known = point.report.has_value();
      points.push_back({{"gpus", point.gpus},
                        {"efficiency", known ? Json(point.efficiency) : Json(nullptr)},
                        {"bent_by", point.bent_by ? Json(to_string(*point.bent_by)) : Json(nullptr)},
                        {"bent_share", point.bent_by ? Json(point.bent_share) : Json(nullptr)},
                        {"why_not", or_null(point.why_not.english())},
                        {"complete", point.complete},
                        {"report", known ? case_json(*point.report) : Json(nullptr)}});
    }
    json["cases"].push_back({{"name", c.subject.name}, {"points", std::move(points)}});
  }
  return dumped(json);
}

std::string scale_table(const std::string& title, std::span<const ScaledCase> cases, bool weak,
                        const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text = title.empty() ? "" : styled(printable(title), Style::bold, terminal) + "\n";
  for (const ScaledCase& c : cases) {
    const Message batch = weak ? message("the batch grows with the GPUs") : message("the same batch on all sizes");
    text += "\n" + words("{}: {}", styled(printable(c.subject.name), Style::bold, terminal), batch) + "\n";
    TextTable table({words("GPUs"), words("batch"), words("step time"), words("tokens/s"), words("per GPU"),
                     words("MFU"), words("fits"), words("efficiency"), words("bent by")});
    table.align_left(8);
    std::string notes;
    for (const ScalePoint& point : c.points) {
      const std::string gpus = fmt::format("{}", point.gpus);
      if (!point.report) {
        table.add({{gpus}, {""}, {"-"}, {""}, {""}, {""}, {""}, {""}, {""}});
        notes += wrapped(printable(words("{} GPUs: {}", gpus, point.why_not)), terminal.width, 2) + "\n";
        continue;
      }
      const CaseReport& r = *point.report;
      table.add({{gpus},
                 {fmt::format("{}", r.subject.train.global_batch)},
                 {duration(r.step_time)},
                 {grouped(r.tokens_per_second)},
                 {grouped(r.tokens_per_second_per_gpu)},
                 {percent(r.mfu)},
                 {r.fits ? words("yes") : words("NO"), r.fits ? Style::plain : Style::bad},
                 {percent(point.efficiency)},
                 {point.bent_by ? words("{} (+{})", in_words(*point.bent_by), percent(point.bent_share)) : ""}});
      const Message plan = describe_plan(r.subject);
      const Message found =
          point.complete ? plan : message("{} (stopped before the end: a faster plan may exist)", plan);
      notes += wrapped(words("{} GPUs: {}", gpus, found), terminal.width, 2) + "\n";
    }
    text += table.text(terminal) + notes;
  }
  std::vector<const Case*> subjects;
  for (const ScaledCase& c : cases) subjects.push_back(&c.subject);
  return text + as_understood(subjects, Plans::looked_for, terminal);
}

}  // namespace foretrain::report
