#include "sim/planner/break_even.h"

#include <limits>

namespace foretrain {

BreakEven break_even(Band cost, double kilowatts, const Ownership& ownership, Band rent_per_month) {
  BreakEven answer;
  answer.cost = cost * (1.0 - ownership.residual);
  answer.own_per_month =
      kilowatts * ownership.power_factor * kHoursPerMonth * ownership.power_price + ownership.upkeep_per_month;
  answer.rent_per_month = rent_per_month;
  const auto months = [&](double price, double rent) {
    return rent > answer.own_per_month ? price / (rent - answer.own_per_month)
                                       : std::numeric_limits<double>::infinity();
  };
  answer.months = {months(answer.cost.low, rent_per_month.high), months(answer.cost.high, rent_per_month.low)};
  return answer;
}

}  // namespace foretrain
