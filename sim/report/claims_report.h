#pragma once

#include <span>
#include <string>

#include "sim/claims/claims.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// Claims for people: how many of each verdict, then each claim with its checks, what was claimed and what the
// simulation says. Those that cannot be judged are only listed unless every claim is asked for in full.
std::string claims_table(std::span<const JudgedClaim> claims, const Terminal& terminal, bool every_claim);

// The same for programs. A figure of a check that could not be made is null.
std::string claims_json(std::span<const JudgedClaim> claims);

// The sentence after the verdict: under which conditions it holds and under which not, or what is missing. Conditions
// are said in the words given, where those know them.
Message because_of(const JudgedClaim& claim, const Words& words = {});

// A figure in its metric's unit, for people. Claims speak of GB = 1e9 bytes.
std::string figure_text(double value, config::Unit unit);

// A check in words: "step_time_s, full over none".
Message description_of(const Check& check);

}  // namespace foretrain::report
