#pragma once

#include <optional>
#include <string>

#include "sim/report/run_report.h"
#include "sim/report/words.h"

namespace foretrain::page {

// The page as it was bundled (configs/page/report.html, made by tools/report-page), its words in every language
// (configs/text/page-*.yaml), and those of the sentences that an answer is made of (configs/text/zh.yaml).
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

// One page that needs nothing else: the JSON of the answer as `run --json` writes it, with `view` added to it, inside
// the template. What scenarios say stays data: no text of theirs becomes markup.
std::string run_page(const report::RunReport& report, const Environment& environment, const Template& page,
                     const Origin& origin);

}  // namespace foretrain::page
