// What to rent: the answer against every candidate, and what must not happen when prices, deadlines and budgets change.

#include "sim/planner/rent.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "tests/support/cases.h"
#include "tests/support/effort.h"

using namespace foretrain;
using foretrain::testing::data_folder;
using foretrain::testing::environment;

namespace {

// A small model on machines of several kinds.
std::string question_text(const std::vector<std::string>& offers, const std::string& more = "") {
  return fmt::format(
      "base:\n  model: {{arch: llama, layers: 4, hidden: 1024, heads: 8, ffn: 2816, vocab: 32000}}\n"
      "  train: {{seq_len: 512, global_batch: 32, tokens: 4e9}}\n  software: deepspeed\n"
      "rent: {{offers: [{}], max_gpus: 16{}}}\n",
      fmt::join(offers, ", "), more.empty() ? "" : ", " + more);
}

RentQuestion question_of(const std::string& yaml) {
  Diagnostics diagnostics;
  const auto root = config::parse_yaml(yaml, "q", diagnostics);
  auto question = root ? read_rent_question(*root, "", data_folder(), diagnostics) : std::nullopt;
  if (!question) throw std::runtime_error(to_string(diagnostics.all().front()) + "\n" + yaml);
  return *question;
}

RentAnswer answer_to(const std::string& yaml, int threads = 1) {
  RentOptions options;
  options.threads = threads;
  return rent(question_of(yaml), environment(), options);
}

std::string offer(const std::string& name, const std::string& machine, const std::string& price) {
  return fmt::format("{{name: {}, machine: {}, price: {}}}", name, machine, price);
}

const std::string kA100 = "{gpu: a100-sxm4-40gb, gpus: 8, intra: nvswitch, nics: 4, nic_gbps: 100, net: infiniband}";
const std::vector<std::string> kMachines = {kA100, "{gpu: rtx3090-24gb, gpus: 1}", "{gpu: t4-16gb, gpus: 1}",
                                            "{gpu: h100-pcie-80gb, gpus: 1}", "{gpu: l4-24gb, gpus: 4}"};

std::vector<std::string> random_offers(std::mt19937& random) {
  std::uniform_real_distribution<double> amount(0.5, 30);
  std::vector<std::string> offers;
  for (std::size_t i = 0; i < kMachines.size(); ++i) {
    const bool monthly = random() % 3 == 0;
    const double price = amount(random) * (monthly ? 300 : 1);
    offers.push_back(
        offer(fmt::format("o{}", i), kMachines[i], fmt::format("{:.3f}USD/{}", price, monthly ? "month" : "hour")));
  }
  return offers;
}

}  // namespace

TEST_CASE("the front holds all that no other is both faster and cheaper than, and no bound exceeds the simulation") {
  std::mt19937 random(3);
  int beaten = 0;
  for (int problem = 0; problem < (foretrain::testing::kSanitized ? 1 : 6); ++problem) {
    const auto offers = random_offers(random);
    const RentQuestion question = question_of(question_text(offers));
    const RentAnswer answer = rent(question, environment(), {});
    REQUIRE(answer.best);
    for (const RentCandidate& c : answer.candidates) {
      beaten += c.beaten;
      if (!c.report) continue;
      const bool dominated = std::any_of(answer.candidates.begin(), answer.candidates.end(), [&](const auto& other) {
        return other.report && other.time.total() <= c.time.total() && other.money < c.money;
      });
      CHECK(c.on_front == !dominated);
      CHECK(c.money_range.low <= c.money);
      CHECK(c.money <= c.money_range.high);
    }
    // Each case by itself: nothing was pruned that would have been on the front.
    for (std::size_t i = 0; i < question.cases.size(); ++i) {
      Diagnostics diagnostics;
      const auto plans = find_plans(question.cases[i], environment(), {.top = 1}, diagnostics);
      REQUIRE(plans);
      REQUIRE(!plans->best.empty());
      const double hours = question.cases[i].train.tokens / plans->best.front().report.tokens_per_second / 3600;
      CHECK(least_training_hours(question.cases[i], environment()) <= hours);
      for (const RentQuestion::Candidate& listed : question.candidates) {
        if (listed.subject != i) continue;
        const Price& price = question.offers[listed.offer].price;
        const double money = price.cost(hours).middle() * listed.units;
        CHECK(std::any_of(answer.candidates.begin(), answer.candidates.end(), [&](const auto& c) {
          return c.report && c.time.total() <= hours * (1 + 1e-12) && c.money <= money * (1 + 1e-12);
        }));
      }
    }
  }
  CHECK(beaten > 0);
}

TEST_CASE("half the deadline is never cheaper, more budget never slower, a cheaper offer never dearer") {
  std::mt19937 random(5);
  for (int problem = 0; problem < (foretrain::testing::kSanitized ? 1 : 6); ++problem) {
    auto offers = random_offers(random);
    const auto ask = [&](const std::string& more) { return answer_to(question_text(offers, more)); };
    const RentAnswer free = ask("");
    const double hours = free.candidates[*free.cheapest].time.total(), money = free.candidates[*free.cheapest].money;
    const auto money_of = [](const RentAnswer& a) {
      return a.best ? a.candidates[*a.best].money : std::numeric_limits<double>::infinity();
    };
    double before = money;
    for (double deadline = hours; deadline > hours / 20; deadline /= 2) {
      const RentAnswer answer = ask(fmt::format("deadline: {:.6f}h", deadline));
      CHECK(money_of(answer) >= before);
      before = money_of(answer);
      // What was said of half the time is what comes out when it is asked.
      const RentAnswer halved = ask(fmt::format("deadline: {:.9f}h", answer.halved_deadline_hours));
      const double foreseen =
          answer.if_halved ? answer.candidates[*answer.if_halved].money : std::numeric_limits<double>::infinity();
      CHECK(money_of(halved) == foreseen);
    }
    double slowest = std::numeric_limits<double>::infinity();
    for (double budget = money; budget < 40 * money; budget *= 2) {
      const RentAnswer answer = ask(fmt::format("budget: {:.12f}USD", budget * (1 + 1e-9)));
      REQUIRE(answer.best);
      const double taken = answer.candidates[*answer.best].time.total();
      CHECK(taken <= slowest);
      CHECK(answer.candidates[*answer.best].money <= budget * (1 + 1e-9));
      slowest = taken;
    }
    const std::size_t cut = random() % offers.size();
    offers.push_back(offer("cheaper", kMachines[cut], "0.4USD/hour"));
    CHECK(money_of(ask("")) <= money);
  }
}

TEST_CASE("a job of days pays the month, and one of hours the hours") {
  const std::string month = "{per_month: 1000, currency: USD}";
  const RentAnswer answer = answer_to(question_text({offer("month", "{gpu: rtx3090-24gb, gpus: 1}", month),
                                                     offer("hour", "{gpu: rtx3090-24gb, gpus: 1}", "2USD/h")}));
  REQUIRE(answer.candidates.size() == 2);
  for (const RentCandidate& c : answer.candidates) {
    REQUIRE(c.report);
    REQUIRE(c.time.total() < kHoursPerMonth);
    const double expected = c.offer == 0 ? 1000 : 2 * c.time.total();
    CHECK(c.money == doctest::Approx(expected));
    CHECK(c.money_per_billion_tokens == doctest::Approx(expected / 4));
    const double an_hour = c.offer == 0 ? 1000 / kHoursPerMonth : 2;
    CHECK(c.busy_per_billion_tokens == doctest::Approx(an_hour * c.time.training / 4));
  }
}

TEST_CASE("set-up, copying and interruptions are paid and count against the deadline") {
  const std::string overhead =
      "overhead: {setup: 2h, dataset: 300GB, result: 60GB, network: 1Gb/s, interrupted_every: 5h, restart: 30min, "
      "checkpoint: {size: 100GB, rate: 1GB/s}}";
  std::string spot = offer("spot", "{gpu: rtx3090-24gb, gpus: 1}", "1USD/h");
  spot.insert(spot.size() - 1, ", status: spot");
  const std::string plain = offer("plain", "{gpu: rtx3090-24gb, gpus: 1}", "1USD/h");
  const RentAnswer answer = answer_to(question_text({spot, plain}, overhead));
  REQUIRE(answer.candidates.size() == 2);
  const RentCandidate &quick = answer.candidates[0], &slow = answer.candidates[1];
  CHECK(quick.offer == 1);
  CHECK(quick.time.setup == 2);
  CHECK(quick.time.transfer == doctest::Approx(360e9 / (1e9 / 8) / 3600));
  CHECK(quick.time.interruptions == 0);
  CHECK(quick.money == doctest::Approx(quick.time.total()));
  CHECK(slow.time.training == quick.time.training);
  CHECK(slow.time.interruptions > 0);
  CHECK(slow.time.checkpoints > 0);
  // Of a spot machine somebody has to say how often it is taken back.
  const RentAnswer unsaid = answer_to(question_text({spot, plain}));
  CHECK_FALSE(unsaid.candidates[1].report);
  CHECK(unsaid.candidates[1].why_not.english().find("interrupted_every") != std::string::npos);
}

TEST_CASE("what does not fit is offloaded, or left out with what it lacks") {
  const std::string base =
      "base:\n  model: llama-2-7b\n  train: {seq_len: 512, global_batch: 4, tokens: 1e6, precision: bf16}\n"
      "  software: deepspeed\n  plan: {micro_batch: 1, recompute: full}\nrent: {offers: [";
  const std::string card = "{gpu: rtx3090-24gb, gpus: 1, host: {dram_gb: ";
  const RentAnswer answer = answer_to(base + offer("large", card + "256}}", "1USD/h") + ", " +
                                      offer("small", card + "32}}", "1USD/h") + "]}");
  REQUIRE(answer.candidates.size() == 2);
  REQUIRE(answer.candidates[0].report);
  CHECK(answer.candidates[0].offloads);
  CHECK(answer.candidates[0].report->fits);
  CHECK_FALSE(answer.candidates[1].report);
  CHECK(answer.candidates[1].why_not.english().find("fits") != std::string::npos);
}

TEST_CASE("a step of more passes than are simulated is left out, and not begun") {
  const std::string base =
      "base:\n  model: llama-2-7b\n  train: {seq_len: 512, global_batch: 1e9, tokens: 1e15, precision: bf16}\n"
      "  software: deepspeed\nrent: {offers: [";
  const RentAnswer answer = answer_to(base + offer("one", "{gpu: h100-pcie-80gb, gpus: 1}", "1USD/h") + "]}");
  REQUIRE(answer.candidates.size() == 1);
  CHECK_FALSE(answer.candidates[0].report);
  CHECK_FALSE(answer.candidates[0].why_not.empty());
}

TEST_CASE("owning is compared with the cheapest machine of the same GPUs") {
  const std::string buy =
      "ownership: {residual: 0.5}, buy: [{name: card, gpu: h100-pcie-80gb, cost: 25000, currency: USD, power: 0W}, "
      "{name: other, gpu: mi300x-192gb, cost: 1, currency: USD}]";
  const RentAnswer answer =
      answer_to(question_text({offer("dear", kMachines[3], "4USD/h"), offer("cheap", kMachines[3], "2USD/h")}, buy));
  REQUIRE(answer.bought.size() == 1);
  CHECK(answer.candidates[answer.bought[0].candidate].offer == 1);
  CHECK(answer.bought[0].against.months.low == doctest::Approx(12500.0 / (2 * kHoursPerMonth)));
  CHECK(answer.bought[0].jobs == doctest::Approx(6250.0 / answer.candidates[answer.bought[0].candidate].time.total()));
}

TEST_CASE("the answer does not depend on the threads") {
  std::mt19937 random(9);
  const auto offers = random_offers(random);
  const RentAnswer one = answer_to(question_text(offers), 1), three = answer_to(question_text(offers), 3);
  REQUIRE(one.candidates.size() == three.candidates.size());
  CHECK(one.best == three.best);
  for (std::size_t i = 0; i < one.candidates.size(); ++i) {
    CHECK(one.candidates[i].offer == three.candidates[i].offer);
    CHECK(one.candidates[i].time.total() == three.candidates[i].time.total());
    CHECK(one.candidates[i].money == three.candidates[i].money);
  }
}
