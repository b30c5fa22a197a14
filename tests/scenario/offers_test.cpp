// Offers: files, names, add-ons, currencies.

#include <doctest/doctest.h>

#include "sim/config/catalogue.h"
#include "sim/hardware/cluster_description.h"
#include "sim/scenario/offer_list.h"
#include "tests/scenario/support.h"
#include "tests/support/text.h"

using namespace foretrain;
using foretrain::testing::contains;
using foretrain::testing::kData;

namespace {

struct OfferReading {
  std::optional<OfferFile> file;
  std::string text;
};

std::string said(const Diagnostics& diagnostics) { return foretrain::testing::shown(diagnostics); }

OfferReading read_offer_file(const std::string& yaml) {
  Diagnostics diagnostics;
  OfferReading reading;
  if (const auto node = config::parse_yaml(yaml, "o", diagnostics)) {
    reading.file = read_offers(*node, "my/", kData, diagnostics);
  }
  reading.text = said(diagnostics);
  return reading;
}

struct Gathering {
  OfferFile all;
  std::string text;
};

Gathering gather(const std::string& yaml) {
  Diagnostics diagnostics;
  const auto node = config::parse_yaml(yaml, "q", diagnostics);
  REQUIRE(node);
  Gathering result;
  result.all = gather_offers(&*node, {kData, ""}, diagnostics);
  result.text = said(diagnostics);
  return result;
}

const char* const kOne =
    "currency: CNY\ndate: 2026-11\nsource: a seller\noffers:\n"
    "  - name: eight\n"
    "    machine: {gpu: a100-sxm4-80gb, gpus: 8, host: {dram_gb: 512}}\n"
    "    price: {per_month: [25000, 40000]}\n"
    "    add_ons: {ram: {amount: 600, machine: {host: {dram_gb: 1024}}}, line: {amount: 400, network: 1Gb/s},\n"
    "              again: {amount: -100}}\n";

}  // namespace

TEST_CASE("every offer of the catalogue is a machine, with its date and source") {
  Diagnostics diagnostics;
  const config::Catalogue catalogue(kData.path + "/configs/offers", "offer file");
  REQUIRE(catalogue.names().size() >= 8);
  std::size_t offers = 0, for_sale = 0;
  for (const std::string& name : catalogue.names()) {
    CAPTURE(name);
    const auto found = catalogue.find(name, {}, diagnostics);
    REQUIRE(found);
    const auto file = read_offers(*found->node, name + "/", kData, diagnostics);
    INFO(said(diagnostics));
    REQUIRE(file);
    offers += file->offers.size();
    for_sale += file->purchases.size();
    for (const Offer& offer : file->offers) {
      CAPTURE(offer.name);
      Diagnostics of_machine;
      const bool is_slice = offer.machine.find("mig") != nullptr;
      const bool reads = read_cluster(offer.machine, kData, of_machine).has_value();
      INFO(said(of_machine));
      CHECK((reads || is_slice));
      CHECK(offer.price.amount.low > 0);
    }
  }
  CHECK(offers > 120);
  CHECK(for_sale > 10);
}

TEST_CASE("an offer has the file's currency and quote, and whole months unless it says otherwise") {
  const OfferReading r = read_offer_file(kOne);
  INFO(r.text);
  REQUIRE(r.file);
  const Offer& offer = r.file->offers.at(0);
  CHECK(offer.name == "my/eight");
  CHECK(offer.price.currency == "CNY");
  CHECK(offer.price.whole_periods);
  CHECK(offer.quote.date == "2026-11");
  CHECK(offer.quote.source == "a seller");
  const OfferReading used =
      read_offer_file("date: d\nsource: s\noffers: [{name: a, machine: {gpu: t4-16gb, gpus: 1}, price: 1USD/h}]");
  REQUIRE(used.file);
  CHECK_FALSE(used.file->offers[0].price.whole_periods);
}

TEST_CASE("add-ons change the price and the machine") {
  const Offer offer = read_offer_file(kOne).file->offers.at(0);
  CHECK(offer.with({}).price.amount == Band(25000, 40000));
  const Offer more = offer.with({"ram", "line", "again", "of another"});
  CHECK(more.price.amount == Band(25900, 40900));
  CHECK(more.taken == std::vector<std::string>{"ram", "line", "again"});
  CHECK(more.machine.find("host")->find("dram_gb")->scalar() == "1024");
  CHECK(more.machine.find("gpu")->scalar() == "a100-sxm4-80gb");
  CHECK(more.network->value == doctest::Approx(1e9 / 8));
}

TEST_CASE("rates work both ways, and none is made up") {
  const std::vector<ExchangeRate> rates = {{"USD", "CNY", 7.0, "d", "s"}};
  CHECK(exchange_rate("USD", "CNY", rates) == 7.0);
  CHECK(*exchange_rate("CNY", "USD", rates) == doctest::Approx(1 / 7.0));
  CHECK(exchange_rate("EUR", "EUR", rates) == 1.0);
  CHECK_FALSE(exchange_rate("EUR", "USD", rates));
}

TEST_CASE("a list names files, offers and machines of its own") {
  CHECK(gather("idc10000").all.offers.size() == 12);
  const Gathering named =
      gather("[idc10000/t4, idc10000/t4, {name: own, machine: {node: dgx-a100-80g}, price: 9CNY/h}, purchases]");
  INFO(named.text);
  REQUIRE(named.all.offers.size() == 2);
  CHECK(named.all.offers[0].name == "idc10000/t4");
  CHECK(named.all.offers[1].name == "own");
  CHECK(named.all.purchases.size() > 10);
  for (const Offer& offer : gather("~").all.offers) CHECK(offer.quote.status != Quote::Status::historic);
  CHECK(gather("historic").all.offers.front().quote.status == Quote::Status::historic);
  CHECK(contains(gather("idc1000").text, "did you mean 'idc10000'"));
  CHECK(contains(gather("idc10000/t5").text, "there is no offer 't5' in idc10000; did you mean 't4'"));
  CHECK(contains(gather("none.yaml").text, "cannot be read"));
  CHECK(contains(gather("[[t4]]").text, "a name such as"));
}

TEST_CASE("wrong offers are refused with what would be right") {
  const auto offer = [](const std::string& text) {
    return read_offer_file("date: d\nsource: s\ncurrency: CNY\noffers: [{" + text + "}]").text;
  };
  const std::string machine = "name: a, machine: {gpu: t4-16gb, gpus: 1}, ";
  CHECK(contains(offer("name: a, price: 1CNY/h"), "machine is missing"));
  CHECK(contains(offer("name: a, machine: {gpu: t4-16gb}, price: 1CNY/h"), "machine.gpus is missing"));
  CHECK(
      contains(offer("name: a, machine: {node: dgx-a100-80g, nodes: 2}, price: 1CNY/h"), "an offer is of one machine"));
  CHECK(contains(offer("name: a, machine: {gpu: t4-16gb, gpus: 1}"), "price is missing"));
  CHECK(contains(offer("machine: {gpu: t4-16gb, gpus: 1}, price: 1CNY/h"), "name"));
  CHECK(contains(offer(machine + "price: 1CNY/h, status: rumour"), "official"));
  CHECK(contains(offer(machine + "price: 1CNY/h, add_ons: {ram: {}}"), "add_ons.ram.amount is missing"));
  CHECK(contains(offer(machine + "price: 1CNY/h, add_ons: {ram: {amount: 1, machine: 3}}"), "machine must be a map"));
  CHECK(contains(offer(machine + "price: 1CNY/h, add_ons: 3"), "add_ons must be a map"));
  CHECK(contains(offer(machine + "price: 1CNY/h, colour: red"), "colour"));
  CHECK(contains(read_offer_file("offers: [{" + machine + "price: 1CNY/h}]").text, "date is missing"));
  CHECK(contains(read_offer_file("title: nothing").text, "title"));
  CHECK(contains(read_offer_file("offers: 7").text, "must be a list"));
  CHECK(contains(read_offer_file("date: d\nsource: s\npurchases: [{name: a, gpu: t5, cost: 1, currency: CNY}]").text,
                 "t5"));
  CHECK(contains(read_offer_file("date: d\nsource: s\npurchases: [{name: a, gpu: t4-16gb}]").text, "cost is missing"));
  CHECK(contains(read_offer_file("exchange: [{from: USD}]\noffers: []").text, "exchange.rate"));
  CHECK(contains(read_offer_file("date: d\nsource: s\ncurrency: CNY\noffers: [{" + machine + "price: 1CNY/h}, {" +
                                 machine + "price: 1CNY/h}]")
                     .text,
                 "a second offer is called 'my/a'"));
}
