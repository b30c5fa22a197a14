#include "sim/analysis/memory_ladder.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

Ladder ladder_of(const LadderQuestion& question) {
  Diagnostics diagnostics;
  const auto ladder = memory_ladder(question, environment(), diagnostics);
  REQUIRE_MESSAGE(ladder, (diagnostics.all().empty() ? "" : to_string(diagnostics.all().front())));
  return *ladder;
}

const LadderRow& row(const Ladder& ladder, const std::string& how) {
  const auto found = std::find_if(ladder.rows.begin(), ladder.rows.end(),
                                  [&](const LadderRow& r) { return r.how.english().find(how) != std::string::npos; });
  REQUIRE(found != ladder.rows.end());
  return *found;
}

// AdamW in mixed precision on one GPU.
const LadderRow& full_row(const Ladder& ladder) {
  const auto found = std::find_if(ladder.rows.begin(), ladder.rows.end(),
                                  [](const LadderRow& r) { return r.how.english() == "AdamW"; });
  REQUIRE(found != ladder.rows.end());
  return *found;
}

double part(const LadderRow& row, const std::string& name) {
  for (const auto& [part, bytes] : row.parts) {
    if (part == name) return bytes.value;
  }
  return 0;
}

}  // namespace

TEST_CASE("a 7B model: 14 GB to serve, less than 24 to adapt, 112 and more to train") {
  const Ladder ladder = ladder_of({.model = "llama-2-7b"});
  const double n = static_cast<double>(ladder.model.parameters());
  CHECK(part(row(ladder, "16-bit"), "weights") == doctest::Approx(2 * n));
  CHECK(part(row(ladder, "16-bit"), "weights") / 1e9 == doctest::Approx(13.5).epsilon(0.01));
  const LadderRow& lora = row(ladder, "16-bit, rank");
  CHECK(lora.needed.value < 24e9);
  const LadderRow& full = full_row(ladder);
  CHECK(part(full, "weights") + part(full, "gradients") + part(full, "optimizer") ==
        doctest::Approx(16 * n).epsilon(0.001));
  CHECK(full.needed.value > 16 * n);

  const std::vector<std::string> rising = {"int4", "int8", "16-bit"};
  for (std::size_t i = 1; i < rising.size(); ++i)
    CHECK(row(ladder, rising[i - 1]).needed < row(ladder, rising[i]).needed);
  CHECK(row(ladder, "4-bit, rank").needed < lora.needed);
  CHECK(lora.needed < row(ladder, "8-bit AdamW").needed);
  CHECK(row(ladder, "8-bit AdamW").needed < full.needed);
  CHECK(row(ladder, "ZeRO-3").needed < row(ladder, "ZeRO-2").needed);
  CHECK(row(ladder, "ZeRO-2").needed < row(ladder, "ZeRO-1").needed);
  CHECK(row(ladder, "ZeRO-1").needed < full.needed);
  CHECK(row(ladder, "AdamW on CPU").host.value >= 12 * n);
}

TEST_CASE("parts add up, and every card named is large enough") {
  for (const char* model : {"llama-2-7b", "mixtral-8x7b", "deepseek-v2-lite", "gpt2"}) {
    CAPTURE(std::string(model));
    const Ladder ladder = ladder_of({.model = model, .seq_len = 1024, .cards = 4});
    for (const LadderRow& r : ladder.rows) {
      CAPTURE(r.how.english());
      if (!r.why_not.empty()) continue;
      Bytes sum;
      for (const auto& [name, bytes] : r.parts) sum += bytes;
      CHECK(sum.value == r.needed.value);
      for (const std::string& card : r.held_by) {
        Diagnostics diagnostics;
        const auto sheet = load_datasheet(data_folder(), card, {}, diagnostics);
        REQUIRE(sheet);
        CHECK(sheet->gpu.memory >= r.needed);
      }
    }
  }
}

TEST_CASE("training rows are what the simulation of the same case says") {
  const Ladder ladder = ladder_of({.model = "llama-2-7b", .seq_len = 1024, .micro_batch = 2});
  const CaseReport r =
      simulate_plainly(case_of("model: llama-2-7b\nsoftware: hf-deepspeed\n"
                               "cluster: {gpu: h100-sxm5-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
                               "train: {seq_len: 1024, global_batch: 16, precision: bf16, attention: flash2}\n"
                               "plan: {zero: 2, micro_batch: 2, recompute: full}"));
  CHECK(row(ladder, "ZeRO-2").needed.value == doctest::Approx(r.memory[0].needed.value));
}

TEST_CASE("what cannot be is said in its row, what is not there is an error") {
  const Ladder ladder = ladder_of({.model = "llama-2-7b", .software = "torch-ddp"});
  CHECK(row(ladder, "AdamW on CPU").why_not.english().find("does not offload the optimizer") != std::string::npos);
  CHECK(row(ladder, "AdamW on CPU").held_by.empty());
  CHECK(row(ladder_of({.model = "deepseek-v3"}), "16-bit").held_by.empty());  // 671e9 parameters
  Diagnostics diagnostics;
  CHECK_FALSE(memory_ladder({.model = "lama-2-7b"}, environment(), diagnostics));
  CHECK(diagnostics.has_errors());
  Diagnostics of_software;
  CHECK_FALSE(memory_ladder({.model = "llama-2-7b", .software = "deepsped"}, environment(), of_software));
  CHECK(of_software.has_errors());
}
