#pragma once

#include <string>
#include <vector>

#include "sim/analysis/case_report.h"
#include "sim/scenario/offers.h"

namespace foretrain::report {

// A case as it was understood, in the words of a scenario: model, machine, training, plan and software.
struct Described {
  Message what, description;
  bool is_plan = false;
};
std::vector<Described> describe(const Case& subject);

// Its plan alone, and how many micro-batches a step takes.
Message describe_plan(const Case& subject);

// What a part of a step is called: "pipeline bubble".
Message in_words(Cause cause);

// Parts with commas between them.
Message listed(const std::vector<Message>& parts);

// What a rate of Elasticity is called by its name in JSON: "nic" -> "network cards".
Message in_words(std::string_view rate);

// What a price is paid for: "hour".
Message in_words(Price::Per period);

// How firm a price is.
Message in_words(Quote::Status status);

std::string name_of(ErrorBar::Confidence confidence);  // "high", "medium", "low"

}  // namespace foretrain::report
