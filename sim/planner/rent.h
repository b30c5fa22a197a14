#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/planner/break_even.h"
#include "sim/planner/job_time.h"
#include "sim/planner/planner.h"
#include "sim/scenario/rent_question.h"

namespace foretrain {

// What becomes of so many machines of an offer.
struct RentCandidate {
  std::size_t offer = 0;  // of the question
  int units = 1;          // how many times the price is paid
  int machines = 1, gpus = 0;
  std::optional<CaseReport> report;  // of the best plan; absent if it was left out
  bool offloads = false;             // for nothing fitted without
  // Why there is no report: the reason, or that it can neither be faster nor cheaper than another.
  Message why_not;
  bool beaten = false;  // not simulated: even at the peak of its GPUs, in `time` and `money`, another one is better
  JobTime time;         // expected hours, by what they go to
  Band hours;           // nine in ten such jobs
  double money = 0.0;   // in the middle of the price
  Band money_range;     // of price and hours
  double money_per_billion_tokens = 0.0;
  double busy_per_billion_tokens = 0.0;     // of a machine that trains all the time it is paid for
  bool in_time = false, in_budget = false;  // as expected; true if nothing was asked
  bool surely_in_time = false;              // at the high end of the hours too
  bool on_front = false;                    // no other is both faster and cheaper

  bool answers() const { return report && in_time && in_budget; }
};

struct RentAnswer {
  // Simulated ones by hours and money, then those that are beaten, then the rest.
  std::vector<RentCandidate> candidates;
  std::optional<std::size_t> best;               // the cheapest in time; with a budget alone, the fastest within it
  std::optional<std::size_t> fastest, cheapest;  // of all that were simulated
  std::optional<std::size_t> if_halved;          // the best for half the deadline, or half the hours of the best
  double halved_deadline_hours = 0.0;
  // What is for sale against the cheapest simulated candidate with these GPUs that is not spot.
  struct Bought {
    std::size_t purchase = 0, candidate = 0;
    BreakEven against;
    double jobs = 0.0;  // that one after the other take so long, by the middle of the months
  };
  std::vector<Bought> bought;
  std::int64_t searched = 0;  // machines for which a plan was looked for
  bool complete = true;       // false if it was stopped: better machines may be among those that were not looked at
};

struct RentOptions {
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;  // once set, what was found so far is the answer
  std::function<void(CaseReport&)> add_error_bar = {};
  std::function<void(std::size_t done, std::size_t of)> progress = {};
};

// Looks for the best plan on each machine by simulation, and leaves aside machines that at the peak of their GPUs would
// still be slower and dearer than one that was found: the front of time and money is that of all candidates. The same
// answer for any number of threads.
RentAnswer rent(const RentQuestion& question, const Environment& environment, const RentOptions& options);

// Hours that training cannot be shorter than: its matrix products at the highest rate a kernel reaches on these GPUs.
double least_training_hours(const Case& subject, const Environment& environment);

}  // namespace foretrain
