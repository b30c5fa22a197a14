#pragma once

#include <optional>
#include <span>
#include <string>

#include "sim/report/lesson_report.h"
#include "sim/report/plan_report.h"
#include "sim/report/rent_report.h"
#include "sim/report/run_report.h"
#include "sim/report/scale_report.h"
#include "sim/report/words.h"

namespace foretrain::page {

// The page as it was bundled (configs/page/report.html, made by tools/report-page), its words in every language
// (configs/text/page-*.yaml), and those of the sentences that an answer is made of (configs/text/zh.yaml and
// lessons-zh.yaml).
struct Template {
  std::string html;
  std::string words;  // JSON: {"en": {...}, "zh": {...}}
  report::Words chinese;
};
// Reported if a file is missing, or is no page or catalogue.
std::optional<Template> load_template(const DataFolder& data, Diagnostics& diagnostics);

// How the answer came about, printed at the end of the page, and the language it opens in: "en", "zh", or empty for
// that of the browser. The reader may choose another.
struct Origin {
  std::string command, version, language = {};
};

// One page that needs nothing else, for the answer of each command: the JSON as the command's --json writes it, with
// `view` added to it, inside the template. What scenarios say stays data: no text of theirs becomes markup.
std::string run_page(const report::RunReport& report, const Environment& environment, const Template& page,
                     const Origin& origin);
std::string plan_page(const std::string& title, std::span<const PlanAnswer> answers, const Environment& environment,
                      const Template& page, const Origin& origin);
std::string scale_page(const std::string& title, std::span<const report::ScaledCase> cases, bool weak,
                       const Environment& environment, const Template& page, const Origin& origin);
std::string rent_page(const RentQuestion& question, const RentAnswer& answer, const Template& page,
                      const Origin& origin);
std::string lesson_page(const PerformedLesson& lesson, const Explored* explored, const Template& page,
                        const Origin& origin);

}  // namespace foretrain::page
