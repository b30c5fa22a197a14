#include "sim/interchange/import.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

namespace foretrain {
namespace {

using Fields = std::map<std::string, std::string>;

Fields fields_of(const std::optional<Imported>& imported) {
  REQUIRE(imported);
  Fields fields;
  for (const Imported::Taken& t : imported->taken) fields[t.path] = t.text;
  return fields;
}

std::optional<Imported> from_file(const std::string& text, const std::vector<Imported::Taken>& beside = {}) {
  Diagnostics diagnostics;
  const auto node = config::parse_yaml(text, "t.json", diagnostics);
  REQUIRE(node);
  return import_file(*node, beside, diagnostics);
}

std::optional<Imported> from_command(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ') words.emplace_back();
    if (c != ' ') words.back() += c;
  }
  Diagnostics diagnostics;
  return import_command(words, {}, diagnostics);
}

bool ignores(const Imported& imported, const std::string& theirs, const std::string& why) {
  for (const Imported::Ignored& i : imported.ignored) {
    if (i.theirs == theirs) return i.why.find(why) != std::string::npos;
  }
  return false;
}

TEST_CASE("a DeepSpeed configuration") {
  const auto imported = from_file(R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": true}, "fp16": {"enabled": false}, "steps_per_print": 10,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true}, "overlap_comm": true,
    "zero_quantized_weights": true, "zero_hpz_partition_size": 8}})");
  CHECK(fields_of(imported) == Fields{{"plan.micro_batch", "4"},
                                      {"train.precision", "bf16"},
                                      {"train.optimizer", "adamw"},
                                      {"plan.zero", "3"},
                                      {"plan.offload.optimizer", "cpu"},
                                      {"plan.overlap.grad_reduce", "true"},
                                      {"plan.zeropp.weights", "true"},
                                      {"plan.zeropp.secondary", "true"},
                                      {"plan.zeropp.group", "8"},
                                      {"software", "deepspeed"}});
  CHECK(ignores(*imported, "gradient_accumulation_steps", "auto"));
  CHECK(ignores(*imported, "optimizer.params.lr", "nothing about the step"));
}

TEST_CASE("ZeRO++ of a DeepSpeed configuration: each part by itself, and one rank a copy is none") {
  const auto with = [](const std::string& more) {
    return fields_of(from_file("{train_batch_size: 8, zero_optimization: {stage: 3, " + more + "}}"));
  };
  const Fields none = with("zero_hpz_partition_size: 1, zero_quantized_weights: false");
  for (const auto& [path, value] : none) CHECK(path.find("zeropp") == std::string::npos);
  const Fields both = with("zero_hpz_partition_size: 4, zero_quantized_gradients: true");
  CHECK(both.at("plan.zeropp.secondary") == "true");
  CHECK(both.at("plan.zeropp.gradients") == "true");
  CHECK(both.at("plan.zeropp.group") == "4");
}

TEST_CASE("an accelerate configuration") {
  CHECK(fields_of(
            from_file("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
                      "num_machines: 2\nnum_processes: 16\n"
                      "fsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP, fsdp_activation_checkpointing: true}\n")) ==
        Fields{{"software", "torch-fsdp"},
               {"train.precision", "bf16"},
               {"cluster.nodes", "2"},
               {"cluster.gpus", "16"},
               {"plan.zero", "2"},
               {"plan.recompute", "full"}});
}

TEST_CASE("a LLaMA-Factory configuration") {
  const auto imported = from_file(
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\nfinetuning_type: lora\nlora_rank: 8\nlora_target: "
      "all\n"
      "quantization_bit: 4\ncutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: "
      "true\n"
      "learning_rate: 1e-4\n");
  CHECK(fields_of(imported) == Fields{{"model", "meta-llama/Meta-Llama-3-8B"},
                                      {"train.peft.kind", "qlora"},
                                      {"train.peft.quant", "nf4"},
                                      {"train.peft.rank", "8"},
                                      {"train.peft.targets", "all-linear"},
                                      {"train.seq_len", "2048"},
                                      {"plan.micro_batch", "1"},
                                      {"train.precision", "bf16"},
                                      {"software", "llama-factory"}});
  CHECK(imported->format == "LLaMA-Factory configuration");
  CHECK(ignores(*imported, "learning_rate", "nothing"));
}

TEST_CASE("an axolotl configuration") {
  const auto imported = from_file(
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nadapter: qlora\nload_in_4bit: true\nlora_r: 32\n"
      "lora_target_linear: true\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\noptimizer: adamw_bnb_8bit\n"
      "bf16: true\nflash_attention: true\ngradient_checkpointing: true\ndeepspeed: deepspeed_configs/zero2.json\n"
      "lr_scheduler: cosine\n");
  CHECK(fields_of(imported) == Fields{{"model", "meta-llama/Llama-3.1-8B"},
                                      {"train.seq_len", "4096"},
                                      {"train.peft.kind", "qlora"},
                                      {"train.peft.quant", "nf4"},
                                      {"train.peft.rank", "32"},
                                      {"train.peft.targets", "all-linear"},
                                      {"plan.micro_batch", "2"},
                                      {"train.optimizer", "adamw8bit"},
                                      {"train.precision", "bf16"},
                                      {"train.attention", "flash2"},
                                      {"plan.recompute", "full"},
                                      {"plan.zero", "2"},
                                      {"software", "hf-deepspeed"}});
  CHECK(imported->format == "axolotl configuration");
  CHECK(ignores(*imported, "lr_scheduler", "nothing"));
}

TEST_CASE("a GPT-NeoX configuration, with either kind of dash") {
  for (const char dash : {'-', '_'}) {
    std::string text =
        "pipe-parallel-size: 4\nmodel-parallel-size: 2\nnum-layers: 44\nhidden-size: 6144\nnum-attention-heads: 64\n"
        "seq-length: 2048\nmax-position-embeddings: 2048\nno-weight-tying: true\n"
        "checkpoint-activations: true\n";
    std::replace(text.begin(), text.end(), '-', dash);
    const auto imported =
        from_file(text +
                  "zero_optimization: {stage: 1, overlap_comm: true}\nfp16: {enabled: true, loss_scale: 0}\n"
                  "train_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: 32\noptimizer: {type: Adam}\n");
    CHECK(fields_of(imported) == Fields{{"plan.pp", "4"},
                                        {"plan.tp", "2"},
                                        {"model.arch", "gpt"},
                                        {"model.layers", "44"},
                                        {"model.hidden", "6144"},
                                        {"model.heads", "64"},
                                        {"model.max_positions", "2048"},
                                        {"model.tied_embeddings", "false"},
                                        {"train.seq_len", "2048"},
                                        {"train.precision", "fp16"},
                                        {"train.optimizer", "adamw"},
                                        {"plan.micro_batch", "4"},
                                        {"plan.zero", "1"},
                                        {"plan.overlap.grad_reduce", "true"},
                                        {"plan.recompute", "full"},
                                        {"software", "gpt-neox"}});
    CHECK(imported->format == "GPT-NeoX configuration");
  }
  // No stages are no pipeline.
  CHECK_FALSE(fields_of(from_file("pipe_parallel_size: 0\nmodel_parallel_size: 1\n")).contains("plan.pp"));
}

TEST_CASE("a command line of Megatron") {
  const Fields fields = fields_of(from_command(
      "torchrun --nproc_per_node 8 --nnodes=4 pretrain_gpt.py --num-layers 48 --hidden-size 6144 --num-attention-heads "
      "48 "
      "--seq-length 2048 --micro-batch-size 1 --global-batch-size 512 --tensor-model-parallel-size 8 "
      "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 --sequence-parallel --bf16 "
      "--use-distributed-optimizer --recompute-granularity selective --lr 1e-4 --vocab-size 51200"));
  CHECK(fields == Fields{{"cluster.gpus", "32"},
                         {"cluster.gpus_per_node", "8"},
                         {"model.layers", "48"},
                         {"model.hidden", "6144"},
                         {"model.heads", "48"},
                         {"model.vocab", "51200"},
                         {"model.arch", "gpt"},
                         {"train.seq_len", "2048"},
                         {"plan.micro_batch", "1"},
                         {"train.global_batch", "512"},
                         {"plan.tp", "8"},
                         {"plan.pp", "2"},
                         {"plan.vpp", "6"},
                         {"plan.sequence_parallel", "true"},
                         {"train.precision", "bf16"},
                         {"plan.zero", "1"},
                         {"plan.recompute", "selective"},
                         {"software", "megatron-core"}});
}

TEST_CASE("recompute by blocks is of so many layers of every chunk") {
  const auto recompute = [](const std::string& flags) {
    return fields_of(
        from_command("torchrun pretrain_gpt.py --micro-batch-size 1 --pipeline-model-parallel-size 4 " + flags));
  };
  const Fields plain = recompute("--recompute-granularity full --recompute-method block --recompute-num-layers 3");
  CHECK(plain.at("plan.recompute.blocks") == "3");
  CHECK_FALSE(plain.contains("plan.recompute"));
  const Fields chunks = recompute(
      "--recompute-granularity full --recompute-method block --recompute-num-layers 3 "
      "--num-virtual-stages-per-pipeline-rank 2");
  CHECK(chunks.at("plan.vpp") == "2");
  CHECK(chunks.at("plan.recompute.blocks") == "6");
  const Fields uniform = recompute("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  CHECK(uniform.at("plan.recompute") == "full");
  CHECK_FALSE(uniform.contains("plan.recompute.blocks"));
}

TEST_CASE("a command line of the Trainer makes its batch from the GPUs") {
  const Fields fields = fields_of(
      from_command("deepspeed --num_gpus 4 train.py --model_name_or_path ./Llama --per_device_train_batch_size 2 "
                   "--gradient_accumulation_steps 8 --deepspeed ds.json --bf16 True"));
  CHECK(fields == Fields{{"cluster.gpus", "4"},
                         {"model.hf", "./Llama"},
                         {"plan.micro_batch", "2"},
                         {"train.global_batch", "64"},
                         {"train.precision", "bf16"},
                         {"software", "hf-deepspeed"}});
}

TEST_CASE("accumulation is a batch once the GPUs are known, and said to be left out until then") {
  const std::string text = R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8})";
  const auto alone = from_file(text);
  CHECK_FALSE(fields_of(alone).contains("train.global_batch"));
  CHECK(ignores(*alone, "gradient_accumulation_steps", "needs the micro-batch and the number of GPUs"));
  const auto with_gpus = from_file(text, {{"--gpus", "cluster.gpus", "16"}, {"--tp", "plan.tp", "2"}});
  CHECK(fields_of(with_gpus).at("train.global_batch") == "128");
  const auto given =
      from_file(text, {{"--gpus", "cluster.gpus", "16"}, {"--global-batch", "train.global_batch", "64"}});
  CHECK(fields_of(given).at("train.global_batch") == "64");
}

TEST_CASE("what is none of these is refused") {
  CHECK_FALSE(from_file("a: 1"));
  CHECK_FALSE(from_file("[1, 2]"));
  CHECK_FALSE(from_command("ls -l"));
  CHECK_FALSE(from_command("x --unknown 3"));
}

}  // namespace
}  // namespace foretrain
