#pragma once

#include <string>

#include "sim/page/page.h"
#include "sim/report/json_support.h"

namespace foretrain::page {

// What an answer says in English, in the other languages of the page: {"zh": {ENGLISH: CHINESE}}.
class Sentences {
 public:
  explicit Sentences(const report::Words& chinese) : chinese_(chinese) {}
  void add(const Message& sentence) { said_[sentence.english()] = chinese_(sentence); }
  // What a simulated case warns of and assumes.
  void add_remarks(const CaseReport& report);
  // A text of a data file.
  void add_text(const std::string& english) { said_[english] = chinese_.text(english); }
  report::Json json() const { return {{"zh", said_}}; }

 private:
  const report::Words& chinese_;
  report::Json said_ = report::Json::object();
};

// Slices that the timelines of a page may have in all, and the simulated cases whose timeline, roofline and machine are
// drawn: a page with pictures of many would be too large to load.
inline constexpr std::size_t kMostSlices = 24000, kMostPictured = 24;

// The template with the answer and its `view` in it: which page it is (`kind`, the name of its command), what stands
// under its title (`findings`), and what its pictures need beside the answer (`view`).
std::string assembled(const Template& page, const std::string& kind, report::Json answer,
                      const std::vector<Finding>& findings, Sentences sentences, report::Json view,
                      const Origin& origin);

// A command's JSON as text, taken up again.
inline report::Json taken_up(const std::string& json) { return report::Json::parse(json); }

}  // namespace foretrain::page
