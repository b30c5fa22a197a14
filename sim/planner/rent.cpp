#include "sim/planner/rent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "sim/cost/kernel.h"
#include "sim/model/operators.h"
#include "sim/planner/why_not.h"

namespace foretrain {
namespace {

// Longer than anybody rents; also what never ends.
constexpr double kMostHours = 1e7;

double parameters_trained(const Case& c) {
  const Peft& peft = c.train.peft;
  if (!peft.active()) return static_cast<double>(c.model.parameters());
  double trained = peft.full_head ? static_cast<double>(c.model.head_parameters()) : 0.0;
  for (std::int64_t layer = 0; layer < c.model.layers; ++layer) {
    const LayerKind kind = c.model.layer_kind(layer);
    const LayerAdapters adapters = layer_adapters(c.model, peft, kind, 1, 1, c.software.lora_merged_projections);
    trained += adapters.parameters(peft.rank);
    if (kind.experts) trained += static_cast<double>(c.model.experts) * adapters.parameters_of_expert(peft.rank);
  }
  return trained;
}

// Weights and optimizer states of what is trained.
Bytes checkpoint_bytes(const Case& c) {
  const Software::StateBytes bytes = state_bytes(c.software, c.train, 0);
  return Bytes{parameters_trained(c) * (bytes.weights + bytes.optimizer)};
}

// What became of the search on one machine.
struct Found {
  std::optional<CaseReport> report;
  bool offloads = false;
  Message why_not;
};

class Renting {
 public:
  Renting(const RentQuestion& question, const Environment& environment, const RentOptions& options)
      : question_(question), environment_(environment), options_(options) {}

  RentAnswer answer() {
    RentAnswer answer;
    list();
    for (const std::size_t subject : cheapest_bounds_first()) {
      if (options_.progress) options_.progress(done_++, question_.cases.size());
      if (!worth_it(subject)) continue;
      const Found found = stopped() ? Found{} : search(question_.cases[subject]);
      if (stopped()) {  // also within the search
        answer.complete = false;
        for (RentCandidate* c : of_case_[subject]) {
          if (c->why_not.empty()) c->why_not = message("not looked at: the search was stopped");
        }
        continue;
      }
      ++answer.searched;
      for (RentCandidate* c : of_case_[subject]) {
        if (c->why_not.empty()) judge(*c, subject, found);
      }
    }
    for (RentCandidate& c : all_) {
      if (!c.report && c.why_not.empty()) leave_aside(c);
    }
    answer.candidates = std::move(all_);
    return answer;
  }

 private:
  bool stopped() const { return options_.stop != nullptr && *options_.stop; }

  const Offer& offer(const RentCandidate& c) const { return question_.offers[c.offer]; }

  void list() {
    all_.reserve(question_.candidates.size());
    of_case_.resize(question_.cases.size());
    for (const RentQuestion::Candidate& listed : question_.candidates) {
      RentCandidate& c = all_.emplace_back();
      c.offer = listed.offer;
      c.units = listed.units;
      c.why_not = listed.why_not;
      if (!listed.subject) continue;
      const Case& subject = question_.cases[*listed.subject];
      c.machines = subject.cluster.nodes();
      c.gpus = subject.cluster.gpus;
      if (offer(c).quote.status == Quote::Status::spot && !interrupted_every(c)) {
        c.why_not = message("spot, and nothing says how often it is taken back; write overhead.interrupted_every");
        continue;
      }
      settle(c, subject, least_training_hours(subject, environment_));
      of_case_[*listed.subject].push_back(&c);
    }
  }

  std::optional<double> interrupted_every(const RentCandidate& c) const {
    if (offer(c).interrupted_every_hours) return offer(c).interrupted_every_hours;
    return offer(c).quote.status == Quote::Status::spot ? question_.overhead.interrupted_every_hours : std::nullopt;
  }

  Interruptions interruptions(const RentCandidate& c, const Case& subject) const {
    const RentOverhead& overhead = question_.overhead;
    double per_hour = 0.0;
    for (const auto& every : {interrupted_every(c), overhead.fails_every_hours}) {
      if (every) per_hour += c.machines / *every;
    }
    const Bytes size = overhead.checkpoint.value_or(checkpoint_bytes(subject));
    Interruptions what;
    what.checkpoint = (size / overhead.checkpoint_rate).value / 3600.0;
    what.interval = overhead.checkpoint_every_hours;
    if (per_hour > 0) what.mean_time_between = 1.0 / per_hour;
    what.restart = overhead.restart_hours;
    return what;
  }

  JobTime job_time(const RentCandidate& c, const Case& subject, double training_hours) const {
    const RentOverhead& overhead = question_.overhead;
    JobTime time;
    time.setup = overhead.setup_hours;
    const auto line = offer(c).network ? offer(c).network : overhead.network;
    if (line) time.transfer = ((overhead.dataset + overhead.result) / *line).value / 3600.0;
    time.training = training_hours;
    return with_interruptions(time, interruptions(c, subject));
  }

  // What the price of an offer is to be multiplied by.
  double times(const RentCandidate& c) const {
    return c.units * *exchange_rate(offer(c).price.currency, question_.currency, question_.exchange);
  }
  Band cost(const RentCandidate& c, double hours) const { return offer(c).price.cost(hours) * times(c); }

  // Time and money of a job that trains for so long; what is known of a candidate before it is simulated, too.
  void settle(RentCandidate& c, const Case& subject, double training_hours) const {
    c.time = job_time(c, subject, training_hours);
    c.hours = c.time.total();
    c.money_range = cost(c, c.time.total());
    c.money = c.money_range.middle();
    c.money_per_billion_tokens = c.money / subject.train.tokens * 1e9;
    c.busy_per_billion_tokens =
        offer(c).price.per_hour().middle() * times(c) * training_hours / subject.train.tokens * 1e9;
  }

  std::vector<std::size_t> cheapest_bounds_first() const {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t subject = 0; subject < of_case_.size(); ++subject) {
      double least = std::numeric_limits<double>::infinity();
      for (const RentCandidate* c : of_case_[subject]) least = std::min(least, c->money);
      if (!of_case_[subject].empty()) order.emplace_back(least, subject);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::size_t> subjects;
    for (const auto& [money, subject] : order) subjects.push_back(subject);
    return subjects;
  }

  // A candidate that was found as fast and cheap as `c` would be at best.
  const RentCandidate* beats(const RentCandidate& c) const {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const RentCandidate& other) {
      return other.report && other.time.total() <= c.time.total() && other.money <= c.money;
    });
    return found == all_.end() ? nullptr : &*found;
  }

  bool worth_it(std::size_t subject) const {
    const auto& candidates = of_case_[subject];
    return std::any_of(candidates.begin(), candidates.end(), [&](const RentCandidate* c) { return !beats(*c); });
  }

  void leave_aside(RentCandidate& c) const {
    c.beaten = true;
    const RentCandidate& better = *beats(c);
    c.why_not = message("not simulated: at the peak of its GPUs it would still be slower and dearer than {}",
                        offer(better).name);
  }

  // Its tasks are not kept: there may be a hundred such reports.
  Found found_plan(CaseReport report) const {
    if (options_.add_error_bar) options_.add_error_bar(report);
    report.step = {};
    report.schedule = {};
    const bool offloads = report.subject.plan.offload.any();
    return {std::move(report), offloads, {}};
  }

  Found search(const Case& subject) const {
    Diagnostics said;
    PlannerOptions how;
    how.top = 1;
    how.threads = options_.threads;
    how.stop = options_.stop;
    const auto answer = find_plans(subject, environment_, how, said);
    if (!answer) return {{}, false, why_no_plan(said)};
    if (!answer->best.empty()) return found_plan(answer->best.front().report);
    if (!answer->nearest_miss) return {{}, false, message("no plan fits, or none can be simulated")};
    return {{},
            false,
            message("no plan fits: the nearest lacks {} GiB on each GPU",
                    fmt::format("{:.1f}", answer->nearest_miss->missing.value / kGiB))};
  }

  void judge(RentCandidate& c, std::size_t index, const Found& found) const {
    const Case& subject = question_.cases[index];
    if (!found.report) {
      c.why_not = found.why_not;
      return;
    }
    const CaseReport& report = *found.report;
    const double training = subject.train.tokens / report.tokens_per_second / 3600.0;
    settle(c, subject, training);
    if (!(c.time.total() < kMostHours)) {
      c.why_not =
          message("it would not end: interruptions throw it back faster than it gets on, or it takes a thousand years");
      return;
    }
    c.offloads = found.offloads;
    if (report.error_bar) {
      const double step = report.step_time.seconds();
      const JobTime low = job_time(c, subject, training * report.error_bar->low_s / step);
      const JobTime high = job_time(c, subject, training * report.error_bar->high_s / step);
      c.hours = {low.total(), high.total()};
    }
    c.money_range = {cost(c, c.hours.low).low, cost(c, c.hours.high).high};
    c.in_time = !question_.deadline_hours || c.time.total() <= *question_.deadline_hours;
    c.surely_in_time = !question_.deadline_hours || c.hours.high <= *question_.deadline_hours;
    c.in_budget = !question_.budget || c.money <= *question_.budget;
    c.report = report;
  }

  const RentQuestion& question_;
  const Environment& environment_;
  const RentOptions& options_;
  std::vector<RentCandidate> all_;
  std::vector<std::vector<RentCandidate*>> of_case_;
  std::size_t done_ = 0;
};

using Candidates = std::vector<RentCandidate>;

void sort_candidates(Candidates& all) {
  const auto key = [](const RentCandidate& c) {
    const int kind = c.report ? 0 : c.beaten ? 1 : 2;
    return kind < 2 ? std::tuple(kind, c.time.total(), c.money) : std::tuple(kind, 0.0, 0.0);
  };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

// In ascending order of hours, whoever is cheaper than all before.
void mark_front(Candidates& all) {
  double cheapest = std::numeric_limits<double>::infinity();
  for (RentCandidate& c : all) {
    if (!c.report) break;
    c.on_front = c.money < cheapest;
    cheapest = std::min(cheapest, c.money);
  }
}

// The first of those that `may` be chosen that is least by `key`.
template <class May, class Key>
std::optional<std::size_t> least(const Candidates& all, const May& may, const Key& key) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].report || !may(all[i])) continue;
    if (!best || key(all[i]) < key(all[*best])) best = i;
  }
  return best;
}

std::tuple<double, double> by_money(const RentCandidate& c) { return {c.money, c.time.total()}; }
std::tuple<double, double> by_hours(const RentCandidate& c) { return {c.time.total(), c.money}; }
bool anyone(const RentCandidate&) { return true; }

void choose(const RentQuestion& question, RentAnswer& answer) {
  const Candidates& all = answer.candidates;
  const auto answers = [](const RentCandidate& c) { return c.answers(); };
  const bool for_speed = question.budget && !question.deadline_hours;
  answer.best = for_speed ? least(all, answers, by_hours) : least(all, answers, by_money);
  answer.fastest = least(all, anyone, by_hours);
  answer.cheapest = least(all, anyone, by_money);
  if (!question.deadline_hours && !answer.best) return;
  answer.halved_deadline_hours = question.deadline_hours.value_or(answer.best ? all[*answer.best].time.total() : 0) / 2;
  answer.if_halved = least(
      all, [&](const RentCandidate& c) { return c.time.total() <= answer.halved_deadline_hours; }, by_money);
}

void compare_with_buying(const RentQuestion& question, RentAnswer& answer) {
  for (std::size_t i = 0; i < question.purchases.size(); ++i) {
    const Purchase& purchase = question.purchases[i];
    const auto rate = exchange_rate(purchase.currency, question.currency, question.exchange);
    const auto rented = least(
        answer.candidates,
        [&](const RentCandidate& c) {
          return c.report->subject.cluster.gpu.name == purchase.gpu && c.gpus % purchase.gpus == 0 &&
                 question.offers[c.offer].quote.status != Quote::Status::spot;
        },
        by_money);
    if (!rate || !rented) continue;
    const RentCandidate& c = answer.candidates[*rented];
    const Offer& offer = question.offers[c.offer];
    const double sets = c.gpus / purchase.gpus;
    const double watts = purchase.watts.value_or(c.report->subject.cluster.gpu.tdp_watts * purchase.gpus) * sets;
    const double to_currency = *exchange_rate(offer.price.currency, question.currency, question.exchange);
    RentAnswer::Bought bought{i, *rented, {}, 0.0};
    bought.against = break_even(purchase.cost * (*rate * sets), watts / 1000.0, question.ownership,
                                offer.price.cost(kHoursPerYear) * (c.units * to_currency / 12.0));
    bought.jobs = bought.against.months.middle() * kHoursPerMonth / c.time.total();
    answer.bought.push_back(bought);
  }
}

}  // namespace

double least_training_hours(const Case& subject, const Environment& environment) {
  const Case c = as_simulated(subject, environment);
  const MatrixRate matrix = matrix_rate(c.cluster.gpu, c.train.precision);
  const double rate = matrix.achieved * matrix.datasheet.value;
  const double passes = c.train.peft.active() ? 2.0 : 3.0;  // frozen weights have no gradient
  const double flops = passes * forward_flops(c.model, c.train.tokens, c.train.seq_len).layers.value;
  return flops / (rate * c.cluster.gpus) / 3600.0;
}

RentAnswer rent(const RentQuestion& question, const Environment& environment, const RentOptions& options) {
  RentAnswer answer = Renting(question, environment, options).answer();
  sort_candidates(answer.candidates);
  mark_front(answer.candidates);
  choose(question, answer);
  compare_with_buying(question, answer);
  return answer;
}

}  // namespace foretrain
