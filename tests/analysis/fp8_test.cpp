// fp8 recipes: what stays in bf16, what quantising costs, what is kept and sent.

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "sim/memory/ledger.h"
#include "sim/workload/layer_cost.h"
#include "tests/support/cases.h"
#include "tests/support/refused.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kBlockwise = "precision: fp8, fp8: {recipe: blockwise}";

std::string dense_job(const std::string& precision, const std::string& plan = "micro_batch: 1") {
  return "model: {arch: llama, layers: 8, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocab: 128256}\n"
         "software: megatron-core\n"
         "cluster: {gpu: h100-sxm5-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
         "train: {seq_len: 4096, global_batch: 8, attention: flash2, " +
         precision + "}\nplan: {" + plan + "}";
}

std::string expert_job(const std::string& precision, double gbps = 400) {
  return "model: {arch: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 4, vocab: 32000, experts: 64, top_k: 4, "
         "expert_ffn: 1408}\n"
         "software: megatron-core\n"
         "cluster: {gpu: h100-sxm5-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: " +
         std::to_string(gbps) +
         "}\n"
         "train: {seq_len: 4096, global_batch: 16, " +
         precision + "}\nplan: {ep: 16, etp: 1, zero: 0, overlap: {grad_reduce: false}}";
}

double seconds_of_step(const std::string& yaml) { return simulate_plainly(case_of(yaml)).step_time.seconds(); }

// Seconds of a layer's kernels in both passes, by what they belong to.
std::map<std::string, double> kernels_of_layer(const std::string& yaml) {
  const Case c = case_of(yaml);
  const LayerCosts costs(c);
  std::map<std::string, double> seconds;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const LayerStep& step : costs.layer(c.model.layer_kind(0), pass, false).steps)
      for (const Kernel& kernel : step.compute.kernels()) seconds[kernel.of] += kernel.time.total().value;
  }
  return seconds;
}

}  // namespace

TEST_CASE("linear layers run in fp8, and attention, router, norms and head as in bf16") {
  const std::set<std::string> quantised = {"qkv", "attention output", "experts in", "experts out", "mlp in", "mlp out"};
  for (const auto& job :
       {dense_job, +[](const std::string&precision, const std::string&) { return expert_job(precision); }}) {
    const auto wide = kernels_of_layer(job("precision: bf16", "micro_batch: 1")),
               narrow = kernels_of_layer(job(kBlockwise, "micro_batch: 1"));
    REQUIRE(wide.size() == narrow.size());
    int faster = 0;
    for (const auto& [of, seconds] : wide) {
      CAPTURE(of);
      if (quantised.contains(of)) {
        CHECK(narrow.at(of) < seconds);
        ++faster;
      } else {
        CHECK(narrow.at(of) == doctest::Approx(seconds));
      }
    }
    CHECK(faster == 4);
  }
  const Case sixteen = case_of(dense_job("precision: bf16")), eight = case_of(dense_job(kBlockwise));
  CHECK(LayerCosts(eight).head(Pass::backward).compute().total().value ==
        doctest::Approx(LayerCosts(sixteen).head(Pass::backward).compute().total().value));
}

TEST_CASE("a scale for every 128 elements makes casts and kept inputs 1/32 byte an element larger") {
  const auto quantising = [](const std::string& precision) {
    const Case c = case_of(dense_job(precision));
    double seconds = 0;
    const LayerCosts costs(c);
    for (const LayerStep& step : costs.layer(c.model.layer_kind(0), Pass::forward, false).steps)
      for (const Kernel& kernel : step.compute.kernels())
        if (std::string(kernel.what) == "quantise") seconds += kernel.time.memory.value;
    return seconds;
  };
  // Read in 16 bits; written once, or along rows and along columns, each with its scales.
  CHECK(quantising(kBlockwise) / quantising("precision: fp8, fp8: {recipe: per-tensor}") ==
        doctest::Approx((2 + 2 * (1 + 4.0 / 128)) / (2 + 1.0)));
  const auto kept = [](const std::string& precision) {
    const Case c = case_of(dense_job(precision));
    return kept_activations_of_layer(c, false, c.model.layer_kind(0)).value;
  };
  const double inputs = 4096.0 * (2 * 4096 + 14336);  // tokens; of Q, K and V, of the MLP, of its down projection
  CHECK(kept("precision: bf16") - kept(kBlockwise) == doctest::Approx(inputs * (2 - 1 - 4.0 / 128)));
  CHECK(kept("precision: bf16") - kept("precision: fp8, fp8: {recipe: per-tensor}") == doctest::Approx(inputs));
}

TEST_CASE("a blockwise recipe costs more than one of tensors, and both less than bf16") {
  const double bf16 = seconds_of_step(dense_job("precision: bf16")), block = seconds_of_step(dense_job(kBlockwise)),
               tensor = seconds_of_step(dense_job("precision: fp8, fp8: {recipe: per-tensor}"));
  CHECK(tensor < block);
  CHECK(block < bf16);
}

TEST_CASE("tokens travel to their experts in fp8 with their scales, and back in 16 bits") {
  // NICs so slow that nothing else matters.
  const auto exchanged = [](const std::string& more) {
    return simulate_plainly(case_of(expert_job("precision: fp8, fp8: {recipe: blockwise" + more + "}", 1)))
        .breakdown[Cause::ep_comm]
        .seconds();
  };
  const double wide = exchanged(""), narrow = exchanged(", dispatch: true");
  CHECK(narrow / wide == doctest::Approx((1 + 4.0 / 128 + 2) / (2 + 2)).epsilon(0.02));
  CHECK(exchanged(", dispatch: false") == wide);
  // Quantised once a token instead of once a copy, and half of the permutation moves narrower rows.
  const auto sent_wide = kernels_of_layer(expert_job(kBlockwise)),
             sent_narrow = kernels_of_layer(expert_job("precision: fp8, fp8: {recipe: blockwise, dispatch: true}"));
  CHECK(sent_narrow.at("tokens") < sent_wide.at("tokens"));
  CHECK(sent_narrow.at("experts in") < sent_wide.at("experts in"));
}

TEST_CASE("weights are gathered as fp8 with a scale for every 128 x 128 of them") {
  const auto gathered = [](const std::string& fp8) {
    const Case c = case_of(dense_job("precision: fp8, fp8: {" + fp8 + "}", "zero: 3, micro_batch: 1"));
    return gathered_weight_bytes(c.train, 1e6, 1e6);
  };
  CHECK(gathered("recipe: blockwise") == 2e6);
  CHECK(gathered("recipe: per-tensor, parameter_gather: true") == 1e6);
  CHECK(gathered("recipe: blockwise, parameter_gather: true") == doctest::Approx(1e6 * (1 + 4.0 / 16384)));
}

TEST_CASE("a recipe of fp8 is refused where nothing is fp8") {
  CHECK(refused(dense_job("precision: bf16, fp8: {dispatch: true}"), "train.fp8 is a recipe of precision fp8"));
}
