#pragma once

#include <array>

#include "sim/planner/advise.h"
#include "sim/planner/rent.h"

namespace foretrain {

// The three steps where no machine is named: one card, several or a cluster of what is offered, and what is free to try
// on the machine that is taken.
struct OfferedAdvice {
  enum class Kind { one_card, several_cards, cluster };
  static Kind kind_of(const RentCandidate& candidate);

  struct Step {
    Kind kind = Kind::one_card;
    // Of the answer's candidates, the cheapest of this kind that answers, else that fits; absent if none was simulated.
    std::optional<std::size_t> cheapest;
    Message why_not;  // then
  };

  RentQuestion question;
  RentAnswer answer;
  std::array<Step, 3> steps;
  std::optional<Advice::Size> free;  // on the best candidate's machine, if there is one
};

OfferedAdvice advise_offers(RentQuestion question, const Environment& environment, const RentOptions& renting,
                            const AdviseOptions& options);

}  // namespace foretrain
