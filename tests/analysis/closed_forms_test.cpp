#include <doctest/doctest.h>

#include <array>
#include <numeric>

#include "sim/model/operators.h"
#include "sim/workload/layer_cost.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

// A pipeline whose stages are equal (embedding and head weigh nothing) over links that cost nothing.
Case ideal_pipeline(const std::string& plan, int micro_batches) {
  Case c = case_of(
      "model: {arch: gpt, layers: 16, hidden: 4096, heads: 32, vocab: 8, tied_embeddings: false}\n"
      "software: megatron-lm\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 4, gpus_per_node: 4, intra: nvswitch}\n"
      "train: {seq_len: 1024, global_batch: " +
      std::to_string(micro_batches) + ", precision: bf16}\nplan: {" + plan + ", pp: 4, micro_batch: 1}");
  c.software = without_overheads(c.software);
  c.software.pads_vocabulary = false;
  c.train.clip_gradients = false;
  c.cluster.gpu.nvlink->per_direction *= 1e6;
  c.cluster.gpu.achieved.kernel_floor = {0};
  c.cluster.gpu.achieved.elementwise_floor = {0};
  return c;
}

Environment without_latencies() {
  Environment e = environment();
  e.collectives.send_us = 0;
  e.collectives.k0_us = 0;
  return e;
}

double bubble(const Case& c) {
  return simulate_case(c, without_latencies(),
                       {.folding = Communicators::Folding::symmetric, .with_advice = false, .with_elasticity = false})
      .bubble_fraction;
}

double sent_bytes(const Step& step, std::initializer_list<TaskKind> kinds) {
  double sum = 0;
  for (std::size_t t = 0; t < step.tasks.size(); ++t) {
    if (std::find(kinds.begin(), kinds.end(), step.tasks[t].kind) == kinds.end()) continue;
    sum += step.graph.cost(step.graph.cost_of(engine::TaskId(t))).work;
  }
  return sum;
}

const std::string kLlamaNode =
    "model: {arch: llama, layers: 4, hidden: 2048, heads: 16, ffn: 5632, vocab: 32000}\n"
    "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
    "train: {seq_len: 1024, global_batch: 8, precision: bf16}\n";

}  // namespace

TEST_CASE("the bubble of GPipe and 1F1B is (p-1)/(m+p-1)") {
  for (const char* schedule : {"schedule: gpipe", "schedule: 1f1b"}) {
    for (int m : {4, 8, 16, 64}) {
      CAPTURE(std::string(schedule));
      CAPTURE(m);
      CHECK(bubble(ideal_pipeline(schedule, m)) == doctest::Approx(3.0 / (m + 3.0)).epsilon(0.002));
    }
  }
}

TEST_CASE("the interleaved bubble is (p-1)/(v m + p-1)") {
  for (int v : {2, 4}) {
    for (int m : {8, 16, 64}) {
      CAPTURE(v);
      CAPTURE(m);
      const double expected = 3.0 / (v * m + 3.0);
      CHECK(bubble(ideal_pipeline("vpp: " + std::to_string(v), m)) == doctest::Approx(expected).epsilon(0.003));
    }
  }
}

// The idle share of a stage's own step is (p-1)(F+B-W) of the whole for ZB-H1 (arXiv 2401.10241, table 2).
TEST_CASE("zero-bubble schedules fill the bubble with weight gradients") {
  const auto plan = [](const char* schedule, int m, bool validated_afterwards) {
    Case c = ideal_pipeline(schedule, m);
    c.software.optimizer_post_validated = validated_afterwards;
    return c;
  };
  const auto work = [](const Case& c) {
    const LayerCosts costs(c);
    const auto of = [&](Pass pass) { return 4 * costs.layer({}, pass, false).compute().total().value; };
    return std::array{of(Pass::forward), of(Pass::input_gradient), of(Pass::weight_gradient)};
  };
  for (int m : {8, 24, 64}) {
    CAPTURE(m);
    const auto [f, b, w] = work(plan("schedule: zero-bubble", m, false));
    const double busy = m * (f + b + w), idle = 3 * (f + b - w);
    for (bool afterwards : {false, true}) {
      const double share = bubble(plan("schedule: zero-bubble", m, afterwards));
      const double most = 3 * std::max({f, b, w});  // they are not quite alike
      CHECK(share >= idle / (busy + idle) * 0.98);
      CHECK(share <= most / (busy + most) * 1.02);
    }
    CHECK(bubble(plan("schedule: zero-bubble-2p", m, true)) < 0.3 * idle / busy);
    CHECK(bubble(plan("schedule: zero-bubble-v", m, true)) < 0.5 * idle / busy);
    // Where stages step together, what is saved at the end of one is lost at its beginning.
    CHECK(bubble(plan("schedule: zero-bubble-2p", m, false)) > bubble(plan("schedule: zero-bubble-2p", m, true)));
    CHECK(bubble(plan("schedule: dualpipe-v", m, false)) < 3.0 / (m + 3.0));
    CHECK(bubble(plan("schedule: dualpipe", m, false)) < 3.0 / (m + 3.0));
  }
}

TEST_CASE("the two halves of a backward pass are the whole") {
  for (const char* plan : {"tp: 1", "tp: 2", "tp: 2, sequence_parallel: true"}) {
    const Case c = case_of(kLlamaNode + "software: megatron-core\nplan: {micro_batch: 1, " + plan + "}");
    const LayerCosts costs(c);
    const auto check = [](const BlockPass& whole, const BlockPass& first, const BlockPass& second) {
      CHECK((first.compute() + second.compute()).matmul.value == doctest::Approx(whole.compute().matmul.value));
      CHECK((first.compute() + second.compute()).memory.value == doctest::Approx(whole.compute().memory.value));
      CHECK((first.compute() + second.compute()).latency.value == doctest::Approx(whole.compute().latency.value));
      CHECK((first.host + second.host).value == doctest::Approx(whole.host.value));
    };
    for (bool again : {false, true}) {
      check(costs.layer({}, Pass::backward, again), costs.layer({}, Pass::input_gradient, again),
            costs.layer({}, Pass::weight_gradient, again));
    }
    check(costs.head(Pass::backward), costs.head(Pass::input_gradient), costs.head(Pass::weight_gradient));
    check(costs.embedding(Pass::backward), costs.embedding(Pass::input_gradient),
          costs.embedding(Pass::weight_gradient));
  }
}

TEST_CASE("recompute of parts of a layer costs their forward pass") {
  const auto backward = [](const std::string& recompute) {
    Case c =
        case_of(kLlamaNode + "software: megatron-core\nplan: {tp: 2, micro_batch: 1, recompute: " + recompute + "}");
    c.software = without_overheads(c.software);
    return c;
  };
  const auto compute = [](const Case& c) {
    return LayerCosts(c).layer({}, Pass::backward, false).compute().total().value;
  };
  const Case plain = backward("none");
  const double without = compute(plain);
  const LayerProjections p = layer_projections(plain.model, 2);
  const auto product = [&](const Projection& of) {
    return gemm_time(plain.cluster.gpu, Precision::bf16, {.m = 1024, .n = of.n, .k = of.k}).total().value;
  };
  CHECK(compute(backward("{modules: [mlp]}")) - without == doctest::Approx(product(p.mlp_in) + product(p.mlp_out)));
  CHECK(compute(backward("{modules: [qkv]}")) - without == doctest::Approx(product(p.qkv)));
  CHECK(compute(backward("{modules: [norm, swiglu]}")) == doctest::Approx(without));  // elementwise work is off here
  Case early = backward("{modules: [mlp]}");
  early.software.recompute_stops_early = true;
  CHECK(compute(early) - without == doctest::Approx(product(p.mlp_in)));
  // Nothing saved is full recompute.
  Case saved = backward("{saved: [qkv]}");
  const double full = LayerCosts(plain).layer({}, Pass::backward, true).compute().total().value;
  CHECK(compute(saved) == doctest::Approx(full - product(p.qkv)));
  saved.plan.recompute.names = {};
  CHECK(compute(saved) == doctest::Approx(full));
  // FLOPs follow: the MLP is three matrices of a layer's.
  const CaseReport report = simulate_plainly(backward("{modules: [mlp]}"));
  const double layers = 4, mlp = 3.0 * 2048 * 5632;
  CHECK((report.hfu - report.mfu) / report.mfu * 3 * forward_flops(report.subject.model, 1, 1024).total().value ==
        doctest::Approx(2 * mlp * layers));
}

// Weights are gathered once a step and gradients scattered once, whatever the micro-batches
// (torch.distributed.pipelining; torchtitan keeps weights whole with a pipeline).
TEST_CASE("FSDP with a pipeline moves 2(n-1)/n of the stage's parameters") {
  const Case c = case_of(kLlamaNode + "software: torch-fsdp\nplan: {zero: 3, pp: 2, micro_batch: 1}");
  const CaseReport report = simulate_plainly(c);
  for (TaskKind kind : {TaskKind::shard_gather, TaskKind::gradient_reduce}) {
    const double parameters = report.step.layouts[0].parameters() + report.step.layouts[1].parameters();
    CHECK(sent_bytes(report.step, {kind}) == doctest::Approx(3.0 / 4 * parameters * 2));
  }
}

TEST_CASE("data parallelism moves 2(n-1)/n of the gradients, ZeRO-1 the same in two halves") {
  Case c = case_of(kLlamaNode + "software: torch-ddp\nplan: {zero: 0, micro_batch: 1}");
  const CaseReport all_reduce = simulate_plainly(c);
  const double parameters = all_reduce.step.layouts[0].parameters();
  CHECK(sent_bytes(all_reduce.step, {TaskKind::gradient_reduce}) ==
        doctest::Approx(2.0 * 7 / 8 * parameters * c.software.gradient_bytes));

  c = case_of(kLlamaNode + "software: megatron-core\nplan: {zero: 1, micro_batch: 1}");
  const CaseReport zero1 = simulate_plainly(c);
  CHECK(sent_bytes(zero1.step, {TaskKind::gradient_reduce}) ==
        doctest::Approx(7.0 / 8 * zero1.step.layouts[0].parameters() * c.software.gradient_bytes));
  CHECK(sent_bytes(zero1.step, {TaskKind::parameter_gather}) ==
        doctest::Approx(7.0 / 8 * zero1.step.layouts[0].parameters() * 2));
}

TEST_CASE("the host's work of a step comes after the parameters' return, and hides none of it") {
  for (const char* framework : {"internevo", "megatron-deepspeed", "hf-deepspeed"}) {
    Case c = case_of(kLlamaNode + "software: " + framework + "\nplan: {zero: 1, micro_batch: 1}");
    REQUIRE_FALSE(c.plan.overlap.param_gather);
    const auto time = [&](double overhead_ms) {
      c.software.step_overhead_ms = overhead_ms;
      return simulate_plainly(c).step_time.seconds();
    };
    CHECK(time(2) - time(0) == doctest::Approx(time(4) - time(2)));
    CHECK(time(2) > time(0));
  }
}

TEST_CASE("ZeRO-3 moves 3(n-1)/n of the parameters' bytes") {
  const Case c = case_of(kLlamaNode + "software: torch-fsdp\nplan: {zero: 3, micro_batch: 1}");
  REQUIRE(c.software.gradient_bytes == 2);
  const CaseReport report = simulate_plainly(c);
  CHECK(sent_bytes(report.step, {TaskKind::shard_gather, TaskKind::gradient_reduce}) ==
        doctest::Approx(3.0 * 7 / 8 * report.step.layouts[0].parameters() * 2));
}

TEST_CASE("context parallelism splits tokens and exchanges keys and values") {
  const std::string base =
      "model: {arch: llama, layers: 4, hidden: 2048, heads: 16, kv_heads: 4, ffn: 5632, vocab: 32000}\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "train: {seq_len: 8192, global_batch: 8, precision: bf16}\nsoftware: megatron-core\n";
  const CaseReport whole = simulate_plainly(case_of(base + "plan: {zero: 1, micro_batch: 1}"));
  const CaseReport split = simulate_plainly(case_of(base + "plan: {cp: 8, zero: 1, micro_batch: 1}"));
  // The same FLOPs: eight times the micro-batches, an eighth of the work each.
  CHECK(split.model_tflops_per_gpu * split.step_time.seconds() ==
        doctest::Approx(whole.model_tflops_per_gpu * whole.step_time.seconds()));
  CHECK(split.breakdown[Cause::cp_comm] > Time::zero());
  CHECK(split.memory[0].parts.activations.value == doctest::Approx(whole.memory[0].parts.activations.value / 8));
  // Gathered in front of the attention nothing of it is hidden.
  const CaseReport gathered =
      simulate_plainly(case_of(base + "plan: {cp: 8, cp_kind: all-gather, zero: 1, micro_batch: 1}"));
  CHECK(gathered.breakdown[Cause::cp_comm] > split.breakdown[Cause::cp_comm]);
}

TEST_CASE("pipeline transfers move every boundary tensor once each way") {
  const Case c = ideal_pipeline("schedule: 1f1b", 8);
  const CaseReport report = simulate_plainly(c);
  CHECK(sent_bytes(report.step, {TaskKind::pipeline_transfer}) == doctest::Approx(2.0 * 3 * 8 * 1024 * 4096 * 2));
}

TEST_CASE("a step is 6 N D FLOPs and the attention") {
  const Case c = case_of(
      "model: gpt-3-175b\nsoftware: megatron-lm\ncluster: {gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: "
      "nvswitch}\ntrain: {seq_len: 2048, global_batch: 1, precision: bf16}\nplan: {micro_batch: 1}");
  const ForwardFlops f = forward_flops(c.model, 2048, 2048);
  const double matrices = 96.0 * 12 * 12288 * 12288 + static_cast<double>(c.model.head_parameters());
  CHECK(3 * (f.layers + f.head).value == doctest::Approx(6.0 * matrices * 2048));
  CHECK(3 * f.attention_core.value == doctest::Approx(12.0 * 96 * 12288 * 2048.0 * 2048));
  CHECK(6.0 * matrices == doctest::Approx(6.0 * static_cast<double>(c.model.parameters())).epsilon(0.005));
}

TEST_CASE("twice as fast hardware and software takes half the time") {
  const Case c = case_of(kLlamaNode + "software: megatron-lm\nplan: {tp: 2, pp: 2, micro_batch: 1}");
  Case fast = c;
  Environment e = environment();
  Gpu& gpu = fast.cluster.gpu;
  for (auto& rate : gpu.dense_rate) {
    if (rate) *rate *= 2;
  }
  gpu.memory_bandwidth *= 2;
  gpu.nvlink->per_direction *= 2;
  gpu.achieved.kernel_floor *= 0.5;
  gpu.achieved.elementwise_floor *= 0.5;
  Software& s = fast.software;
  for (double* ms : {&s.host_forward_ms, &s.host_backward_ms, &s.host_tensor_parallel_ms, &s.micro_batch_overhead_ms,
                     &s.step_overhead_ms, &s.unfused_softmax_forward_ms, &s.unfused_softmax_backward_ms}) {
    *ms /= 2;
  }
  CollectiveConstants& k = e.collectives;
  for (double* us : {&k.ring_base_us, &k.tree_base_us, &k.intra_hop_nvlink_us, &k.send_us, &k.k0_us, &k.k_nvlink_us}) {
    *us /= 2;
  }
  const SimulationOptions options{
      .folding = Communicators::Folding::symmetric, .with_advice = false, .with_elasticity = false};
  const double slow_time = simulate_case(c, environment(), options).step_time.seconds();
  const double fast_time = simulate_case(fast, e, options).step_time.seconds();
  CHECK(fast_time == doctest::Approx(slow_time / 2).epsilon(1e-8));
}

TEST_CASE("faster parts never slow a step") {
  const std::vector<std::string> plans = {
      "software: megatron-lm\nplan: {tp: 4, micro_batch: 1, overlap: {grad_reduce: true}}",
      "software: torch-fsdp\nplan: {zero: 3, micro_batch: 1}", "software: deepspeed\nplan: {zero: 2, micro_batch: 1}",
      "software: megatron-core\nplan: {tp: 2, pp: 2, micro_batch: 1}"};
  for (const std::string& plan : plans) {
    CAPTURE(plan);
    const Case base = case_of(
        "model: {arch: llama, layers: 4, hidden: 2048, heads: 16, ffn: 5632, vocab: 32000}\n"
        "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 4, nic_gbps: 100, net: "
        "infiniband}\ntrain: {seq_len: 1024, global_batch: 64, precision: bf16}\n" +
        plan);
    const auto check = [&](auto make_faster) {
      Time before = Time::max();
      Case c = base;
      for (int i = 0; i < 4; ++i) {
        const Time now = simulate_plainly(c).step_time;
        CHECK(now <= before);
        before = now;
        make_faster(c);
      }
    };
    check([](Case& c) { c.cluster.nic_rate *= 1.7; });
    check([](Case& c) { c.cluster.gpu.nvlink->per_direction *= 1.7; });
    check([](Case& c) { c.cluster.gpu.memory_bandwidth *= 1.7; });
    check([](Case& c) {
      for (auto& rate : c.cluster.gpu.dense_rate) {
        if (rate) *rate *= 1.7;
      }
    });
    check([](Case& c) { c.software.host_forward_ms /= 2, c.software.host_backward_ms /= 2; });
  }
}

TEST_CASE("the mean of breakdowns adds up when picoseconds do not divide") {
  Breakdown a, b;
  a[Cause::compute] = Time{10};
  b[Cause::compute] = Time{7};
  b[Cause::bubble] = Time{3};
  const Breakdown m = mean({a, b}, {1, 2});
  CHECK(m.total() == Time{10});
  CHECK(m[Cause::compute] == Time{8});
  CHECK(m[Cause::bubble] == Time{2});
}

TEST_CASE("runs repeat bit for bit") {
  const Case c = case_of(kLlamaNode + "software: torch-fsdp\nplan: {zero: 3, micro_batch: 1}");
  const CaseReport first = simulate_plainly(c), second = simulate_plainly(c);
  CHECK(first.schedule.fingerprint == second.schedule.fingerprint);
  CHECK(first.step_time == second.step_time);
}
