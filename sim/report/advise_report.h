#pragma once

#include <optional>
#include <span>
#include <string>

#include "sim/planner/advise_offers.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// What is advised for a case: on the machine that it names, on what is offered where it names none, or both where the
// machine cannot do it.
struct AdvisedCase {
  std::string name;
  std::optional<Advice> on_machine;
  std::optional<OfferedAdvice> offered;
};

// Advice in three steps, for people and for programs.
std::string advice_table(const std::string& title, std::span<const AdvisedCase> cases, const Terminal& terminal);
std::string advice_json(const std::string& title, std::span<const AdvisedCase> cases);
// The advice in one sentence.
Message advice_in_words(const Advice& advice);
Message advice_in_words(const OfferedAdvice& advice);
// "one card", "several in a machine", "a cluster".
Message kind_in_words(OfferedAdvice::Kind kind);

}  // namespace foretrain::report
