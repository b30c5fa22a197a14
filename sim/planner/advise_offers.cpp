#include "sim/planner/advise_offers.h"

#include <tuple>

namespace foretrain {
namespace {

using Kind = OfferedAdvice::Kind;

OfferedAdvice::Step step_of(Kind kind, const RentAnswer& answer) {
  OfferedAdvice::Step step{kind, std::nullopt, {}};
  const auto rank = [&](std::size_t i) {
    const RentCandidate& c = answer.candidates[i];
    return std::tuple(!c.answers(), c.money, c.time.total());
  };
  const RentCandidate* beaten = nullptr;
  for (std::size_t i = 0; i < answer.candidates.size(); ++i) {
    const RentCandidate& c = answer.candidates[i];
    if (c.gpus == 0 || OfferedAdvice::kind_of(c) != kind) continue;
    if (c.report) {
      if (!step.cheapest || rank(i) < rank(*step.cheapest)) step.cheapest = i;
    } else if (beaten == nullptr) {
      if (c.beaten) beaten = &c;
      if (step.why_not.empty() || c.beaten) step.why_not = c.why_not;
    }
  }
  if (step.why_not.empty()) step.why_not = message("nothing of this kind is offered");
  return step;
}

// The case of a machine with its plan to be looked for.
Case reopened(const RentCandidate& candidate) {
  Case c = candidate.report->subject;
  c.open_plan = PlanRequest{};
  return c;
}

}  // namespace

Kind OfferedAdvice::kind_of(const RentCandidate& candidate) {
  if (candidate.gpus == 1) return Kind::one_card;
  return candidate.machines == 1 ? Kind::several_cards : Kind::cluster;
}

OfferedAdvice advise_offers(RentQuestion question, const Environment& environment, const RentOptions& renting,
                            const AdviseOptions& options) {
  OfferedAdvice advice;
  advice.question = std::move(question);
  advice.answer = rent(advice.question, environment, renting);
  for (const Kind kind : {Kind::one_card, Kind::several_cards, Kind::cluster}) {
    advice.steps[static_cast<std::size_t>(kind)] = step_of(kind, advice.answer);
  }
  if (advice.answer.best) {
    advice.free = advise_size(reopened(advice.answer.candidates[*advice.answer.best]), environment, options);
  }
  return advice;
}

}  // namespace foretrain
