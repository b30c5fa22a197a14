#include <algorithm>

#include "sim/page/assembly.h"
#include "sim/page/view.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"

namespace foretrain::page {
namespace {

using report::Json;

// From the first to the last size that was simulated.
Message said(const report::ScaledCase& curve) {
  std::vector<const ScalePoint*> known;
  for (const ScalePoint& point : curve.points) {
    if (point.report) known.push_back(&point);
  }
  if (known.empty()) return message("{}: no plan is possible on any of these sizes", curve.subject.name);
  const ScalePoint &first = *known.front(), &last = *known.back();
  const std::string gpus = report::grouped(last.gpus);
  if (known.size() == 1) {
    return message("{}: {} GPUs do {} tokens/s", curve.subject.name, gpus,
                   report::grouped(last.report->tokens_per_second));
  }
  const Message gain = message("{}: {} GPUs are {} x as fast as {}, {} of perfect scaling", curve.subject.name, gpus,
                               report::significant(last.report->tokens_per_second / first.report->tokens_per_second, 3),
                               report::grouped(first.gpus), report::percent(last.efficiency));
  if (!last.bent_by) return gain;
  return message("{}; what grows most is {}", gain, report::in_words(*last.bent_by));
}

}  // namespace

std::string scale_page(const std::string& title, std::span<const report::ScaledCase> cases, bool weak,
                       const Environment& environment, const Template& page, const Origin& origin) {
  std::vector<Finding> findings;
  Sentences sentences(page.chinese);
  std::size_t points = 0;
  for (const report::ScaledCase& curve : cases) points += curve.points.size();
  const std::size_t pictured = std::min(points, kMostPictured);
  Json views = Json::array();
  for (const report::ScaledCase& curve : cases) {
    findings.push_back({said(curve)});
    for (const ScalePoint& point : curve.points) {
      const bool drawn = point.report && views.size() < pictured;
      views.push_back(drawn ? case_view(*point.report, environment, kMostSlices / pictured) : Json(nullptr));
      if (point.report) sentences.add_remarks(*point.report);
      sentences.add(point.why_not);
    }
  }
  return assembled(page, "scale", taken_up(report::scale_json(title, cases, weak)), findings, std::move(sentences),
                   {{"cases", std::move(views)}}, origin);
}

}  // namespace foretrain::page
