#include <algorithm>

#include "sim/page/assembly.h"
#include "sim/page/view.h"

namespace foretrain::page {

using report::Json;

std::string run_page(const report::RunReport& report, const Environment& environment, const Template& page,
                     const Origin& origin) {
  Sentences sentences(page.chinese);
  Json cases = Json::array();
  const std::size_t pictured = std::min(report.cases.size(), kMostPictured);
  for (std::size_t i = 0; i < pictured; ++i) {
    cases.push_back(case_view(report.cases[i], environment, kMostSlices / pictured));
  }
  for (const CaseReport& r : report.cases) sentences.add_remarks(r);
  return assembled(page, "run", report::run_answer(report), report.verdict.findings, std::move(sentences),
                   {{"cases", std::move(cases)}}, origin);
}

}  // namespace foretrain::page
