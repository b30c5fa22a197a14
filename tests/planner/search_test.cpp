// Searches against exhaustive simulation of their spaces, over random small problems.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "sim/planner/bounds.h"
#include "sim/planner/planner.h"
#include "sim/planner/scale.h"
#include "sim/planner/space.h"
#include "tests/support/cases.h"
#include "tests/support/effort.h"

using namespace foretrain;
using foretrain::testing::case_of;
using foretrain::testing::environment;
using foretrain::testing::kSanitized;

namespace {

class Problems {
 public:
  enum class Gpus { alike, unlike };
  Problems(std::uint32_t seed, Gpus gpus) : gpus_(gpus), random_(seed) {}

  Case next() {
    const int heads = pick({2, 4});
    const std::string arch = pick({"gpt", "llama", "llama", "moe"});
    const std::string experts = arch == "moe" ? ", experts: 4, top_k: 2, expert_ffn: 256" : "";
    const std::string model = fmt::format(
        "{{arch: {}, layers: {}, hidden: {}, heads: {}, ffn: {}, vocab: {}, max_positions: 512, tied_embeddings: "
        "{}{}}}",
        arch, pick({3, 4, 8}), heads * pick({64, 128}), heads, pick({512, 1024}), pick({1024, 32000}),
        pick({"true", "false"}), experts);
    const std::string cluster =
        gpus_ == Gpus::unlike
            ? unlike_cluster()
            : pick<std::string>(
                  {"{gpu: a100-sxm4-80gb, gpus: 4, gpus_per_node: 4, intra: nvswitch}",
                   "{gpu: a100-pcie-40gb, gpus: 4, gpus_per_node: 4, intra: pcie}",
                   "{gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 4, intra: nvswitch, nics: 4, nic_gbps: 200, net: "
                   "infiniband}",
                   "{gpu: h100-sxm5-80gb, gpus: 4, gpus_per_node: 2, intra: pcie, nics: 1, nic_gbps: 100, net: roce}",
                   "{gpu: rtx-4090-24gb, gpus: 4, gpus_per_node: 2, intra: pcie, nics: 1, nic_gbps: 10, net: "
                   "ethernet}"});
    const std::string software = pick({"megatron-core", "megatron-lm\nsoftware_version: zero bubble", "megatron-lm",
                                       "deepspeed", "torch-fsdp", "torch-ddp", "other", "hai-llm"});
    Case c = case_of(fmt::format(
        "model: {}\ncluster: {}\nsoftware: {}\ntrain: {{seq_len: {}, global_batch: 8, "
        "precision: {}, attention: {}, peft: {}}}",
        model, cluster, software, pick({128, 256, 512}), pick({"bf16", "fp16"}), pick({"flash2", "standard"}),
        arch == "moe" ? "none" : pick({"none", "none", "{kind: lora, rank: 8}"})));
    c.train.clip_gradients = pick({true, true, false});
    if (pick({0, 0, 1}) == 1) {  // little host memory, but drives
      c.cluster.host.dram = Bytes{pick({2e7, 2e8, 1.5e9})};
      c.cluster.host.nvme_read = c.cluster.host.nvme_write = BytesPerSecond{3e9};
    }
    c.open_plan = PlanRequest{};
    if (pick({0, 1}) == 1) c.open_plan->overlap_grad_reduce = pick({true, false});
    if (pick({0, 1}) == 1) c.open_plan->overlap_p2p = pick({true, false});
    return c;
  }

 private:
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  // Nodes of other GPUs, single slow ones, spread speeds, less memory.
  std::string unlike_cluster() {
    const std::string two_nodes = fmt::format(
        "{{gpu: a100-sxm4-80gb, gpus: {}, gpus_per_node: {}, intra: nvswitch, nics: 2, nic_gbps: 200, net: infiniband",
        pick({4, 8}), 2);
    const std::string one_node = "{gpu: a100-sxm4-80gb, gpus: 4, gpus_per_node: 4, intra: nvswitch";
    return pick<std::string>({two_nodes + ", overrides: [{gpu: h100-sxm5-80gb, node: 1}]}",
                              two_nodes + ", overrides: [{gpu: a100-sxm4-40gb, node: 0}, {node: 1, factor: 0.6}]}",
                              two_nodes + ", overrides: [{node: 1, index: 0, factor: 0.5}]}",
                              one_node + ", overrides: [{gpu: a100-sxm4-40gb, node: 0, index: 1}, {node: 0, index: 3, "
                                         "power_limit_w: 200}]}",
                              one_node + ", jitter: {sigma: 0.2, seed: 5}}"});
  }

  Gpus gpus_;
  std::mt19937 random_;
};

// The space of a case and what judges it.
struct Judged {
  explicit Judged(const Case& c)
      : simulated(as_simulated(c, environment())),
        cluster(simulated.cluster, environment().link_rates),
        space(simulated, cluster, environment().collectives) {}

  Case simulated;
  Cluster cluster;
  PlanSpace space;
};

// The values that the plans of all spaces take, by the name of what is varied.
using Varied = std::map<std::string, std::set<int>>;

void note(Varied& varied, const PlanChoice& c) {
  const auto add = [&varied](const char* name, auto value) { varied[name].insert(static_cast<int>(value)); };
  add("tp", c.tp), add("cp", c.cp), add("pp", c.pp), add("vpp", c.vpp), add("ep", c.ep);
  add("schedule", c.schedule), add("order", c.stages_within_replicas), add("zero", c.zero);
  add("sharding group", c.shard_group), add("micro-batch", c.micro_batch);
  add("sequence parallelism", c.sequence_parallel), add("recompute", c.recompute), add("on host", c.on_host);
  add("activations on host", c.activations_on_host), add("blocks", c.blocks), add("on drives", c.on_drives);
  add("layers by speed", c.layers_by_speed), add("batch by speed", c.batch_by_speed);
}

bool same_plan(const Plan& a, const Plan& b) {
  const auto all = [](const Plan& p) {
    return std::tuple(p.tp, p.cp, p.pp, p.vpp, p.ep, p.dp, p.zero, p.shard_group, p.micro_batch, p.schedule, p.order,
                      p.sequence_parallel, p.recompute.mode, p.recompute.blocks, p.offload.optimizer, p.offload.params,
                      p.offload.activations, p.shares, p.layers);
  };
  return all(a) == all(b);
}

struct Simulated {
  PlanChoice choice;
  Time step_time;
  Bytes needed, missing;
  bool host_is_full = false;
};

Simulated simulated(const Case& c, const PlanChoice& choice, const Plan& plan) {
  Case chosen = c;
  chosen.plan = plan;
  chosen.micro_batch_auto = false;
  const CaseReport r = foretrain::testing::simulate_plainly(chosen);
  const StagePeak& fullest = r.memory[r.fullest];
  return {choice, r.step_time, fullest.needed, fullest.needed - fullest.capacity, !r.host_fits()};
}

std::vector<Simulated> simulate_all(const Case& c, const Judged& judged) {
  const PlanSpace& space = judged.space;
  std::vector<Simulated> all;
  Balancer balancer(judged.cluster, environment().collectives);
  for (std::size_t family = 0; family < space.families(); ++family) {
    space.for_each(family, balancer,
                   [&](const PlanChoice& choice, const Plan& plan) { all.push_back(simulated(c, choice, plan)); });
  }
  return all;
}

// Where a plan does not fit, what it gives way to: layer by layer of every chunk is recomputed, then states go to
// drives. The first that fits.
std::optional<Simulated> in_its_place(const Case& c, const PlanSpace& space, const Simulated& s) {
  Simulated now = s;
  const Plan plain = *space.plan_of(s.choice);
  const std::int64_t levels = space.recompute_levels(s.choice, plain);
  for (std::int64_t level = 1; now.missing > Bytes{}; ++level) {
    if (level > levels) return std::nullopt;
    const PlanChoice more = PlanSpace::at_recompute_level(s.choice, plain, level);
    const std::optional<Plan> plan = space.plan_of(more);
    if (!plan) return std::nullopt;
    now = simulated(c, more, *plan);
  }
  while (now.host_is_full) {
    const auto more = space.with_more_on_drives(now.choice);
    const std::optional<Plan> plan = more ? space.plan_of(*more) : std::nullopt;
    if (!plan) return std::nullopt;
    now = simulated(c, *more, *plan);
  }
  return now;
}

}  // namespace

namespace {

// Bounds never exceed the simulation, and the search finds what simulating every plan finds. Gives back what the plans
// of all problems varied.
Varied check_searches(Problems problems, int count) {
  std::size_t plans = 0, pruned = 0;
  Varied varied;
  double tightest_sum = 0;
  for (int problem = 0; problem < count; ++problem) {
    Case c = problems.next();
    CAPTURE(problem);
    CAPTURE(c.software.name);
    const Judged judged(c);
    const PlanSpace& space = judged.space;
    std::vector<Simulated> all = simulate_all(c, judged);
    REQUIRE(!all.empty());
    REQUIRE(all.size() <= 6000);
    const std::size_t legal = all.size();
    plans += legal;

    PlanBounds bounds(judged.simulated, judged.cluster, environment().collectives, environment().hosts);
    for (const Simulated& s : all) {
      note(varied, s.choice);
      const Plan plan = *space.plan_of(s.choice);
      const Time bound = bounds.step_time(plan);
      const Bytes missing = bounds.missing_memory(plan);
      const bool holds = bound <= s.step_time && missing.value <= s.missing.value + 1;
      tightest_sum += bound.seconds() / s.step_time.seconds();
      if (holds) continue;
      FAIL_CHECK(fmt::format(
          "tp {} cp {} pp {} vpp {} {} zero {} shard {} mb {} sp {} recompute {} on host {}: bound {} of {} s, "
          "layers by speed {} batch by speed {}, missing {} of {}",
          plan.tp, plan.cp, plan.pp, plan.vpp, to_string(plan.schedule), plan.zero, plan.shard_group, plan.micro_batch,
          plan.sequence_parallel, static_cast<int>(plan.recompute.mode), static_cast<int>(s.choice.on_host),
          bound.seconds(), s.step_time.seconds(), s.choice.layers_by_speed, s.choice.batch_by_speed, missing.value,
          s.missing.value));
    }

    // Half of the plans do not fit.
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.missing < b.missing; });
    const Bytes less = all[all.size() / 2].missing + Bytes{1};  // beyond rounding
    c.cluster.gpu.memory += less;
    for (Gpu& gpu : c.cluster.other_gpus) gpu.memory += less;
    std::vector<Simulated> fitting;
    for (Simulated& s : all) {
      s.missing -= less;
      const auto fits = in_its_place(c, space, s);
      if (!fits) continue;
      note(varied, fits->choice);
      fitting.push_back(*fits);
    }
    all = std::move(fitting);
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tie(a.step_time, a.choice) < std::tie(b.step_time, b.choice);
    });
    // Some plan that is not the best: how many are faster is known.
    Case own = c;
    own.open_plan.reset();
    own.micro_batch_auto = false;
    const Simulated& middle = all[all.size() / 3];
    own.plan = *space.plan_of(middle.choice);
    const auto faster =
        std::count_if(all.begin(), all.end(), [&](const auto& s) { return s.step_time < middle.step_time; });
    for (const int threads : {1, 2, 5}) {
      CAPTURE(threads);
      Diagnostics diagnostics;
      const auto found =
          find_plans(c, environment(), {.top = 3, .threads = threads, .memory_share = 1.0, .own = &own}, diagnostics);
      REQUIRE(found);
      pruned += static_cast<std::size_t>(found->counts.too_slow);
      CHECK(found->counts.legal == static_cast<std::int64_t>(legal));
      CHECK(found->counts.legal == found->counts.beyond_memory + found->counts.too_slow + found->counts.simulated);
      REQUIRE(found->best.size() == std::min<std::size_t>(3, all.size()));
      for (std::size_t i = 0; i < found->best.size(); ++i) {
        CHECK(found->best[i].report.step_time == all[i].step_time);
        CHECK(found->best[i].report.fits);
        CHECK(same_plan(found->best[i].report.subject.plan, *space.plan_of(all[i].choice)));
      }
      REQUIRE(found->own);
      CHECK(found->own->plan.report.step_time == middle.step_time);
      // Hundreds are not counted to the end.
      CHECK(found->own->faster <= faster);
      CHECK(found->own->faster >= (found->own->at_least ? 512 : faster));
    }
  }
  MESSAGE(plans << " plans, " << pruned << " pruned by time, bounds at " << tightest_sum / static_cast<double>(plans)
                << " of the simulation on average");
  CHECK(pruned > 0);
  return varied;
}

}  // namespace

TEST_CASE("bounds never exceed the simulation, and the search finds what simulating every plan finds") {
  Varied varied = check_searches({20240607, Problems::Gpus::alike}, kSanitized ? 10 : 40);
  if (kSanitized) return;  // few problems do not vary everything
  for (const auto& [name, values] : varied) {
    const bool of_unlike_gpus = name.ends_with("by speed");
    CHECK_MESSAGE((values.size() > 1) != of_unlike_gpus, name);
  }
  CHECK(varied["schedule"].size() == 7);  // of those that are searched
  CHECK(varied["on host"].size() == 3);
}

TEST_CASE("the same on unlike GPUs, where plans split layers and batch by speed too") {
  Varied varied = check_searches({20250303, Problems::Gpus::unlike}, kSanitized ? 6 : 24);
  if (kSanitized) return;
  varied.erase("on drives");  // hosts know nothing of unlike GPUs
  for (const auto& [name, values] : varied) CHECK_MESSAGE(values.size() > 1, name << " is never varied");
}

TEST_CASE("only plans that the framework offers are looked at, unless they are fixed") {
  const auto values = [](const std::string& software, const PlanRequest& fixed) {
    Case c = case_of(
        "model: {arch: gpt, layers: 8, hidden: 512, heads: 8, vocab: 1024, max_positions: 512}\n"
        "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 200, net: "
        "infiniband}\ntrain: {seq_len: 512, global_batch: 32, precision: fp16, attention: standard}\nsoftware: " +
        software);
    c.open_plan = fixed;
    const Judged judged(c);
    const PlanSpace& space = judged.space;
    Varied varied;
    Balancer balancer(judged.cluster, environment().collectives);
    for (std::size_t family = 0; family < space.families(); ++family) {
      space.for_each(family, balancer, [&](const PlanChoice& choice, const Plan&) { note(varied, choice); });
    }
    return varied;
  };
  using Values = std::set<int>;
  Varied of_2021 = values("megatron-lm\nsoftware_version: 2021-04", {});
  CHECK(of_2021["tp"] == Values{1, 2, 4, 8});
  CHECK(of_2021["zero"] == Values{0});
  CHECK(of_2021["cp"] == Values{1});
  CHECK(of_2021["sequence parallelism"] == Values{0});
  CHECK(of_2021["recompute"].size() == 2);
  CHECK(of_2021["schedule"].size() == 2);
  Varied of_2022 = values("megatron-lm\nsoftware_version: 2022-05", {});
  CHECK(of_2022["zero"] == Values{0, 1});
  CHECK(of_2022["recompute"].size() == 3);
  CHECK(of_2022["sequence parallelism"] == Values{0, 1});
  Varied core = values("megatron-core", {});
  CHECK(core["cp"] == Values{1, 2, 4, 8, 16});
  CHECK(core["zero"] == Values{0, 1, 2, 3});
  CHECK(core["sharding group"].size() > 1);
  CHECK(core["activations on host"] == Values{0, 1});
  Varied deepspeed = values("deepspeed", {});
  CHECK(deepspeed["tp"] == Values{1});
  CHECK(deepspeed["zero"] == Values{0, 1, 2, 3});
  CHECK(deepspeed["activations on host"] == Values{0, 1});
  CHECK(values("hf-deepspeed", {})["activations on host"] == Values{0});
  PlanRequest tensor;
  tensor.tp = 2;
  CHECK(values("deepspeed", tensor)["tp"] == Values{2});
  CHECK(values("torch-ddp", {})["zero"] == Values{0});
}

TEST_CASE("where all layers recomputed fit and none do not, as few are as must be") {
  Case c = case_of(
      "model: llama-2-13b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "software: megatron-core\ntrain: {seq_len: 4096, global_batch: 32, precision: bf16}");
  PlanRequest fixed;
  fixed.tp = fixed.cp = 1;
  fixed.pp = fixed.vpp = 2;
  fixed.zero = 1;
  fixed.micro_batch = 2;
  fixed.offload = PlanRequest::OffloadRequest{};
  const auto found = [&](std::optional<Recompute> recompute, Bytes memory) {
    c.cluster.gpu.memory = memory;
    c.open_plan = fixed;
    c.open_plan->recompute = std::move(recompute);
    Diagnostics diagnostics;
    return find_plans(c, environment(), {.top = 1, .memory_share = 1.0}, diagnostics)->best;
  };
  const auto all = found(Recompute{Recompute::Mode::full, 0, {}}, c.cluster.gpu.memory);
  REQUIRE(all.size() == 1);
  const Bytes least = all.front().report.memory[all.front().report.fullest].needed;
  std::int64_t before = 20;
  for (const double more : {0.5, 4.0, 8.0, 12.0, 16.0}) {
    const Bytes memory = least + Bytes{more * 1e9};
    CAPTURE(more);
    CHECK(found(Recompute{}, memory).empty());
    const auto best = found({}, memory);
    REQUIRE(best.size() == 1);
    const CaseReport& report = best.front().report;
    CHECK(report.step_time <= all.front().report.step_time);
    const Recompute& recompute = report.subject.plan.recompute;
    if (recompute.mode == Recompute::Mode::full) continue;
    REQUIRE(recompute.mode == Recompute::Mode::blocks);
    CHECK(recompute.blocks % 2 == 0);  // as many of each chunk
    CHECK(recompute.blocks <= before);
    before = recompute.blocks;
    // With one layer of each chunk less it does not fit.
    CHECK(found(Recompute{Recompute::Mode::blocks, before - 2, {}}, memory).empty());
  }
  CHECK(before < 20);
}

TEST_CASE("the nearest plan that does not fit would be faster") {
  Case c = case_of(
      "model: llama-2-7b\ncluster: {gpu: a100-sxm4-40gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "software: deepspeed\ntrain: {seq_len: 2048, global_batch: 16, precision: bf16}\nplan: {zero: 3}");
  c.open_plan = PlanRequest{};
  c.open_plan->tp = c.open_plan->pp = c.open_plan->cp = 1;
  Diagnostics diagnostics;
  const auto found = find_plans(c, environment(), {.top = 1}, diagnostics);
  REQUIRE(found);
  REQUIRE(found->best.size() == 1);
  REQUIRE(found->nearest_miss);
  CHECK(found->nearest_miss->missing.value > 0);
  CHECK(found->nearest_miss->step_time < found->best.front().report.step_time);
}

TEST_CASE("plans leave some memory free, unless none can or a limit is given") {
  Case c = case_of(
      "model: {arch: llama, layers: 4, hidden: 1024, heads: 8, ffn: 2816, vocab: 32000}\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 4, gpus_per_node: 4, intra: nvswitch}\n"
      "software: deepspeed\ntrain: {seq_len: 1024, global_batch: 32, precision: bf16}");
  c.open_plan = PlanRequest{};
  c.open_plan->offload = PlanRequest::OffloadRequest{};
  c.open_plan->tp = c.open_plan->pp = c.open_plan->cp = 1;
  const auto best = [&](double share) {
    Diagnostics diagnostics;
    const auto found = find_plans(c, environment(), {.top = 1, .memory_share = share}, diagnostics);
    REQUIRE(found);
    REQUIRE(found->best.size() == 1);
    const CaseReport& report = found->best.front().report;
    return std::pair(report.memory[report.fullest].needed, found->memory_share);
  };
  const std::vector<Simulated> all = simulate_all(c, Judged(c));
  const Bytes fastest = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
                          return std::tie(a.step_time, a.choice) < std::tie(b.step_time, b.choice);
                        })->needed;
  const Bytes least = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
                        return a.needed < b.needed;
                      })->needed;
  REQUIRE(least < fastest * 0.9);
  c.cluster.gpu.memory = fastest / 0.98;
  CHECK(best(1.0).first == fastest);
  CHECK(best(kTightMemory).first <= c.cluster.gpu.memory * kTightMemory);
  CHECK(best(kTightMemory).second == kTightMemory);
  c.cluster.gpu.memory = least / 0.98;
  CHECK(best(kTightMemory).first > c.cluster.gpu.memory * kTightMemory);
  CHECK(best(kTightMemory).second == 1.0);
}

TEST_CASE("a search that is stopped before anything was found does not say that no plan fits") {
  Case c = case_of(
      "model: llama-2-7b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "software: megatron-core\ntrain: {seq_len: 2048, global_batch: 16, precision: bf16}");
  c.open_plan = PlanRequest{};
  c.open_plan->automatic = true;
  const std::atomic<bool> stop = true;
  Diagnostics diagnostics;
  const auto found = find_plans(c, environment(), {.top = 1, .stop = &stop}, diagnostics);
  REQUIRE(found);
  CHECK_FALSE(found->complete);
  CHECK(found->best.empty());
  ScaleOptions curve{{4, 8}, false, {.stop = &stop}, {}};
  const std::vector<ScalePoint> points = scale(c, environment(), curve);
  REQUIRE(points.size() == 2);
  CHECK(points[0].why_not == message("no plan was found before the search was stopped"));
  CHECK(points[1].why_not == message("not looked at: stopped before"));
  for (const ScalePoint& point : points) CHECK_FALSE(point.complete);
}

TEST_CASE("what is fixed of a plan stays, and an illegal fix is reported") {
  Case c = case_of(
      "model: llama-2-7b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "software: megatron-core\ntrain: {seq_len: 2048, global_batch: 16, precision: bf16}");
  c.open_plan = PlanRequest{};
  c.open_plan->tp = 4;
  c.open_plan->zero = 1;
  Diagnostics diagnostics;
  const auto found = find_plans(c, environment(), {.top = 2}, diagnostics);
  REQUIRE(found);
  for (const RankedPlan& ranked : found->best) CHECK(ranked.report.subject.plan.tp == 4);
  c.open_plan->tp = 3;
  CHECK_FALSE(find_plans(c, environment(), {.top = 2}, diagnostics));
  CHECK(diagnostics.has_errors());
}

TEST_CASE("on unlike GPUs the best plan splits the work by speed") {
  Case c = case_of(
      "model: llama-2-7b\nsoftware: megatron-core\ntrain: {seq_len: 4096, global_batch: 64, precision: bf16}\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 200, net: "
      "infiniband, overrides: [{gpu: h100-sxm5-80gb, node: 1}]}");
  c.open_plan = PlanRequest{};
  c.open_plan->tp = 8;
  c.open_plan->recompute = Recompute{};
  const auto best = [&](const PlanRequest& fixed) {
    c.open_plan = fixed;
    Diagnostics diagnostics;
    const auto found = find_plans(c, environment(), {.top = 1}, diagnostics);
    REQUIRE(found);
    return found->best.front().report;
  };
  const CaseReport any = best(*c.open_plan);
  CHECK((!any.subject.plan.shares.empty() || !any.subject.plan.layers.empty()));
  PlanRequest even = *c.open_plan;
  even.pp = 1;
  even.micro_batches_of_rank = PlanRequest::PerRank{{32, 32}, {}};
  CHECK(any.step_time < best(even).step_time);
}
