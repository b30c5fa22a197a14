#include <doctest/doctest.h>

#include <string>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

// Two nodes, the halves of every sequence on either, behind NICs so slow that nothing else matters.
CaseReport over_slow_nics(const std::string& heads, const std::string& plan) {
  Case c = case_of("model: {arch: llama, layers: 2, hidden: 2048, heads: 16, head_dim: 128, ffn: 5632, vocab: 32000, " +
                   heads +
                   "}\nsoftware: megatron-core\n"
                   "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 1, "
                   "net: infiniband}\ntrain: {seq_len: 2048, global_batch: 8, precision: bf16}\n"
                   "plan: {micro_batch: 1, cp: 2, order: tp-dp-ep-cp-pp, overlap: {grad_reduce: false}, " +
                   plan + "}");
  c.software = without_overheads(c.software);
  return simulate_plainly(c);
}

double exchanged(const CaseReport& r) { return r.breakdown[Cause::cp_comm].seconds(); }

}  // namespace

TEST_CASE("dealing out heads moves queries, keys, values and the output, there and back") {
  const double rate = 1e9 / 8 * environment().link_rates.rdma;
  const double tokens = 1024, queries = 16 * 128;
  const auto expected = [&](double kv_heads) {
    // Half of what a rank has goes to the other: Q, K, V and the output forward, their gradients backward, in two
    // layers.
    const double elements = queries + 2 * kv_heads * 128 + queries;
    return 2 * 2 * elements * tokens * 2 / 2 / rate;
  };
  CHECK(exchanged(over_slow_nics("kv_heads: 16", "cp_kind: ulysses")) == doctest::Approx(expected(16)).epsilon(0.02));
  CHECK(exchanged(over_slow_nics("kv_heads: 4", "cp_kind: ulysses")) == doctest::Approx(expected(4)).epsilon(0.02));
  // One key-value head is copied for each of the two ranks.
  CHECK(exchanged(over_slow_nics("kv_heads: 1", "cp_kind: ulysses")) == doctest::Approx(expected(2)).epsilon(0.02));
}

TEST_CASE("few key-value heads are cheaper to gather than all heads to deal out") {
  CHECK(exchanged(over_slow_nics("kv_heads: 2", "cp_kind: all-gather")) <
        exchanged(over_slow_nics("kv_heads: 2", "cp_kind: ulysses")));
  CHECK(exchanged(over_slow_nics("kv_heads: 16", "cp_kind: all-gather")) >
        exchanged(over_slow_nics("kv_heads: 16", "cp_kind: ulysses")));
}

TEST_CASE("what a rank keeps does not depend on how it sees the others' keys") {
  const auto kept = [](const std::string& heads, const std::string& kind) {
    const CaseReport r = over_slow_nics(heads, "cp_kind: " + kind);
    return kept_activations_of_layer(r.subject, false, {}).value;
  };
  CHECK(kept("kv_heads: 16", "ring") == kept("kv_heads: 16", "ulysses"));
  CHECK(kept("kv_heads: 2", "ring") == kept("kv_heads: 2", "ulysses"));
  CHECK(kept("kv_heads: 1", "ring") < kept("kv_heads: 1", "ulysses"));  // its copies are kept
}
