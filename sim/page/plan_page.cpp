#include <algorithm>

#include "sim/page/assembly.h"
#include "sim/page/view.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"

namespace foretrain::page {
namespace {

using report::Json;

Message said(const PlanAnswer& answer) {
  const std::string plans = report::grouped(static_cast<double>(answer.counts.legal));
  if (answer.best.empty()) return message("{}: none of {} plans fits", answer.subject.name, plans);
  const CaseReport& best = answer.best.front().report;
  return message("{}: the fastest of {} plans takes {} a step: {}", answer.subject.name, plans,
                 report::duration(best.step_time), report::describe_plan(best.subject));
}

}  // namespace

std::string plan_page(const std::string& title, std::span<const PlanAnswer> answers, const Environment& environment,
                      const Template& page, const Origin& origin) {
  std::vector<Finding> findings;
  Sentences sentences(page.chinese);
  std::size_t plans = 0;
  for (const PlanAnswer& answer : answers) plans += answer.best.size();
  // The best of every question, as far as there is room.
  const std::size_t pictured = std::min(plans, kMostPictured);
  const std::size_t of_each = answers.empty() ? 0 : pictured / answers.size();
  Json cases = Json::array();
  for (const PlanAnswer& answer : answers) {
    findings.push_back({said(answer)});
    for (std::size_t i = 0; i < answer.best.size(); ++i) {
      const CaseReport& report = answer.best[i].report;
      cases.push_back(i < of_each ? case_view(report, environment, kMostSlices / pictured) : Json(nullptr));
      sentences.add_remarks(report);
    }
  }
  return assembled(page, "plan", taken_up(report::plans_json(title, answers)), findings, std::move(sentences),
                   {{"cases", std::move(cases)}}, origin);
}

}  // namespace foretrain::page
