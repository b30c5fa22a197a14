#pragma once

#include <functional>
#include <string>

#include "sim/planner/rent.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// What to rent, in one sentence.
Message rent_verdict(const RentQuestion& question, const RentAnswer& answer);

// The answer for people: the verdict, what half the time would cost, the candidates with the front of time and money
// marked, their plans, what was left out and why, buying against renting. Of many candidates those on the front and the
// next cheapest are shown, unless all are asked for.
std::string rent_table(const RentQuestion& question, const RentAnswer& answer, const Terminal& terminal,
                       bool every_candidate = false);

// The same for programs, every candidate; of money and hours the ranges too.
std::string rent_json(const RentQuestion& question, const RentAnswer& answer);
std::string rent_csv(const RentQuestion& question, const RentAnswer& answer);

// The end of the answer: how the question was understood, and what was assumed.
std::string rent_understood(const RentQuestion& question, const Terminal& terminal);

// "in 12.3 h (10.1 to 14.5) for 24.6 USD (20.2 to 29.0)".
Message takes(const RentQuestion& question, const RentCandidate& candidate);

// "2 x lambda/a100-40g-8 (16 x a100-sxm4-40gb)".
Message rented(const RentQuestion& question, const RentCandidate& candidate);

// Hours as these sentences and tables show them.
std::string rent_hours(double value);
// "10.1 to 14.5"; empty where both ends look alike.
Message between(Band band, const std::function<std::string(double)>& text);

}  // namespace foretrain::report
