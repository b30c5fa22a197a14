#include <doctest/doctest.h>

#include <set>

#include "sim/memory/activations.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kSeven =
    "model: llama-2-7b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
    "train: {seq_len: 2048, global_batch: 64, precision: bf16}\n";

Bytes states(const CaseReport& r) {
  const MemoryParts& p = r.memory[r.fullest].parts;
  return p.weights + p.gradients + p.optimizer;
}

}  // namespace

TEST_CASE("7e9 parameters need 112 GB of states on one GPU and 26.25 GB on each of eight with ZeRO-2") {
  const Case sharded = case_of(kSeven + "software: deepspeed\nplan: {zero: 2, micro_batch: 1, recompute: full}");
  const CaseReport report = simulate_plainly(sharded);
  const double per_parameter = states(report).value / report.step.layouts[0].parameters();
  CHECK(per_parameter * 7e9 == doctest::Approx(26.25e9));

  const Case whole = case_of(
      "model: llama-2-7b\ncluster: {gpu: h200, gpus: 1, gpus_per_node: 1, intra: nvswitch}\n"
      "train: {seq_len: 2048, global_batch: 1, precision: bf16}\nsoftware: deepspeed\nplan: {micro_batch: 1}");
  const CaseReport one = simulate_plainly(whole);
  CHECK(states(one).value / one.step.layouts[0].parameters() * 7e9 == doctest::Approx(112e9));
}

TEST_CASE("each ZeRO stage holds less than the one before") {
  Bytes before{1e18};
  for (int zero = 0; zero <= 3; ++zero) {
    const Case c = case_of(kSeven + "software: deepspeed\nplan: {zero: " + std::to_string(zero) +
                           ", micro_batch: 1, recompute: full}");
    const Bytes now = states(simulate_plainly(c));
    CHECK(now < before);
    before = now;
  }
}

TEST_CASE("what the passes take they give back") {
  for (const char* plan :
       {"pp: 4, micro_batch: 1", "pp: 4, schedule: gpipe, micro_batch: 1", "pp: 2, vpp: 4, micro_batch: 1",
        "tp: 4, sequence_parallel: true, micro_batch: 1, recompute: selective",
        "tp: 2, pp: 2, recompute: {blocks: 3}, micro_batch: 1", "pp: 4, schedule: zero-bubble, micro_batch: 1",
        "pp: 4, schedule: zero-bubble-2p, micro_batch: 1, recompute: full",
        "pp: 4, schedule: zero-bubble-v, micro_batch: 1", "pp: 4, schedule: dualpipe, micro_batch: 1",
        "pp: 4, schedule: dualpipe-v, micro_batch: 1", "pp: 2, recompute: {modules: [mlp, norm]}, micro_batch: 1",
        "tp: 2, recompute: {saved: [qkv, mlp]}, micro_batch: 1"}) {
    CAPTURE(std::string(plan));
    Case c = case_of(kSeven + "software: megatron-core\nplan: {" + plan + "}");
    for (const bool on_demand : {false, true}) {
      CAPTURE(on_demand);
      c.software.gradients_on_demand = on_demand;
      const CaseReport report = simulate_plainly(c);
      const std::vector<StageMemory> memories = stage_memories(report.subject, report.step.layouts);
      for (const StagePeak& peak : report.memory) {
        CHECK(peak.parts.total() >= memories[static_cast<std::size_t>(peak.stage)].always.total());
        // Activations at the peak are a whole number of micro-batches of the stage's chunks, none forgotten.
        CHECK(peak.parts.activations.value > 0);
      }
      for (std::size_t rank = 0; rank < report.step.stage.size(); ++rank) {
        const StageMemory& memory = memories[static_cast<std::size_t>(report.step.stage[rank])];
        CHECK((memory.passing_gradients().value > 0) == on_demand);
        CHECK(bytes_left(memory, report.step, rank).total() == memory.always.total());
      }
    }
  }
}

TEST_CASE("1F1B keeps as many micro-batches as there are stages behind, GPipe all of them") {
  const std::string base = kSeven + "software: megatron-core\nplan: {pp: 4, micro_batch: 1, ";
  const CaseReport steady = simulate_plainly(case_of(base + "schedule: 1f1b}"));
  const CaseReport flood = simulate_plainly(case_of(base + "schedule: gpipe}"));
  const double one = stage_memories(steady.subject, steady.step.layouts)[0].chunks[0].kept.value;
  CHECK(steady.memory[0].parts.activations.value == doctest::Approx(4 * one));
  CHECK(steady.memory[1].parts.activations.value == doctest::Approx(3 * one));
  CHECK(flood.memory[0].parts.activations.value == doctest::Approx(32 * one));
}

TEST_CASE("recompute of parts of a layer leaves the tensors that nothing makes again") {
  Case c = case_of(kSeven + "software: megatron-core\nplan: {tp: 2, micro_batch: 1}");
  const double tokens = 2048, h = 4096, f = 11008.0 / 2, q = 4096.0 / 2, sums = 4 * 32.0 / 2;
  const auto kept = [&c](Recompute::Mode mode, std::vector<std::string> names) {
    c.plan.recompute = {mode, 0, std::move(names)};
    return kept_activations_of_layer(c, mode == Recompute::Mode::full, {}).value;
  };
  using Names = std::vector<std::string>;
  const double all = kept(Recompute::Mode::none, {}), none = kept(Recompute::Mode::full, {});
  // 16-bit outputs of both norms; gate, up and their product; Q, K and V.
  CHECK(all - kept(Recompute::Mode::modules, Names{"layernorm"}) == doctest::Approx(4 * h * tokens));
  CHECK(all - kept(Recompute::Mode::modules, Names{"mlp"}) == doctest::Approx(6 * f * tokens));
  CHECK(all - kept(Recompute::Mode::modules, Names{"swiglu"}) == doctest::Approx(2 * f * tokens));
  CHECK(all - kept(Recompute::Mode::modules, Names{"qkv"}) == doctest::Approx(6 * q * tokens));
  CHECK(all - kept(Recompute::Mode::modules, Names{"core_attn"}) == doctest::Approx(sums * tokens));
  CHECK(kept(Recompute::Mode::saved, Names{"qkv"}) - none == doctest::Approx(6 * q * tokens));
  CHECK(kept(Recompute::Mode::saved, Names{"attention", "mlp_in"}) - none ==
        doctest::Approx((2 * q + sums + 4 * f) * tokens));
  CHECK(kept(Recompute::Mode::saved, Names{"attention_out"}) - none == doctest::Approx(2 * h * tokens));
  CHECK(kept(Recompute::Mode::saved, Names{"mlp"}) - none == doctest::Approx(2 * h * tokens));
}

// Qi et al., arXiv 2401.10241, table 2 and section 6: what 1F1B holds on its first stage, or twice that, on every
// stage.
TEST_CASE("zero-bubble schedules keep to their memory") {
  // Without embedding and head to speak of, and with activations that outlast what weight gradients need.
  Case c = case_of(
      "model: {arch: gpt, layers: 16, hidden: 2048, heads: 32, vocab: 8, tied_embeddings: false}\nsoftware: "
      "megatron-lm\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 4, gpus_per_node: 4, intra: nvswitch}\n"
      "train: {seq_len: 1024, global_batch: 24, precision: fp16, attention: standard}\nplan: {pp: 4, micro_batch: 1}");
  c.software.pads_vocabulary = false;
  const auto activations = [&c](PipelineSchedule schedule, int vpp) {
    c.plan.schedule = schedule;
    c.plan.vpp = vpp;
    std::vector<double> of_stage;
    for (const StagePeak& peak : simulate_plainly(c).memory) of_stage.push_back(peak.parts.activations.value);
    return of_stage;
  };
  const std::vector<double> plain = activations(PipelineSchedule::one_f_one_b, 1);
  const double one = plain.back();
  const std::vector<double> h1 = activations(PipelineSchedule::zero_bubble, 1);
  const StageMemory::ChunkMemory chunk =
      stage_memories(c, stage_layouts(c.model, c.plan, c.software))[1].chunks.front();
  for (std::size_t s = 0; s < 4; ++s) {
    CAPTURE(s);
    const auto late = static_cast<double>(s);
    CHECK(h1[s] == doctest::Approx((4 - late) * chunk.kept.value + late * chunk.deferred.value).epsilon(0.01));
    CHECK(h1[s] <= plain.front() * 1.01);
  }
  // ZB-V splits the same evenly; what waits for weight gradients weighs less than what waits for backward passes.
  for (double stage : activations(PipelineSchedule::zero_bubble_v, 2)) {
    CHECK(stage <= plain.front() * 1.01);
    CHECK(stage >= plain.front() * 0.9);
  }
  const std::vector<double> twice = activations(PipelineSchedule::zero_bubble_2p, 1);
  for (double stage : twice) CHECK(stage <= 2 * plain.front() * 1.01);
  CHECK(twice.front() >= (2 * 4 - 1) * one * 0.99);
  // Both copies of dualpipe, p + 1 micro-batches (arXiv 2412.19437, table 2).
  for (double stage : activations(PipelineSchedule::dualpipe, 2)) CHECK(stage <= 5 * one * 1.01);
}

TEST_CASE("what waits for weight gradients waits as their products read it") {
  Case c = case_of(
      "model: {arch: llama, layers: 4, hidden: 4096, heads: 32, ffn: 11008, vocab: 32000}\nsoftware: hai-llm\n"
      "cluster: {gpu: h100, gpus: 4}\ntrain: {seq_len: 1024, global_batch: 8, precision: bf16}\n"
      "plan: {pp: 4, schedule: zero-bubble, micro_batch: 1}");
  const double bf16 = deferred_activations_of_layer(c, {}).value;
  c.train.precision = Precision::fp8;
  CHECK(deferred_activations_of_layer(c, {}).value == doctest::Approx(bf16 / 2));
}

TEST_CASE("the two copies of dualpipe cost twice the parameters") {
  const std::string base = kSeven + "software: megatron-core\nplan: {pp: 4, micro_batch: 1, ";
  const CaseReport one = simulate_plainly(case_of(base + "schedule: dualpipe-v}"));
  const CaseReport two = simulate_plainly(case_of(base + "schedule: dualpipe}"));
  double parameters_of_one = 0, parameters_of_two = 0;
  for (const StageLayout& stage : one.step.layouts) parameters_of_one += stage.parameters();
  for (const StageLayout& stage : two.step.layouts) parameters_of_two += stage.parameters();
  CHECK(parameters_of_two == doctest::Approx(2 * parameters_of_one));
}

TEST_CASE("a plan that does not fit says how much is missing and what would fit") {
  const Case c = case_of(
      "model: llama-2-13b\ncluster: {gpu: a100-sxm4-40gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "train: {seq_len: 2048, global_batch: 64, precision: bf16}\nsoftware: deepspeed\nplan: {zero: 2, micro_batch: "
      "4}");
  const CaseReport report = simulate_case(c, environment());
  CHECK_FALSE(report.fits);
  REQUIRE_FALSE(report.changes.empty());
  for (const FittingChange& change : report.changes) CHECK(change.needed <= report.capacity);
}

TEST_CASE("micro_batch: auto is the largest that fits") {
  const std::string base =
      "model: llama-2-7b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "train: {seq_len: 2048, global_batch: 512, precision: bf16}\nsoftware: deepspeed\nplan: {zero: 2, ";
  const CaseReport found = simulate_plainly(case_of(base + "micro_batch: auto}"));
  CHECK(found.fits);
  const auto b = found.subject.plan.micro_batch;
  CHECK_FALSE(simulate_plainly(case_of(base + "micro_batch: " + std::to_string(2 * b) + "}")).fits);
}

TEST_CASE("fewer bytes a parameter cannot need more memory: recompute and sequence parallelism") {
  const auto needed = [](const std::string& plan) {
    const CaseReport r = simulate_plainly(case_of(kSeven + "software: megatron-core\nplan: {" + plan + "}"));
    return r.memory[r.fullest].needed;
  };
  CHECK(needed("tp: 4, micro_batch: 2, recompute: full") < needed("tp: 4, micro_batch: 2, recompute: none"));
  CHECK(needed("tp: 4, micro_batch: 2, recompute: {blocks: 16}") < needed("tp: 4, micro_batch: 2, recompute: none"));
  CHECK(needed("tp: 4, micro_batch: 2, sequence_parallel: true") < needed("tp: 4, micro_batch: 2"));
}

TEST_CASE("gradients that come with the backward pass meet the activations of the second micro-batch only") {
  const auto peak = [](int batch, bool on_demand) {
    Case c = case_of(
        "model: llama-2-7b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
        "software: hf-trainer-fused\nplan: {zero: 3, micro_batch: 4, recompute: full}\n"
        "train: {seq_len: 4096, precision: bf16, global_batch: " +
        std::to_string(batch) + "}");
    c.software.gradients_on_demand = on_demand;
    return simulate_plainly(c).memory[0].parts.total();
  };
  const double gradients = 6.74e9 * 4 / 8;
  CHECK((peak(32, false) - peak(32, true)).value == doctest::Approx(gradients).epsilon(0.01));
  CHECK(peak(64, true) == peak(64, false));
  CHECK(peak(64, true) == peak(32, false));
}

TEST_CASE("the pool keeps the blocks of freed gradients: reserved counts them, allocated does not") {
  const std::string text =
      "model: llama-3-8b\ncluster: {gpu: h100-sxm5-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "software: torchtitan\nplan: {zero: 3, micro_batch: 1}\ntrain: {seq_len: 8192, precision: bf16, global_batch: 8}";
  Case c = case_of(text);
  const MemoryFigures passing = simulate_plainly(c).memory[0].figures;
  c.software.gradients_on_demand = false;
  const MemoryFigures staying = simulate_plainly(c).memory[0].figures;
  CHECK(passing.allocated < staying.allocated);
  CHECK(passing.reserved.value == doctest::Approx(staying.reserved.value));
}

TEST_CASE("logits are gone before the layers' backward passes need room to work") {
  Case c = case_of(kSeven + "software: hf-trainer-fused\nplan: {zero: 3, micro_batch: 4, recompute: full}");
  const auto peak = [&](double live) {
    c.software.loss_live_bytes_per_logit = live;
    return simulate_plainly(c).memory[0].parts;
  };
  const MemoryParts none = peak(0), few = peak(4), many = peak(40);
  CHECK(none.working_set.value > 0);
  CHECK(few.total() == none.total());  // fewer bytes than a layer being redone
  CHECK(many.working_set.value == 0);  // more: they are the peak themselves
  CHECK(many.logits.value == doctest::Approx(4 * 2048 * 32000 * 40.0));
}

TEST_CASE("at the MLP's activation a backward pass holds most: everything made again, and the gradients beside it") {
  const double tokens = 2048;
  const auto gradients = [&](const std::string& model, const std::string& software, const std::string& more = "") {
    const Case c = case_of("model: " + model + "\nsoftware: " + software +
                           "\ntrain: {seq_len: 2048, global_batch: 8, precision: bf16" + more +
                           "}\ncluster: {gpu: a100-sxm4-80gb, gpus: 8}\nplan: {recompute: full, micro_batch: 1}");
    const CaseReport r = simulate_plainly(c);
    const double working = stage_memories(c, r.step.layouts)[0].chunks[0].backward_working.value;
    return (working - kept_activations_of_layer(c, false, {}).value) / tokens;
  };
  // Of the layer's output and the MLP's input; of the activation, gate and up in the place of the activation.
  CHECK(gradients("llama-2-7b", "megatron-core") == doctest::Approx(4 * 4096 + (6 - 2) * 11008.0));
  // One function for the gradients of an MLP with adapters: the activation is still there.
  CHECK(gradients("llama-2-7b", "hf-trainer-fused", ", peft: lora") == doctest::Approx(4 * 4096 + 6 * 11008.0));
  CHECK(gradients("{arch: gpt, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}", "megatron-core") ==
        doctest::Approx(4 * 2048 + (4 - 2) * 8192.0));
}

TEST_CASE("FSDP with frozen weights holds the inputs of recomputed layers and their gradients to the end") {
  // Measured: with LoRA on four GPUs Mistral 7B takes 8.6 GB more for 32768 tokens than on one (fms-acceleration),
  // which is 2 bytes an element of 32 inputs.
  Case held = case_of(
      "model: llama-2-7b\nsoftware: hf-trainer-liger\ntrain: {seq_len: 2048, peft: lora}\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 4}\nplan: {zero: 3, recompute: full, micro_batch: 4}");
  const double layers = 32, each = 4096.0 * 4 * 2048 * 2;
  const double with = simulate_plainly(held).memory[0].parts.total().value;
  held.software.zero3_holds_frozen_inputs = false;
  CHECK(with - simulate_plainly(held).memory[0].parts.total().value == doctest::Approx(layers * each));
}

TEST_CASE("between forward and backward only what the loss saves stays alive") {
  Case c = case_of(kSeven + "software: megatron-core\nplan: {pp: 2, schedule: gpipe, micro_batch: 1}");
  const double logits = 2048 * 32000;
  const StagePeak last = simulate_plainly(c).memory[1];
  const double micro_batches = 64 / 4;
  CHECK(last.parts.logits.value ==
        doctest::Approx(logits * (c.software.loss_kept_bytes_per_logit * (micro_batches - 1) +
                                  c.software.loss_live_bytes_per_logit)));
}

TEST_CASE("a sharded optimizer step holds 20 bytes a parameter in FSDP and nothing gathered") {
  // Measured: 80.32 GB on two GPUs, 40.17 GB on four (fms-acceleration, full fine-tune of Llama 3 8B).
  for (const int gpus : {2, 4}) {
    const Case c = case_of(
        "model: llama-3-8b\nsoftware: hf-trainer-liger\nplan: {zero: 3, micro_batch: 1, recompute: full}\n"
        "train: {seq_len: 4096, precision: bf16, global_batch: " +
        std::to_string(gpus) +
        "}\n"
        "cluster: {gpu: a100-sxm4-80gb, gpus: " +
        std::to_string(gpus) + ", gpus_per_node: 8, intra: nvswitch}");
    const StagePeak peak = simulate_plainly(c).memory[0];
    CHECK(peak.parts.gathered_parameters.value == 0);
    CHECK(peak.figures.allocated.value == doctest::Approx(160.6e9 / gpus).epsilon(0.002));
  }
}

TEST_CASE("kept activations of a layer, tensor by tensor") {
  const auto kept = [](const std::string& software, const std::string& precision = "bf16",
                       const std::string& model = "llama-2-7b") {
    const Case c = case_of("model: " + model + "\nsoftware: " + software +
                           "\ncluster: {gpu: h100-sxm5-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
                           "train: {seq_len: 1024, global_batch: 8, precision: " +
                           precision + ", attention: flash2}\nplan: {micro_batch: 1}");
    return kept_activations_of_layer(c, false, {}).value / 1024;
  };
  const double h = 4096, f = 11008, a = 32;
  const double attention = 2 * 3 * h + 2 * h + 4 * a;
  CHECK(kept("megatron-core") == doctest::Approx(8 * h + attention + 6 * f));
  // Unfused, a norm keeps its input, an fp32 copy and the normalised product; the activated gate is kept too. DeepSpeed
  // on eight A800 (7B, sequence 4096, micro-batch 1): 24.4 GB of activations more without recompute than static.
  CHECK(kept("deepspeed") == doctest::Approx(16 * h + attention + 8 * f));
  CHECK(32 * 4096 * kept("deepspeed") == doctest::Approx(24.4e9).epsilon(0.02));
  // The compiler redoes the activated product.
  CHECK(kept("torchtitan") == doctest::Approx(8 * h + attention + 4 * f));
  // fp8 linears keep their inputs in one byte; the attention's tensors stay in 16 bits.
  CHECK(kept("megatron-core", "fp8") == doctest::Approx(6 * h + attention + 5 * f));
  CHECK(kept("torchtitan", "fp8") == kept("torchtitan"));
  // GPT: two dropout masks of a byte where the framework trains with dropout.
  CHECK(kept("megatron-lm", "bf16", "gpt-3-6.7b") - kept("llm-foundry", "bf16", "gpt-3-6.7b") ==
        doctest::Approx(2 * h));
}

TEST_CASE("DistributedDataParallel holds the gradients twice; autocast holds the weights in both precisions") {
  const auto peak = [](int gpus, const std::string& precision) {
    return simulate_plainly(case_of("model: gpt2-xl\nsoftware: hf-trainer\nplan: {micro_batch: 1}\n"
                                    "cluster: {gpu: h200, gpus_per_node: 8, intra: nvswitch, gpus: " +
                                    std::to_string(gpus) +
                                    "}\n"
                                    "train: {seq_len: 1024, precision: " +
                                    precision + ", global_batch: " + std::to_string(2 * gpus) + "}"))
        .memory[0]
        .parts;
  };
  CHECK(peak(1, "bf16").communication_buffers.value == 0);
  CHECK(peak(2, "bf16").communication_buffers == peak(2, "bf16").weights);
  CHECK(peak(1, "fp16").weights.value == doctest::Approx(3 * peak(1, "bf16").weights.value));
}

TEST_CASE("ZeRO-3 that gathers single matrices holds less of a wide layer than one that gathers blocks") {
  Case c = case_of(
      "model: {arch: gpt, layers: 8, hidden: 20480, heads: 128, ffn: 81920, vocab: 51200}\n"
      "cluster: {gpu: h200, gpus: 64, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 400, net: infiniband}\n"
      "software: megatron-deepspeed\n"
      "plan: {zero: 3, micro_batch: 1, recompute: full}\ntrain: {seq_len: 2048, global_batch: 64, precision: fp16}");
  const Bytes matrices = stage_memories(c, simulate_plainly(c).step.layouts)[0].gathered;
  c.software.zero3_max_live_parameters = 0;
  const Bytes blocks = stage_memories(c, simulate_plainly(c).step.layouts)[0].gathered;
  CHECK(matrices.value == doctest::Approx(4.0 * 81920 * 20480));  // 16-bit weight and gradient of one matrix
  CHECK(blocks.value > 4 * matrices.value);
}

TEST_CASE("where products work on fp8 copies, the 16-bit weights of linear layers are the optimizer's") {
  const auto parts = [](const std::string& precision, const std::string& plan) {
    return simulate_plainly(case_of("model: llama-2-7b\nsoftware: llmq\nplan: {micro_batch: 1, " + plan +
                                    "}\ncluster: {gpu: h100-sxm5-80gb, gpus: 4, gpus_per_node: 4, intra: nvswitch}\n"
                                    "train: {seq_len: 1024, global_batch: 4, precision: " +
                                    precision + "}"))
        .memory[0]
        .parts;
  };
  const double linear = 32 * (4 * 4096.0 * 4096 + 3 * 4096.0 * 11008);
  const MemoryParts fp8 = parts("fp8", "zero: 0"), bf16 = parts("bf16", "zero: 0");
  CHECK(bf16.weights.value - fp8.weights.value == doctest::Approx(linear));
  CHECK(fp8.optimizer.value - bf16.optimizer.value == doctest::Approx(2 * linear));
  // They are sharded with its states, and leave with them.
  const MemoryParts sharded = parts("fp8", "zero: 1"), offloaded = parts("fp8", "zero: 1, offload: optimizer");
  CHECK(sharded.weights.value == fp8.weights.value);
  CHECK(sharded.optimizer.value == doctest::Approx(fp8.optimizer.value / 4));
  CHECK(offloaded.optimizer.value == 0);
}

TEST_CASE("a larger micro-batch never needs less memory, whatever the framework") {
  const config::Catalogue profiles(data_folder().path + "/configs/software", "software profile");
  for (const std::string& name : profiles.names()) {
    CAPTURE(name);
    for (const char* plan : {"zero: 0, recompute: none", "zero: 3, recompute: full"}) {
      Bytes before;  // always several micro-batches: some frameworks keep whole gradients between them
      for (const int micro_batch : {1, 2, 4, 8}) {
        const CaseReport r = simulate_plainly(
            case_of("model: llama-2-7b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
                    "train: {seq_len: 2048, global_batch: 128, precision: bf16}\nsoftware: " +
                    name + "\nplan: {" + plan + ", micro_batch: " + std::to_string(micro_batch) + "}"));
        const StagePeak& peak = r.memory[0];
        CHECK(peak.needed >= before);
        CHECK(peak.figures.reserved >= peak.figures.allocated);
        CHECK(peak.figures.device > peak.figures.allocated);
        before = peak.needed;
      }
    }
  }
}

TEST_CASE("states may fill the memory to the brim, activations need room for the gaps between them") {
  // fms-acceleration on two A100-80GB: full fine-tunes that ran, with 80.3 GB of states while stepping, and that ran
  // out of memory.
  const auto fits = [](const std::string& model, int micro_batch, const std::string& software = "hf-trainer-liger") {
    return simulate_plainly(case_of("model: " + model + "\nsoftware: " + software +
                                    "\ncluster: {gpu: a100-sxm4-80gb, gpus: 2, gpus_per_node: 8, "
                                    "intra: nvswitch}\nplan: {zero: 3, recompute: full, micro_batch: " +
                                    std::to_string(micro_batch) +
                                    "}\ntrain: {seq_len: 4096, precision: bf16, global_batch: " +
                                    std::to_string(2 * micro_batch) + "}"))
        .fits;
  };
  CHECK(fits("llama-3-8b", 4));
  CHECK(fits("llama-3-8b", 8));
  CHECK(fits("mistral-7b", 4));
  CHECK_FALSE(fits("mistral-7b", 16, "hf-trainer-fused"));
}

TEST_CASE("every kind of communicator takes memory of the device") {
  const auto outside = [](const std::string& plan, int gpus) {
    const Case c =
        case_of("model: llama-2-7b\nsoftware: megatron-core\nplan: {" + plan +
                "}\ntrain: {seq_len: 2048, global_batch: 32, precision: bf16}\ncluster: {gpu: a100-sxm4-80gb, "
                "gpus_per_node: 8, intra: nvswitch, gpus: " +
                std::to_string(gpus) + "}");
    return outside_the_allocator(c).value / 1e9;
  };
  const double one = outside("micro_batch: 1", 1);
  CHECK(outside("tp: 2, micro_batch: 1", 2) == doctest::Approx(one + 0.8));
  CHECK(outside("tp: 2, pp: 2, micro_batch: 1", 8) == doctest::Approx(one + 3 * 0.8));
}

TEST_CASE("a run that fits shows no more memory than the GPU has") {
  Case c = case_of(kSeven + "software: megatron-core\nplan: {micro_batch: 1, recompute: full, zero: 1}");
  c.cluster.gpu.memory = simulate_plainly(c).memory[0].needed + Bytes{1e6};
  c.software.device_over_allocated = 2;
  const CaseReport report = simulate_plainly(c);
  CHECK(report.fits);
  CHECK(report.memory[0].figures.device == report.capacity);
}
