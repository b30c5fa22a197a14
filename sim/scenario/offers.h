#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/config/tree.h"
#include "sim/hardware/gpu.h"
#include "sim/scenario/price.h"

namespace foretrain {

// Where a price comes from and how firm it is.
struct Quote {
  enum class Status {
    official,  // the seller's own list
    market,    // seen on a market: a lowest, median or mean of what sellers ask
    estimate,  // somebody's guess
    historic,  // no longer asked
    spot,      // for capacity that may be taken back at any time
  } status = Status::official;
  std::string date, source, note;
};
const char* to_string(Quote::Status status);

// Something that can be rented with a machine: its price is for the machine's period, and is added before any factor.
struct AddOn {
  std::string name;
  Band amount;                            // of the offer's currency and period; negative for a discount
  config::Node machine;                   // what it changes of the machine, a map laid over it
  std::optional<BytesPerSecond> network;  // what it changes the line to
};

// A machine for rent (configs/offers/README.md).
struct Offer {
  std::string name;  // "FILE/NAME", or as written in the question
  std::string provider;
  config::Node machine;  // one machine, as a scenario's `cluster`
  int up_to_gpus = 0;    // the price is for one GPU, and a machine may have up to so many; 0: the machine is as it is
  Price price;
  Quote quote;
  std::optional<BytesPerSecond> network;          // the line to the outside
  std::optional<double> interrupted_every_hours;  // one machine, on average; only spot
  std::vector<AddOn> add_ons;
  std::vector<std::string> taken;  // those of them that are rented with it
  SourcePosition position;

  // The offer with what is to be rented with it; add-ons it does not have are left aside.
  Offer with(const std::vector<std::string>& names) const;
};

// Hardware for sale.
struct Purchase {
  std::string name;
  std::string gpu;  // catalogue name
  int gpus = 1;
  Band cost;
  std::string currency;
  std::optional<double> watts;  // of all of it under load; absent: that of the GPUs
  Quote quote;
};

// What money of one currency is in another.
struct ExchangeRate {
  std::string from, to;
  double rate = 0.0;  // one `from` is so many `to`
  std::string date, source;
};

struct OfferFile {
  std::vector<Offer> offers;
  std::vector<Purchase> purchases;
  std::vector<ExchangeRate> exchange;
};

// Reads a file of offers, whose names get `prefix`. Everything wrong is reported; nullopt then. At most 10,000 offers.
std::optional<OfferFile> read_offers(const config::Node& root, const std::string& prefix, const DataFolder& data,
                                     Diagnostics& diagnostics);
// One of it, with the file's currency and quote standing in for what it does not say.
std::optional<Offer> read_offer(const config::Node& node, const std::string& prefix, const std::string& currency,
                                const Quote& quote, Diagnostics& diagnostics);

std::optional<Purchase> read_purchase(const config::Node& node, const std::string& prefix, const std::string& currency,
                                      const Quote& quote, const DataFolder& data, Diagnostics& diagnostics);

// A list of maps {from, to, rate, date, source}.
std::vector<ExchangeRate> read_exchange(const config::Node* node, Diagnostics& diagnostics);
// How much one `from` is in `to`, by a rate of either direction; nullopt if none is given.
std::optional<double> exchange_rate(const std::string& from, const std::string& to,
                                    const std::vector<ExchangeRate>& rates);

}  // namespace foretrain
