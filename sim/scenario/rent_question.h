#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/offers.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

// What a job needs beside training. In YAML: overhead: {setup, dataset, result, network, checkpoint: {size, rate,
// every}, interrupted_every, fails_every, restart}.
struct RentOverhead {
  double setup_hours = 0.0;
  Bytes dataset, result;                          // copied in before the first step and out after the last
  std::optional<BytesPerSecond> network;          // the line of offers that do not state theirs
  std::optional<Bytes> checkpoint;                // absent: weights and optimizer states of what is trained
  BytesPerSecond checkpoint_rate{1e9};            // a checkpoint is written at, training waits
  std::optional<double> checkpoint_every_hours;   // absent: the best interval if there are interruptions, else none
  std::optional<double> interrupted_every_hours;  // a spot machine of which the offer does not say
  std::optional<double> fails_every_hours;        // any machine
  double restart_hours = 0.0;                     // until the job runs again
};

// What owning hardware costs beside its price. In YAML: ownership: {power_price, power_factor, upkeep_per_month,
// residual}.
struct Ownership {
  double power_price = 0.0;   // of a kWh, in the currency of the answer
  double power_factor = 1.0;  // power of everything over that of the hardware bought: its host, cooling
  double upkeep_per_month = 0.0;
  double residual = 0.0;  // share of the price that it can be sold for in the end
};

// Which machines, how many of them and with which plan finish a job in time and within the money.
struct RentQuestion {
  std::string title;
  std::optional<double> deadline_hours;
  std::optional<double> budget;
  std::string currency;  // of the budget and the answer
  std::vector<Offer> offers;
  std::vector<Purchase> purchases;
  std::vector<ExchangeRate> exchange;
  RentOverhead overhead;
  Ownership ownership;

  // So much of an offer, and the case to simulate for it; offers of one machine share their cases.
  struct Candidate {
    std::size_t offer = 0;
    int units = 1;                       // how many times the price is paid: machines, or GPUs where those are priced
    std::optional<std::size_t> subject;  // absent if it is left out
    Message why_not;
  };
  std::vector<Case> cases;           // their plans are open
  std::vector<Message> assumptions;  // what was filled in for all of them on the user's behalf, a sentence each
  std::vector<Candidate> candidates;
};

// What the command line says in place of the file.
struct RentOverrides {
  std::vector<std::string> offers;
  std::string deadline, budget, currency;
};

// Reads a question (design: section 6, with `rent` in place of `cases`; scenarios/rent). What is wrong with the
// question is reported, nullopt then; an offer on which the job cannot run is a candidate with the reason.
std::optional<RentQuestion> load_rent_question(const std::string& path, const DataFolder& data,
                                               Diagnostics& diagnostics, const RentOverrides& overrides = {});
// The same from a parsed document, whose relative paths are taken from `folder`.
std::optional<RentQuestion> read_rent_question(const config::Node& root, const std::string& folder,
                                               const DataFolder& data, Diagnostics& diagnostics,
                                               const RentOverrides& overrides = {});

// The question that a case makes whose machine is to be found: its model, training and software on what is offered. Of
// its plan, what is said of offload and order is fixed. `tokens`, if any, come before the case's own; without either a
// job of 1e9 is assumed.
std::optional<RentQuestion> question_of_job(const config::Node& described, const std::string& tokens,
                                            const DataFolder& data, const RentOverrides& overrides,
                                            Diagnostics& diagnostics);

}  // namespace foretrain
