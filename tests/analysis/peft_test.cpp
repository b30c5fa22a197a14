// Adapters, quantised weights and optimizers: what they cost and hold.

#include <doctest/doctest.h>

#include <numeric>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kNode = "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n";
const std::string kCard = "cluster: {gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: nvswitch}\n";
const std::string kDense =
    "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\n";

std::string training(const std::string& more, int batch = 16) {
  return "train: {seq_len: 1024, global_batch: " + std::to_string(batch) + ", precision: bf16, " + more + "}\n";
}

const std::string kLora = "peft: {kind: lora, rank: 16}";
const std::string kQlora = "peft: {kind: qlora, rank: 16, quant: nf4}";

double sent_bytes(const Step& step, TaskKind kind) {
  double sum = 0;
  for (std::size_t t = 0; t < step.tasks.size(); ++t) {
    if (step.tasks[t].kind == kind) sum += step.graph.cost(step.graph.cost_of(engine::TaskId(t))).work;
  }
  return sum;
}

double seconds(const std::string& yaml) { return simulate_plainly(case_of(yaml)).step_time.seconds(); }

// Qwen-7B as fine-tuned on one A100 by its authors, eight micro-batches of one sequence a step.
std::string qwen(int seq, const std::string& peft, const std::string& precision) {
  return "model: {arch: llama, layers: 32, hidden: 4096, heads: 32, ffn: 11008, vocab: 151936}\n" + kCard +
         "train: {seq_len: " + std::to_string(seq) + ", global_batch: 8, precision: " + precision + ", peft: " + peft +
         "}\nsoftware: hf-trainer\nplan: {recompute: full, micro_batch: 1}";
}

}  // namespace

TEST_CASE("only adapters have gradients and optimizer states") {
  const CaseReport r =
      simulate_plainly(case_of(kDense + kCard + training(kLora) + "software: megatron-core\nplan: {}"));
  const MemoryParts& parts = r.memory[0].parts;
  // One adapter for Q, K and V, one for gate and up: (n + k) * rank each.
  const double layer = 16.0 * ((2048 + 4096) + (2048 + 2048) + (2048 + 2 * 5632) + (5632 + 2048));
  CHECK(r.step.layouts[0].trained() == doctest::Approx(8 * layer));
  const auto state = state_bytes(r.subject.software, r.subject.train, 0);
  CHECK(parts.optimizer.value == doctest::Approx(8 * layer * state.optimizer));
  CHECK(parts.gradients.value == doctest::Approx(8 * layer * state.gradients));
  const double frozen = r.step.layouts[0].parameters() - 8 * layer;
  CHECK(parts.weights.value == doctest::Approx(2 * frozen + 8 * layer * state.weights));
}

TEST_CASE("adapters of prediction modules are trained like those of layers, the rest of a module stays frozen") {
  const auto run = [](int mtp, const std::string& peft) {
    return simulate_plainly(
        case_of("model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000, mtp: " +
                std::to_string(mtp) + "}\n" + kCard + training(peft) + "software: hf-trainer\nplan: {}"));
  };
  const double layer = 16.0 * ((2048 + 2048) + 2 * (1024 + 2048) + (2048 + 2048) + 3 * (2048 + 5632));
  for (const int mtp : {0, 1, 2})
    CHECK(run(mtp, kLora).step.layouts[0].trained() == doctest::Approx((8 + mtp) * layer));

  const double frozen = run(1, kLora).step.layouts[0].parameters() - run(0, kLora).step.layouts[0].parameters() - layer;
  CHECK(frozen ==
        doctest::Approx(2.0 * 2048 * 2048 + 2 * 2048.0 * 2048 + 2 * 2048.0 * 1024 + 3 * 2048.0 * 5632).epsilon(1e-3));

  // A module is a layer, a projection and a pass through the head: more than a layer longer, less than three.
  const double none = run(0, kLora).step_time.seconds(), one = run(1, kLora).step_time.seconds();
  CHECK(one - none > none / 10);
  CHECK(one - none < 3 * none / 8);
  CHECK(run(1, "peft: none").step_time.seconds() > one);
  CHECK(run(1, kQlora).memory[0].parts.weights < run(1, kLora).memory[0].parts.weights / 2.0);
}

TEST_CASE("frozen matrices take 4 FLOPs a parameter and token, adapters 6") {
  const CaseReport r =
      simulate_plainly(case_of(kDense + kCard + training(kLora) + "software: megatron-core\nplan: {}"));
  const CaseReport full =
      simulate_plainly(case_of(kDense + kCard + training("optimizer: adamw") + "software: megatron-core\nplan: {}"));
  const auto flops = [](const CaseReport& report) {
    return report.model_tflops_per_gpu * 1e12 * report.step_time.seconds();
  };
  const Model& m = r.subject.model;
  const double tokens = 16 * 1024;
  const double matrices =
      static_cast<double>(8 * (m.attention_matrix_parameters() + m.mlp_matrix_parameters()) + m.head_parameters());
  CHECK(flops(r) == doctest::Approx(flops(full) - 2 * matrices * tokens + 6 * r.step.layouts[0].trained() * tokens));
  CHECK(r.step_time < full.step_time);
}

TEST_CASE(
    "sharded gradients are whole until a step's only scatter, and of frozen weights too where they share a tensor") {
  const std::string two = "cluster: {gpu: a100-sxm4-80gb, gpus: 2, gpus_per_node: 8, intra: nvswitch}\n";
  const auto run = [&](int batch, bool whole, bool frozen) {
    Case c = case_of(kDense + two + training(kLora, batch) + "software: torch-fsdp\nplan: {zero: 3, micro_batch: 1}");
    c.software.zero3_accumulates_whole = whole;
    c.software.zero3_gradients_of_frozen = frozen;
    return simulate_plainly(c);
  };
  const auto gradients = [](const CaseReport& r) {
    const StageMemory memory = stage_memories(r.subject, r.step.layouts)[0];
    return memory.passing_gradients().value + memory.always.gradients.value;
  };
  const CaseReport sharded = run(16, false, false), whole = run(16, true, false);
  CHECK(gradients(whole) == doctest::Approx(2 * gradients(sharded)));
  CHECK(gradients(run(2, true, false)) == doctest::Approx(gradients(sharded)));  // one micro-batch a rank
  // Frozen weights of layers; the table and the head are units of their own without adapters.
  const Model& m = sharded.subject.model;
  const auto layers = static_cast<double>(8 * (m.attention_matrix_parameters() + m.mlp_matrix_parameters()));
  CHECK(gradients(run(16, false, true)) - gradients(sharded) == doctest::Approx(2 * layers / 2).epsilon(0.001));
  CHECK(gradients(run(16, true, true)) - gradients(whole) == doctest::Approx(2 * layers).epsilon(0.001));
  // Eight micro-batches scatter their gradients once.
  const double every = sent_bytes(sharded.step, TaskKind::gradient_reduce);
  CHECK(sent_bytes(whole.step, TaskKind::gradient_reduce) == doctest::Approx(every / 8));
  CHECK(whole.step_time <= sharded.step_time);
}

TEST_CASE("quantised weights hold less than LoRA's, and these less than full training's; more rank holds more") {
  const auto needed = [](const std::string& peft) {
    const CaseReport r = simulate_plainly(
        case_of("model: llama-2-7b\n" + kCard + training(peft, 1) + "software: hf-trainer\nplan: {recompute: full}"));
    return r.memory[r.fullest].needed;
  };
  const Bytes full = needed("peft: none"), lora = needed("peft: {kind: lora, rank: 16}");
  CHECK(lora < full);
  CHECK(needed("peft: {kind: lora, rank: 64}") > lora);
  CHECK(needed("peft: {kind: lora, rank: 16, targets: qv}") < lora);
  CHECK(needed("peft: {kind: lora, rank: 16, full: [lm_head]}") > lora);
  const Bytes nf4 = needed("peft: {kind: qlora, rank: 16, quant: nf4}");
  CHECK(nf4 < needed("peft: {kind: qlora, rank: 16, quant: int8}"));
  CHECK(needed("peft: {kind: qlora, rank: 16, quant: nf4-dq}") < nf4);
  CHECK(needed("peft: {kind: qlora, rank: 16, quant: int8}") < lora);
}

TEST_CASE("NF4 makes 7 GB of the weights of a 13B model") {
  const CaseReport r =
      simulate_plainly(case_of("model: {arch: llama, layers: 40, hidden: 5120, heads: 40, ffn: 13824, vocab: 32000}\n" +
                               kCard + training("peft: {kind: qlora, rank: 1, targets: qv, quant: nf4-dq}", 1) +
                               "software: hf-trainer\nplan: {recompute: full}"));
  CHECK(r.memory[0].parts.weights.value == doctest::Approx(7.2e9).epsilon(0.02));
}

TEST_CASE("the penalty of QLoRA falls with the tokens of a micro-batch, as Qwen-7B measured it") {
  const std::string lora = "{kind: lora, rank: 64}", qlora = "{kind: qlora, rank: 64, quant: gptq}";
  double before = 10;
  struct Measured {
    int seq;
    double low, high;
  };
  for (const Measured& m : {Measured{256, 1.6, 3.5}, {2048, 1.2, 1.5}, {8192, 1.0, 1.2}}) {
    CAPTURE(m.seq);
    const double penalty = seconds(qwen(m.seq, qlora, "fp16")) / seconds(qwen(m.seq, lora, "bf16"));
    CHECK(penalty > m.low);
    CHECK(penalty < m.high);
    CHECK(penalty < before);
    before = penalty;
  }
}

TEST_CASE("on slow links LoRA moves next to nothing, but ZeRO-3 gathers the frozen weights for every micro-batch") {
  const auto time = [](int nodes, int zero) {
    return seconds("model: llama-3-8b\ncluster: {gpu: a100-sxm4-80gb, gpus: " + std::to_string(8 * nodes) +
                   ", gpus_per_node: 8, intra: nvswitch, nics: 1, nic_gbps: 10, net: ethernet}\n"
                   "train: {seq_len: 1024, global_batch: " +
                   std::to_string(64 * nodes) + ", precision: bf16, peft: {kind: lora, rank: 8, targets: qv}}\n" +
                   "software: hf-deepspeed\nplan: {recompute: full, micro_batch: 1, zero: " + std::to_string(zero) +
                   "}");
  };
  CHECK(time(2, 0) / time(1, 0) < 1.05);
  CHECK(time(2, 3) / time(1, 3) > 15);
}

TEST_CASE("adapters alone are reduced; ZeRO-3 gathers everything, quantised weights as stored") {
  const CaseReport lora =
      simulate_plainly(case_of(kDense + kNode + training(kLora) + "software: megatron-core\nplan: {micro_batch: 2}"));
  const double adapters = lora.step.layouts[0].trained();
  CHECK(sent_bytes(lora.step, TaskKind::gradient_reduce) ==
        doctest::Approx(2.0 * 7 / 8 * adapters * lora.subject.software.gradient_bytes));
  const std::string sharded = "software: torch-fsdp\nplan: {zero: 3, micro_batch: 2}";
  const CaseReport z3 = simulate_plainly(case_of(kDense + kNode + training(kLora) + sharded));
  CHECK(sent_bytes(z3.step, TaskKind::shard_gather) ==
        doctest::Approx(2 * 7.0 / 8 * 2 * z3.step.layouts[0].parameters()));
  const CaseReport nf4 = simulate_plainly(case_of(kDense + kNode + training(kQlora) + sharded));
  double quantised = 0;
  for (const Block& block : nf4.step.layouts[0].chunks[0].blocks) quantised += block.rest.quantised;
  CHECK(sent_bytes(nf4.step, TaskKind::shard_gather) ==
        doctest::Approx(2 * 7.0 / 8 * (2 * (nf4.step.layouts[0].parameters() - quantised) + 0.5 * quantised)));
}

TEST_CASE("folded and unfolded agree, books balance and breakdowns add up with adapters") {
  const std::string two_nodes =
      "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 4, nic_gbps: 200, net: "
      "infiniband}\n";
  const std::string tied =
      "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000, "
      "tied_embeddings: true}\n";
  for (const std::string& yaml :
       {kDense + two_nodes + training(kLora, 32) + "software: hf-trainer\nplan: {zero: 3, recompute: full}",
        kDense + kNode + training(kQlora, 16) + "software: torch-fsdp\nplan: {zero: 3}",
        kDense + two_nodes + training(kLora, 32) + "software: hf-deepspeed\nplan: {zero: 2}",
        kDense + two_nodes + training(kLora, 32) +
            "software: nemo\nplan: {tp: 4, pp: 2, zero: 1, sequence_parallel: true}",
        kDense + two_nodes + training(kLora, 32) + "software: megatron-core\nplan: {tp: 2, pp: 4}",
        tied + kNode + training("peft: {kind: lora, rank: 8, full: [embedding, lm_head]}", 32) +
            "software: megatron-core\nplan: {pp: 4}",
        tied + kNode + training(kLora, 32) + "software: megatron-core\nplan: {pp: 4}",
        "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000, mtp: 1}\n" +
            kNode + training("peft: {kind: lora, rank: 8, full: [embedding]}", 32) +
            "software: megatron-core\nplan: {pp: 4}"}) {
    CAPTURE(yaml);
    const Case c = case_of(yaml);
    const CaseReport folded = simulate_plainly(c), whole = simulate_plainly(c, Communicators::Folding::none);
    CHECK(folded.step_time == whole.step_time);
    for (const Breakdown& b : whole.per_class) {
      CHECK(std::accumulate(b.parts.begin(), b.parts.end(), Time::zero()) == whole.step_time);
    }
    const std::vector<StageMemory> memories = stage_memories(folded.subject, folded.step.layouts);
    for (std::size_t rank = 0; rank < folded.step.stage.size(); ++rank) {
      const StageMemory& memory = memories[static_cast<std::size_t>(folded.step.stage[rank])];
      CHECK(bytes_left(memory, folded.step, rank).total() == memory.always.total());
    }
  }
}

TEST_CASE("optimizers differ in what they keep a parameter") {
  const auto optimizer = [](const std::string& train) {
    const CaseReport r =
        simulate_plainly(case_of(kDense + kCard + training(train) + "software: megatron-core\nplan: {}"));
    return r.memory[0].parts.optimizer.value / r.step.layouts[0].parameters();
  };
  CHECK(optimizer("optimizer: adamw") == doctest::Approx(12));
  CHECK(optimizer("optimizer: sgd") == doctest::Approx(4));   // the master copy
  CHECK(optimizer("optimizer: lion") == doctest::Approx(8));  // and a moment
  CHECK(optimizer("optimizer: lamb") == doctest::Approx(12));
  CHECK(optimizer("optimizer: adafactor") == doctest::Approx(4));
  CHECK(optimizer("master_weights: none") == doctest::Approx(4));
  // 8-bit moments with a scale for every 256, of the embedding in fp32.
  const Case c = case_of(kDense + kCard + training("optimizer: adamw8bit") + "software: megatron-core\nplan: {}");
  const CaseReport r = simulate_plainly(c);
  const double table = r.step.layouts[0].chunks[0].blocks[0].parameters(), all = r.step.layouts[0].parameters();
  CHECK(r.memory[0].parts.optimizer.value == doctest::Approx((4 + 2 + 2.0 / 64) * (all - table) + 12 * table));
}

TEST_CASE("an optimizer that moves fewer bytes takes less time; bf16-only states are 8 bytes a parameter") {
  const std::string rest = "software: megatron-core\nplan: {}";
  const auto time = [&](const std::string& train) { return seconds(kDense + kCard + training(train) + rest); };
  CHECK(time("optimizer: sgd") < time("optimizer: lion"));
  CHECK(time("optimizer: lion") < time("optimizer: adamw"));
  CHECK(time("optimizer: adamw8bit") < time("optimizer: adamw"));
  CHECK(time("optimizer: adamw") < time("optimizer: lamb"));
  CHECK(time("master_weights: none") < time("optimizer: adamw"));
  const Case c = case_of(kDense + kCard + training("master_weights: none") + rest);
  const auto state = state_bytes(c.software, c.train, 0);
  CHECK(state.weights + state.gradients + state.optimizer == 8);
}

TEST_CASE("gradients reduced in fp32 are twice the traffic of bf16") {
  const auto bytes = [](const std::string& train) {
    return sent_bytes(
        simulate_plainly(case_of(kDense + kNode + training(train) + "software: megatron-core\nplan: {}")).step,
        TaskKind::gradient_reduce);
  };
  CHECK(bytes("grad_reduce: fp32") == doctest::Approx(2 * bytes("grad_reduce: bf16")));
}
