#include "sim/hardware/host_rates.h"

#include <doctest/doctest.h>

#include "sim/config/tree.h"

using namespace foretrain;

namespace {

HostRates committed() {
  Diagnostics diagnostics;
  auto rates = load_host_rates({FORETRAIN_SOURCE_DIR}, diagnostics);
  for (const Diagnostic& d : diagnostics.all()) MESSAGE(to_string(d));
  REQUIRE(rates);
  return *rates;
}

}  // namespace

TEST_CASE("hosts: pageable copies are slower than pinned ones, writes than reads, and newer generations are faster") {
  const HostRates rates = committed();
  for (int generation = 3; generation <= 5; ++generation) {
    CHECK(rates.pageable_copy.at(generation) < rates.pinned_copy.at(generation));
    CHECK(rates.nvme_write.at(generation) < rates.nvme_read.at(generation));
  }
  CHECK(rates.pinned_copy.at(3) < rates.pinned_copy.at(4));
  CHECK(rates.pinned_copy.at(4) < rates.pinned_copy.at(5));
}

TEST_CASE("hosts: a drive reaches half of its rate at half_in_flight, and all of it with a deep queue") {
  const HostRates rates = committed();
  const BytesPerSecond large = gigabytes_per_second(6);
  CHECK(nvme_rate(large, rates.nvme_half_in_flight, 1, rates).value == doctest::Approx(3e9));
  CHECK(nvme_rate(large, rates.nvme_half_in_flight, 1000, rates).value == doctest::Approx(6e9).epsilon(0.002));
  double before = 0;
  for (const double depth : {1, 2, 4, 8, 16, 64}) {
    const double rate = nvme_rate(large, {65536}, depth, rates).value;
    CHECK(rate > before);
    CHECK(rate < large.value);
    before = rate;
  }
}

TEST_CASE("hosts: Adam is bound by cores or by memory, and grows with the parameters") {
  const HostRates::Adam code{{10e-9}, {28}, 0.5};
  const BytesPerSecond dram = gigabytes_per_second(280);
  // 1e9 parameters: 10 s of core time; 28 GB at 140 GB/s are 0.2 s.
  CHECK(adam_time(code, 1e9, 1, dram).value == doctest::Approx(10));
  CHECK(adam_time(code, 1e9, 20, dram).value == doctest::Approx(0.5));
  CHECK(adam_time(code, 1e9, 200, dram).value == doctest::Approx(0.2));
  CHECK(adam_time(code, 2e9, 200, dram).value == doctest::Approx(0.4));
  const HostRates rates = committed();
  // ZeRO-Offload, arXiv 2101.06840: 1e9 parameters on two Xeon 8168 in 0.22 s, PyTorch of then 1.39 s.
  CHECK(adam_time(rates.deepspeed, 1e9, 48, gigabytes_per_second(256)).value == doctest::Approx(0.22).epsilon(0.25));
  CHECK(adam_time(rates.torch_2020, 1e9, 48, gigabytes_per_second(256)).value == doctest::Approx(1.39).epsilon(0.1));
}

TEST_CASE("hosts: what is wrong with the file is reported, all of it") {
  Diagnostics diagnostics;
  const auto node =
      config::parse_yaml("copy: {pinned: {gen3: 12}}\nnvme: {queue_depth: 0}\nother: 1\n", "h.yaml", diagnostics);
  REQUIRE(node);
  CHECK_FALSE(read_host_rates(*node, diagnostics));
  CHECK(diagnostics.error_count() > 8);
}
