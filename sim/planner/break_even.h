#pragma once

#include "sim/scenario/rent_question.h"

namespace foretrain {

// Owning hardware against renting it.
struct BreakEven {
  Band cost;                   // of buying, less what it can be sold for
  double own_per_month = 0.0;  // power under load and upkeep
  Band rent_per_month;         // of a machine rented for a year, by its best term
  // Months of use around the clock from which buying is cheaper: cost / (rent - own). `low` is of the lowest cost and
  // the highest rent. Infinite where owning costs as much a month as renting.
  Band months;
};
BreakEven break_even(Band cost, double kilowatts, const Ownership& ownership, Band rent_per_month);

}  // namespace foretrain
