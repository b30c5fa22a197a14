// Keys as in deepspeed.ai/docs/config-json, accelerate's commands/config/config_args.py, transformers'
// TrainingArguments, LLaMA-Factory's hparams, axolotl's utils/schemas, GPT-NeoX's megatron/neox_arguments,
// Megatron-LM's training/arguments.py and torch.distributed.run.
#include "sim/interchange/import_rules.h"

#include <initializer_list>

namespace foretrain {
namespace {

using Rules = std::vector<ImportRule>;
using Words = std::vector<std::pair<const char*, const char*>>;

const Words kPlaces = {{"none", "none"}, {"cpu", "cpu"}, {"nvme", "nvme"}};
const Words kOptimizers = {{"adam", "adamw"},
                           {"adamw", "adamw"},
                           {"adamw_torch", "adamw"},
                           {"adamw_torch_fused", "adamw"},
                           {"adamw_hf", "adamw"},
                           {"fusedadam", "adamw"},
                           {"adamw_8bit", "adamw8bit"},
                           {"adamw_bnb_8bit", "adamw8bit"},
                           {"paged_adamw_8bit", "paged-adamw8bit"},
                           {"sgd", "sgd"},
                           {"lion", "lion"},
                           {"lamb", "lamb"},
                           {"adafactor", "adafactor"}};

Words when_true(const char* ours) { return {{"true", ours}, {"false", ""}, {"1", ours}, {"0", ""}}; }

Rules joined(std::initializer_list<Rules> parts) {
  Rules all;
  for (const Rules& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Rules trainer() {
  return {
      {"model_name_or_path", "model"},
      {"cutoff_len", "train.seq_len"},
      {"max_seq_length", "train.seq_len"},
      {"max_length", "train.seq_len"},
      {"model_max_length", "train.seq_len"},
      {"block_size", "train.seq_len"},
      {"per_device_train_batch_size", "plan.micro_batch"},
      {"gradient_accumulation_steps", "import.accumulation"},
      {"bf16", "train.precision", when_true("bf16")},
      {"fp16", "train.precision", when_true("fp16")},
      {"optim", "train.optimizer", kOptimizers},
      {"gradient_checkpointing", "plan.recompute", when_true("full")},
      {"disable_gradient_checkpointing", "plan.recompute", {{"true", "none"}, {"false", "full"}}},
      {"flash_attn",
       "train.attention",
       {{"fa2", "flash2"}, {"fa3", "flash3"}, {"sdpa", "flash2"}, {"disabled", "standard"}}},
      {"attn_implementation",
       "train.attention",
       {{"flash_attention_2", "flash2"}, {"flash_attention_3", "flash3"}, {"sdpa", "flash2"}, {"eager", "standard"}}},
      {"finetuning_type", "train.peft.kind", {{"lora", "lora"}, {"full", "none"}}},
      {"quantization_bit", "import.quantised", {{"4", "nf4"}, {"8", "int8"}}},
      {"load_in_4bit", "import.quantised", when_true("nf4")},
      {"lora_rank", "train.peft.rank"},
      {"lora_r", "train.peft.rank"},
      {"lora_target", "train.peft.targets", {{"all", "all-linear"}, {"q_proj,v_proj", "qv"}}},
  };
}

Rules launcher() {
  return {
      {"nproc_per_node", "import.gpus_per_node"},
      {"nproc_per_gpu", "import.gpus_per_node"},
      {"num_gpus", "import.gpus_per_node"},
      {"nnodes", "import.nodes"},
      {"num_nodes", "import.nodes"},
      {"num_processes", "cluster.gpus"},
      {"num_machines", "cluster.nodes"},
      {"mixed_precision", "train.precision", {{"bf16", "bf16"}, {"fp16", "fp16"}, {"fp8", "fp8"}, {"no", "fp32"}}},
  };
}

Rules megatron() {
  return {
      {"num_layers", "model.layers"},
      {"hidden_size", "model.hidden"},
      {"ffn_hidden_size", "model.ffn"},
      {"num_attention_heads", "model.heads"},
      {"num_query_groups", "model.kv_heads"},
      {"kv_channels", "model.head_dim"},
      {"vocab_size", "model.vocab"},
      {"max_position_embeddings", "model.max_positions"},
      {"swiglu", "model.gated", when_true("true")},
      {"untie_embeddings_and_output_weights", "model.tied_embeddings", when_true("false")},
      {"disable_bias_linear", "model.linear_biases", when_true("false")},
      {"add_qkv_bias", "model.qkv_bias", when_true("true")},
      {"normalization", "import.rms_norm", {{"rmsnorm", "true"}, {"layernorm", ""}}},
      {"num_experts", "model.experts"},
      {"moe_router_topk", "model.top_k"},
      {"moe_ffn_hidden_size", "model.expert_ffn"},
      {"seq_length", "train.seq_len"},
      {"global_batch_size", "train.global_batch"},
      {"micro_batch_size", "plan.micro_batch"},
      {"bf16", "train.precision", when_true("bf16")},
      {"fp16", "train.precision", when_true("fp16")},
      {"fp8_format", "train.precision", {{"hybrid", "fp8"}, {"e4m3", "fp8"}}},
      {"use_flash_attn", "train.attention", when_true("flash2")},
      {"optimizer", "train.optimizer", kOptimizers},
      {"tensor_model_parallel_size", "plan.tp"},
      {"pipeline_model_parallel_size", "plan.pp"},
      {"num_layers_per_virtual_pipeline_stage", "import.layers_of_chunk"},
      {"num_virtual_stages_per_pipeline_rank", "plan.vpp"},
      {"context_parallel_size", "plan.cp"},
      {"expert_model_parallel_size", "plan.ep"},
      {"expert_tensor_parallel_size", "plan.etp"},
      {"sequence_parallel", "plan.sequence_parallel", when_true("true")},
      {"use_distributed_optimizer", "plan.zero", when_true("1")},
      {"data_parallel_sharding_strategy",
       "plan.zero",
       {{"no_shard", ""}, {"optim", "1"}, {"optim_grads", "2"}, {"optim_grads_params", "3"}}},
      {"recompute_granularity", "plan.recompute", {{"full", "full"}, {"selective", "selective"}}},
      {"recompute_activations", "plan.recompute", when_true("selective")},
      {"recompute_method", "import.recompute_method"},
      {"recompute_num_layers", "import.recompute_layers"},
      {"overlap_grad_reduce", "plan.overlap.grad_reduce", when_true("true")},
      {"overlap_param_gather", "plan.overlap.param_gather", when_true("true")},
      {"tp_comm_overlap", "plan.overlap.tp", when_true("true")},
  };
}

}  // namespace

std::span<const ImportRule> deepspeed_rules() {
  static const Rules rules = {
      {"zero_optimization.stage", "plan.zero"},
      {"zero_optimization.offload_optimizer.device", "plan.offload.optimizer", kPlaces},
      {"zero_optimization.offload_param.device", "plan.offload.params", kPlaces},
      {"zero_optimization.overlap_comm", "plan.overlap.grad_reduce", {{"true", "true"}, {"false", "false"}}},
      {"zero_optimization.zero_quantized_weights", "plan.zeropp.weights", when_true("true")},
      {"zero_optimization.zero_quantized_gradients", "plan.zeropp.gradients", when_true("true")},
      {"zero_optimization.zero_hpz_partition_size", "import.second_copy_ranks"},
      {"train_batch_size", "train.global_batch"},
      {"train_micro_batch_size_per_gpu", "plan.micro_batch"},
      {"gradient_accumulation_steps", "import.accumulation"},
      {"bf16.enabled", "train.precision", when_true("bf16")},
      {"fp16.enabled", "train.precision", when_true("fp16")},
      {"optimizer.type", "train.optimizer", kOptimizers},
  };
  return rules;
}

std::span<const ImportRule> accelerate_rules() {
  static const Rules rules = joined(
      {launcher(),
       {
           {"distributed_type",
            "software",
            {{"deepspeed", "hf-deepspeed"}, {"fsdp", "torch-fsdp"}, {"multi_gpu", "hf-trainer"}}},
           {"deepspeed_config.zero_stage", "plan.zero"},
           {"deepspeed_config.offload_optimizer_device", "plan.offload.optimizer", kPlaces},
           {"deepspeed_config.offload_param_device", "plan.offload.params", kPlaces},
           {"deepspeed_config.gradient_accumulation_steps", "import.accumulation"},
           {"fsdp_config.fsdp_sharding_strategy",
            "plan.zero",
            {{"full_shard", "3"}, {"1", "3"}, {"shard_grad_op", "2"}, {"2", "2"}, {"no_shard", "0"}, {"3", "0"}}},
           {"fsdp_config.fsdp_reshard_after_forward", "plan.zero", {{"true", "3"}, {"false", "2"}}},
           {"fsdp_config.fsdp_activation_checkpointing", "plan.recompute", when_true("full")},
           {"fsdp_config.fsdp_offload_params", "plan.offload", when_true("optimizer+params")},
       }});
  return rules;
}

std::span<const ImportRule> trainer_rules() {
  static const Rules rules = trainer();
  return rules;
}

std::span<const ImportRule> axolotl_rules() {
  static const Rules rules =
      joined({launcher(),
              trainer(),
              {
                  {"base_model", "model"},
                  {"sequence_len", "train.seq_len"},
                  {"micro_batch_size", "plan.micro_batch"},
                  {"optimizer", "train.optimizer", kOptimizers},
                  {"flash_attention", "train.attention", when_true("flash2")},
                  {"sdp_attention", "train.attention", when_true("flash2")},
                  {"eager_attention", "train.attention", when_true("standard")},
                  {"adapter", "train.peft.kind", {{"lora", "lora"}, {"qlora", "qlora"}}},
                  {"load_in_8bit", "import.quantised", when_true("int8")},
                  {"lora_target_linear", "train.peft.targets", when_true("all-linear")},
                  {"tensor_parallel_size", "plan.tp"},
                  {"context_parallel_size", "plan.cp"},
                  {"sequence_parallel_degree", "plan.cp"},
                  {"dp_shard_size", "plan.shard_group"},
                  // The files that come with it, by their names.
                  {"deepspeed",
                   "plan.zero",
                   {{"deepspeed_configs/zero1.json", "1"},
                    {"deepspeed_configs/zero1_torch_compile.json", "1"},
                    {"deepspeed_configs/zero2.json", "2"},
                    {"deepspeed_configs/zero2_torch_compile.json", "2"},
                    {"deepspeed_configs/zero3.json", "3"},
                    {"deepspeed_configs/zero3_bf16.json", "3"}}},
                  {"fsdp_config.fsdp_sharding_strategy",
                   "plan.zero",
                   {{"full_shard", "3"}, {"shard_grad_op", "2"}, {"no_shard", "0"}}},
                  {"fsdp_config.reshard_after_forward", "plan.zero", {{"true", "3"}, {"false", "2"}}},
                  {"fsdp_config.activation_checkpointing", "plan.recompute", when_true("full")},
                  {"fsdp_config.fsdp_activation_checkpointing", "plan.recompute", when_true("full")},
              }});
  return rules;
}

std::span<const ImportRule> neox_rules() {
  static const std::span<const ImportRule> of_deepspeed = deepspeed_rules();
  static const Rules rules =
      joined({launcher(),
              Rules(of_deepspeed.begin(), of_deepspeed.end()),
              {
                  {"pipe_parallel_size", "import.stages"},  // 0: no pipeline
                  {"model_parallel_size", "plan.tp"},
                  {"num_layers", "model.layers"},
                  {"hidden_size", "model.hidden"},
                  {"intermediate_size", "model.ffn"},
                  {"num_attention_heads", "model.heads"},
                  {"num_kv_heads", "model.kv_heads"},
                  {"max_position_embeddings", "model.max_positions"},
                  {"no_weight_tying", "model.tied_embeddings", {{"true", "false"}, {"false", "true"}}},
                  {"activation", "model.gated", {{"swiglu", "true"}, {"geglu", "true"}, {"gelu", ""}}},
                  {"norm", "import.rms_norm", {{"rmsnorm", "true"}, {"layernorm", ""}}},
                  {"seq_length", "train.seq_len"},
                  {"precision",
                   "train.precision",
                   {{"bfloat16", "bf16"}, {"bf16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}}},
                  {"checkpoint_activations", "plan.recompute", {{"true", "full"}, {"false", "none"}}},
                  {"sequence_parallel", "plan.sequence_parallel", when_true("true")},
              }});
  return rules;
}

std::span<const ImportRule> megatron_rules() {
  static const Rules rules = megatron();
  return rules;
}

std::span<const ImportRule> command_rules(bool of_megatron) {
  static const Rules of_trainer_command = joined({launcher(), trainer()});
  static const Rules of_megatron_command = joined({launcher(), megatron()});
  return of_megatron ? of_megatron_command : of_trainer_command;
}

}  // namespace foretrain
