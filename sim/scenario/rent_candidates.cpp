#include "sim/scenario/rent_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/config/reader.h"
#include "sim/scenario/case_reader.h"

namespace foretrain {
namespace {

using config::Node;

constexpr std::size_t kMostSearches = 1000;  // each is a search for a plan

void set_key(Node& map, const std::string& key, Node value) {
  std::erase_if(map.map(), [&](const Node::Entry& entry) { return entry.key == key; });
  map.map().push_back({key, map.position, std::move(value)});
}

Node number(int value, const SourcePosition& position) { return {position, fmt::format("{}", value)}; }

// So many of one machine, as a scenario's cluster.
Node cluster_of(const Node& machine, int machines) {
  Node cluster = machine;
  const Node* gpus = machine.find("gpus");
  if (gpus == nullptr) {
    set_key(cluster, "nodes", number(machines, machine.position));
  } else if (machines > 1) {
    const Node one = *gpus;
    Message why_not;  // is said when the machine is read
    const auto count =
        one.is_scalar() ? config::parse_number(one.scalar(), config::Unit::count, why_not) : std::nullopt;
    set_key(cluster, "gpus_per_node", one);
    if (count) set_key(cluster, "gpus", {one.position, fmt::format("{:.0f}", *count * machines)});
  } else {
    set_key(cluster, "gpus_per_node", *gpus);
  }
  return cluster;
}

Node with_gpus(const Node& machine, int gpus) {
  Node cluster = machine;
  set_key(cluster, "gpus", number(gpus, machine.position));
  set_key(cluster, "gpus_per_node", number(gpus, machine.position));
  return cluster;
}

// 1, 2, 4 ... and the most.
std::vector<int> doublings(int most) {
  std::vector<int> all;
  for (int n = 1; n < most; n *= 2) all.push_back(n);
  all.push_back(most);
  return all;
}

class Lister {
 public:
  Lister(RentQuestion& question, const Node& base, const DataFolder& data)
      : question_(question), base_(base), reader_(data, OpenPlans::all), data_(data) {}

  void list(std::size_t index, const RentSizes& sizes) {
    const Offer& offer = question_.offers[index];
    if (!exchange_rate(offer.price.currency, question_.currency, question_.exchange)) {
      question_.candidates.push_back({index, 1, std::nullopt,
                                      message("priced in {}, and there is no rate to {}; give one in exchange",
                                              offer.price.currency, question_.currency)});
      return;
    }
    if (offer.up_to_gpus > 0) {
      for (const int gpus : doublings(std::min(offer.up_to_gpus, sizes.most_gpus))) {
        add(index, gpus, with_gpus(offer.machine, gpus));
      }
      return;
    }
    for (const int machines : sizes.machines.empty() ? usual_counts(offer, sizes.most_gpus) : sizes.machines) {
      add(index, machines, cluster_of(offer.machine, machines));
    }
  }

  // What was wrong with offers that were left out, each once.
  const std::vector<Diagnostic>& faults() const { return faults_; }

 private:
  std::vector<int> usual_counts(const Offer& offer, int most_gpus) {
    Diagnostics ignored;
    const auto one = read_cluster(cluster_of(offer.machine, 1), data_, ignored);
    const bool joins = one && one->nics > 0 && one->nic_rate.value > 0;
    if (!joins) return {1};
    std::vector<int> all = {1};
    while (2 * all.back() * one->gpus <= most_gpus) all.push_back(2 * all.back());
    return all;
  }

  void add(std::size_t offer, int units, Node cluster) {
    RentQuestion::Candidate candidate{offer, units, std::nullopt, {}};
    const std::string text = canonical_text(cluster);
    if (const auto known = by_text_.find(text); known != by_text_.end()) {
      candidate.subject = known->second.subject;
      candidate.why_not = known->second.why_not;
    } else {
      read(std::move(cluster), question_.offers[offer].name, candidate);
      by_text_.emplace(text, candidate);
    }
    question_.candidates.push_back(std::move(candidate));
  }

  void read(Node cluster, const std::string& name, RentQuestion::Candidate& candidate) {
    Node described = base_;
    set_key(described, "cluster", std::move(cluster));
    Diagnostics said;
    auto subject = read_case(reader_, described, name, said);
    if (subject && subject->cluster.gpus > kMostRentedGpus) {
      candidate.why_not = message("{} GPUs; at most {} are tried", subject->cluster.gpus, kMostRentedGpus);
      return;
    }
    if (subject) {
      candidate.subject = question_.cases.size();
      question_.cases.push_back(std::move(*subject));
      return;
    }
    for (const Diagnostic& d : said.all()) {
      if (d.severity != Severity::error && d.severity != Severity::unsupported) continue;
      if (candidate.why_not.empty()) {
        candidate.why_not = d.severity == Severity::unsupported ? message("{} is not simulated", d.message) : d.message;
      }
      if (said_.insert(to_string(d)).second) faults_.push_back(d);
    }
  }

  RentQuestion& question_;
  const Node& base_;
  CaseReader reader_;
  const DataFolder& data_;
  std::map<std::string, RentQuestion::Candidate> by_text_;
  std::set<std::string> said_;
  std::vector<Diagnostic> faults_;
};

void repeat(const Diagnostic& d, Diagnostics& diagnostics) {
  if (d.severity == Severity::unsupported) {
    diagnostics.unsupported(d.position, d.message);
  } else {
    diagnostics.error(d.position, d.message);
  }
}

}  // namespace

void list_candidates(RentQuestion& question, const Node& base, const RentSizes& sizes, const DataFolder& data,
                     const SourcePosition& position, Diagnostics& diagnostics) {
  Lister lister(question, base, data);
  for (std::size_t offer = 0; offer < question.offers.size(); ++offer) {
    lister.list(offer, sizes);
    if (question.cases.size() > kMostSearches) {
      diagnostics.error(
          position, message("more than {} machines to try; name fewer offers or a smaller max_gpus", kMostSearches));
      return;
    }
  }
  if (!question.cases.empty()) return;
  // The job itself is at fault, or no offer is of any use: all that was wrong is said.
  for (const Diagnostic& fault : lister.faults()) repeat(fault, diagnostics);
  if (!diagnostics.has_errors()) {
    diagnostics.error(position, question.candidates.empty()
                                    ? message("there is no offer to choose from")
                                    : message("no offer can be compared: {} is {}",
                                              question.offers[question.candidates.front().offer].name,
                                              question.candidates.front().why_not));
  }
}

}  // namespace foretrain
