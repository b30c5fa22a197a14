#include <doctest/doctest.h>

#include <random>

#include "sim/cost/kernel.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

Gpu card_named(const std::string& name) {
  Diagnostics diagnostics;
  const auto card = load_gpu(data_folder(), name, {}, diagnostics);
  REQUIRE(card.has_value());
  return *card;
}

std::string slice(const std::string& mig, int gpus, int micro_batch) {
  return "model: gpt2-medium\nsoftware: torch-ddp\ntrain: {seq_len: 1024, precision: bf16, global_batch: " +
         std::to_string(gpus * micro_batch) + "}\nplan: {recompute: none, micro_batch: " + std::to_string(micro_batch) +
         "}\ncluster: {gpu: a100-sxm4-80gb, gpus: " + std::to_string(gpus) + (mig.empty() ? "" : ", mig: " + mig) +
         "}\n";
}

double tokens_per_second(const std::string& yaml) { return simulate_plainly(case_of(yaml)).tokens_per_second; }

}  // namespace

TEST_CASE("a card does a kernel no slower than its slices do their parts of it") {
  std::mt19937 random(20260);
  const auto pick = [&](int most) { return 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(most)); };
  for (const char* name : {"a100-sxm4-40gb", "a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "a30-24gb"}) {
    const Gpu card = card_named(name);
    for (const MigProfile& profile : card.mig->profiles) {
      // A slice of the whole has fewer SMs than the card and all the bandwidth, which helps kernels that wait for it.
      if (profile.memory_slices == card.mig->memory_slices) continue;
      const Gpu part = slice_of(card, profile);
      const int slices = card.mig->most(profile);
      for (int trial = 0; trial < 40; ++trial) {
        const Gemm of_slice{1, pick(4096), pick(8192), pick(8192), false, 2, false};
        Gemm of_card = of_slice;
        of_card.m *= slices;
        CAPTURE(name);
        CAPTURE(profile.name);
        CHECK(gemm_time(card, Precision::bf16, of_card).total() <=
              gemm_time(part, Precision::bf16, of_slice).total() * (1 + 1e-9));
        const Bytes bytes{static_cast<double>(pick(1 << 30))};
        CHECK(streaming_time(card, bytes * slices, 3).total() <= streaming_time(part, bytes, 3).total() * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("a larger slice is never slower, and seven small ones do less than the card") {
  double before = 0;
  for (const char* mig : {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", ""}) {
    CAPTURE(mig);
    const double speed = tokens_per_second(slice(mig, 1, 1));
    CHECK(speed >= before);
    before = speed;
  }
  const double one = tokens_per_second(slice("1g.10gb", 1, 1)), card = tokens_per_second(slice("", 1, 7));
  CHECK(7 * one < card);
  // Joined they also wait for one another's gradients, through host memory and one PCIe link.
  CHECK(tokens_per_second(slice("1g.10gb", 7, 1)) < 7 * one);
}

TEST_CASE("folding slices changes no picosecond") {
  for (const char* mig : {"1g.10gb", "[4g.40gb, 2g.20gb, 1g.10gb]"}) {
    CAPTURE(mig);
    const Case subject = case_of(slice(mig, 6, 1));
    const CaseReport folded = simulate_plainly(subject);
    CHECK(folded.step_time == simulate_plainly(subject, Communicators::Folding::none).step_time);
    CHECK(folded.step.simulated_ranks < 6);
  }
  // Copies to the host share a card's link, and the single engine of a small slice.
  const Case offloading = case_of(
      "model: gpt2-medium\nsoftware: deepspeed\ntrain: {seq_len: 512, precision: bf16, global_batch: 14}\n"
      "plan: {zero: 3, micro_batch: 1, offload: optimizer+params}\ncluster: {gpu: a100-sxm4-80gb, gpus: 14, mig: "
      "1g.10gb, host: {dram_gb: 512}}\n");
  const CaseReport folded = simulate_plainly(offloading);
  CHECK(folded.step_time == simulate_plainly(offloading, Communicators::Folding::none).step_time);
  CHECK(folded.step.simulated_ranks < 14);
}
