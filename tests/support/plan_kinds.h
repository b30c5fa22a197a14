#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/cases.h"

// Every kind of plan that is simulated, on a small model: what must hold for all of them is tested on these.
namespace foretrain::testing {

inline const std::string kSmallGpt =
    "model: {arch: gpt, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}\n"
    "software: megatron-lm\n";
inline const std::string kSmallLlama =
    "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\n"
    "software: torch-fsdp\n";

inline std::string small_llama(const std::string& software) {
  return "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\nsoftware: " +
         software + "\n";
}
inline std::string small_gpt(const std::string& software) {
  return "model: {arch: gpt, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}\nsoftware: " + software +
         "\n";
}

inline const std::string kA100Node = "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n";
inline std::string a100_nodes(int nodes, int nics) {
  return "cluster: {gpu: a100-sxm4-80gb, gpus: " + std::to_string(8 * nodes) +
         ", gpus_per_node: 8, intra: nvswitch, nics: " + std::to_string(nics) + ", nic_gbps: 200, net: infiniband}\n";
}
inline std::string train(int batch) {
  return "train: {seq_len: 1024, global_batch: " + std::to_string(batch) + ", precision: bf16}\n";
}

inline const std::string kExperts =
    "model: {arch: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 4, vocab: 32000, experts: 16, top_k: 2, "
    "expert_ffn: 1408}\nsoftware: megatron-core\n";
inline const std::string kLatent =
    "model: {arch: moe, layers: 6, hidden: 2048, heads: 16, ffn: 8192, vocab: 32000, experts: 32, top_k: 4, "
    "expert_ffn: 1024, shared_expert_ffn: 1024, first_dense_layers: 1, mtp: 1, "
    "mla: {q_lora: 512, kv_lora: 256, qk_nope: 64, qk_rope: 32, v: 64}}\nsoftware: megatron-core\n";

inline const std::string kSparse =
    "model: {arch: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 4, vocab: 32000, experts: 16, top_k: 2, "
    "expert_ffn: 1408}\n";
inline const std::string kSparseForFsdp = kSparse + "software: torch-fsdp\n";

struct PlanKind {
  std::string name;
  std::string yaml;
  std::function<void(Case&)> change = {};  // of what a scenario cannot say
};

inline Case case_of_kind(const PlanKind& kind) {
  Case c = case_of(kind.yaml);
  if (kind.change) kind.change(c);
  return c;
}

inline const std::vector<PlanKind>& plan_kinds() {
  static const std::vector<PlanKind> kinds = {
      {"data parallel", kSmallGpt + kA100Node + train(32) + "plan: {dp: 8, micro_batch: 2}"},
      {"data parallel, no overlap",
       kSmallGpt + kA100Node + train(32) + "plan: {dp: 8, micro_batch: 2, overlap: {grad_reduce: false}}"},
      {"ZeRO-1 with gathers beside the forward pass",
       kSmallGpt + kA100Node + train(32) +
           "plan: {zero: 1, micro_batch: 2, overlap: {grad_reduce: true, param_gather: true}}"},
      {"ZeRO-2, every micro-batch",
       kSmallLlama + kA100Node + train(32) + "plan: {zero: 2, micro_batch: 2, recompute: full}"},
      {"FSDP", kSmallLlama + kA100Node + train(16) + "plan: {zero: 3, micro_batch: 1}"},
      {"ZeRO-3, serial",
       "model: {arch: llama, layers: 4, hidden: 2048, heads: 16, ffn: 5632, vocab: 32000}\nsoftware: deepspeed\n" +
           a100_nodes(2, 8) + train(16) + "plan: {zero: 3, micro_batch: 1, recompute: full}"},
      {"ZeRO++ over two nodes", small_llama("deepspeed") + a100_nodes(2, 8) + train(16) +
                                    "plan: {zero: 3, zeropp: true, micro_batch: 1, recompute: full}"},
      {"ZeRO++ with weights on the host",
       small_llama("deepspeed") + kA100Node + train(16) +
           "plan: {zero: 3, zeropp: {weights: true, secondary: true, group: 4}, offload: optimizer+params, "
           "micro_batch: 1, recompute: full}"},
      {"nvfp4",
       small_llama("megatron-core") +
           "cluster: {gpu: b200-sxm-180gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
           "train: {seq_len: 1024, global_batch: 32, precision: nvfp4}\nplan: {tp: 2, zero: 1, micro_batch: 2}"},
      {"HSDP over two nodes",
       kSmallLlama + a100_nodes(2, 4) + train(16) + "plan: {zero: 3, shard_group: 8, micro_batch: 1}"},
      {"tensor and data parallel on the same links",
       kSmallGpt + kA100Node + train(32) + "plan: {tp: 4, micro_batch: 2, overlap: {grad_reduce: true}}"},
      {"tensor parallel with sequence parallel over nodes",
       kSmallGpt + a100_nodes(4, 8) + train(32) +
           "plan: {tp: 8, pp: 2, sequence_parallel: true, micro_batch: 2, overlap: {grad_reduce: true}}"},
      {"tensor parallel across nodes", kSmallGpt + a100_nodes(2, 8) + train(8) + "plan: {tp: 16, micro_batch: 2}"},
      {"tensor, pipeline and data parallel in one node",
       kSmallGpt + kA100Node + train(32) + "plan: {tp: 2, pp: 2, micro_batch: 2}"},
      {"1F1B over nodes", kSmallGpt + a100_nodes(2, 4) + train(64) + "plan: {pp: 4, micro_batch: 2}"},
      {"1F1B with ZeRO-1 and overlap", kSmallGpt + a100_nodes(2, 4) + train(64) +
                                           "plan: {pp: 4, zero: 1, micro_batch: 2, overlap: {grad_reduce: true}}"},
      {"interleaved", kSmallGpt + kA100Node + train(32) + "plan: {pp: 4, vpp: 2, micro_batch: 2}"},
      {"GPipe", kSmallGpt + kA100Node + train(32) + "plan: {pp: 4, schedule: gpipe, micro_batch: 2}"},
      {"zero bubble, steps validated afterwards",
       kSmallGpt + kA100Node + train(32) + "plan: {pp: 4, schedule: zero-bubble, micro_batch: 1}"},
      {"zero bubble over nodes with ZeRO-1", kSmallGpt + a100_nodes(2, 4) + train(64) +
                                                 "plan: {pp: 4, zero: 1, schedule: zero-bubble, micro_batch: 2, "
                                                 "overlap: {grad_reduce: true, param_gather: true}}"},
      {"zero bubble in twice the memory, tensor parallel",
       kSmallGpt + kA100Node + train(32) +
           "plan: {pp: 4, tp: 2, schedule: zero-bubble-2p, recompute: full, micro_batch: 1}"},
      {"zero bubble there and back, chunks without layers",
       "model: {arch: gpt, layers: 6, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}\nsoftware: megatron-lm\n" +
           kA100Node + train(32) + "plan: {pp: 4, schedule: zero-bubble-v, ends_as_layers: 2, micro_batch: 1}"},
      {"zero bubble there and back with FSDP",
       kSmallLlama + a100_nodes(2, 4) + train(32) +
           "plan: {pp: 2, zero: 3, schedule: zero-bubble-v, recompute: full, micro_batch: 1}"},
      {"DualPipe", kSmallGpt + a100_nodes(2, 4) + train(32) + "plan: {pp: 4, schedule: dualpipe, micro_batch: 1}"},
      {"DualPipeV with data and tensor parallelism",
       kSmallGpt + a100_nodes(2, 4) + train(64) +
           "plan: {pp: 4, tp: 2, schedule: dualpipe-v, micro_batch: 1, overlap: {grad_reduce: true}}"},
      {"1F1B with FSDP", kSmallLlama + a100_nodes(2, 4) + train(32) + "plan: {pp: 4, zero: 3, micro_batch: 1}"},
      {"interleaved, uneven groups and layers",
       kSmallGpt + kA100Node + train(28) + "plan: {pp: 4, vpp: 2, layers: [0, 1, 2, 1, 1, 2, 1, 0], micro_batch: 2}"},
      {"parts of layers redone, tensor and sequence parallel over nodes",
       kSmallGpt + a100_nodes(2, 4) + train(32) +
           "plan: {pp: 2, tp: 4, sequence_parallel: true, recompute: {modules: [mlp, layernorm, core_attn]}, "
           "micro_batch: 2}"},
      {"all but some outputs redone, zero bubble",
       kSmallGpt + kA100Node + train(32) +
           "plan: {pp: 4, tp: 2, schedule: zero-bubble, recompute: {saved: [qkv, attention]}, micro_batch: 1}"},
      {"PCIe through host memory",
       kSmallLlama + "cluster: {gpu: rtx4090-24gb, gpus: 4, gpus_per_node: 4, intra: pcie, p2p: false}\n" + train(16) +
           "plan: {zero: 2, micro_batch: 1}"},
      {"PCIe switches", kSmallGpt + "cluster: {gpu: a100-pcie-80gb, gpus: 8, gpus_per_node: 8, intra: pcie-switch}\n" +
                            train(32) + "plan: {tp: 2, micro_batch: 2, overlap: {grad_reduce: true}}"},
      {"NVLink pairs", kSmallLlama +
                           "cluster: {gpu: a100-pcie-80gb, gpus: 4, gpus_per_node: 4, intra: nvlink-pairs}\n" +
                           train(8) + "plan: {zero: 3, micro_batch: 1}"},
      {"NVLink mesh of V100",
       "model: {arch: gpt, layers: 4, hidden: 1024, heads: 16, vocab: 51200}\nsoftware: megatron-lm\n"
       "cluster: {gpu: v100-sxm2-32gb, gpus: 8, gpus_per_node: 8, intra: nvlink-mesh}\n"
       "train: {seq_len: 1024, global_batch: 16, precision: fp16, attention: standard}\n"
       "plan: {tp: 2, micro_batch: 1, overlap: {grad_reduce: true}}"},
      {"one NIC for a node", kSmallGpt + a100_nodes(4, 1) + train(64) + "plan: {tp: 2, micro_batch: 2}"},
      {"64 GPUs, three ways", kSmallGpt + a100_nodes(8, 4) + train(64) + "plan: {tp: 2, pp: 4, micro_batch: 2}"},
      {"context parallel in a node",
       kSmallLlama + kA100Node + train(8) + "plan: {cp: 4, zero: 1, micro_batch: 1, overlap: {grad_reduce: true}}"},
      {"context parallel over nodes, gathered, with tensor and pipeline parallel",
       "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 8192, vocab: 32000}\n"
       "software: megatron-core\n" +
           a100_nodes(4, 8) + train(16) +
           "plan: {tp: 4, cp: 4, cp_kind: all-gather, pp: 2, sequence_parallel: true, micro_batch: 2}"},
      {"experts in a node", kExperts + kA100Node + train(16) + "plan: {ep: 8, zero: 1, micro_batch: 1}"},
      {"experts over nodes, two levels",
       kExperts + a100_nodes(2, 8) + train(32) + "plan: {ep: 16, expert_dispatch: two-level, micro_batch: 2}"},
      {"experts beside tensor and pipeline parallelism, over nodes",
       kLatent + a100_nodes(4, 8) + train(64) +
           "plan: {tp: 2, pp: 2, ep: 8, etp: 1, sequence_parallel: true, zero: 1, micro_batch: 2}"},
      {"experts interleaved, with a window and half a NIC each",
       "model: {arch: moe, layers: 8, hidden: 1024, heads: 16, vocab: 32000, experts: 8, top_k: 2, expert_ffn: 1024, "
       "window: 128, window_every: 2}\nsoftware: megatron-core\n" +
           a100_nodes(2, 4) + train(32) + "plan: {pp: 2, vpp: 2, ep: 8, micro_batch: 1, overlap: {ep: true}}"},
      {"experts split by tensor parallelism, beside context parallelism",
       kExperts + a100_nodes(2, 8) + train(8) +
           "plan: {tp: 2, cp: 2, ep: 4, etp: 2, sequence_parallel: true, zero: 1, micro_batch: 1}"},
      {"experts gathered", kExperts + a100_nodes(2, 8) + train(16) + "plan: {ep: 16, expert_dispatch: all-gather}"},
      {"experts fully sharded, unevenly loaded",
       kLatent + kA100Node + train(16) + "plan: {ep: 4, zero: 3, expert_imbalance: 1.5, recompute: full}"},
      {"ZeRO-Offload",
       small_llama("deepspeed") + kA100Node + train(32) + "plan: {zero: 2, micro_batch: 2, offload: optimizer}"},
      {"ZeRO-3 with weights and optimizer on the host",
       small_llama("deepspeed") + kA100Node + train(16) + "plan: {zero: 3, micro_batch: 1, offload: optimizer+params}"},
      {"ZeRO-Infinity over two nodes", small_llama("deepspeed") + a100_nodes(2, 4) + train(16) +
                                           "plan: {zero: 3, micro_batch: 1, offload: {optimizer: nvme, params: nvme}}"},
      {"FSDP with CPU offload",
       kSmallLlama + "cluster: {gpu: rtx4090-24gb, gpus: 4, gpus_per_node: 4, intra: pcie, p2p: false}\n" + train(16) +
           "plan: {zero: 3, micro_batch: 1, offload: optimizer+params}"},
      {"activations on the host, beside tensor-parallel traffic over PCIe",
       small_gpt("megatron-core") +
           "cluster: {gpu: a100-pcie-80gb, gpus: 8, gpus_per_node: 8, intra: pcie-switch, gpus_per_pcie_switch: 4}\n" +
           train(16) + "plan: {tp: 2, zero: 1, micro_batch: 2, offload: activations}"},
      {"half of the optimizer on the host, in a pipeline",
       small_gpt("megatron-core") + a100_nodes(2, 4) + train(32) +
           "plan: {pp: 4, zero: 1, micro_batch: 2, offload: {optimizer: cpu, fraction: 0.5}}"},
      {"updates one step late, state streamed through the GPU of a rented part of a node",
       small_llama("deepspeed") + "cluster: {gpu: a100-sxm4-80gb, gpus: 6, gpus_per_node: 6, intra: nvswitch}\n" +
           train(12) + "plan: {zero: 2, micro_batch: 1, offload: {optimizer: cpu, delayed_update: true}}"},
      {"states streamed through GPUs with shared host memory",
       small_llama("llmq") + "cluster: {gpu: rtx4090-24gb, gpus: 4, gpus_per_node: 4, intra: pcie, p2p: false}\n" +
           train(16) +
           "plan: {zero: 3, micro_batch: 1, offload: {optimizer: cpu, params: cpu, gradients: cpu, activations: cpu}}"},
      {"heads dealt out over nodes, with tensor parallelism",
       small_llama("megatron-core") + a100_nodes(2, 8) + train(8) +
           "plan: {tp: 2, cp: 4, cp_kind: ulysses, sequence_parallel: true, zero: 1, micro_batch: 1}"},
      {"heads dealt out, more ranks than key-value heads, parts redone",
       small_llama("megatron-core") + a100_nodes(2, 4) + train(8) +
           "plan: {cp: 16, cp_kind: ulysses, recompute: {modules: [core_attn, mlp]}, micro_batch: 1}"},
      {"a window and context parallelism",
       "model: {arch: llama, layers: 4, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000, window: 128}\n"
       "software: megatron-core\n" +
           kA100Node + train(8) + "plan: {cp: 4, micro_batch: 1}"},
      {"adapters of experts and of latent attention",
       "model: {arch: moe, layers: 6, hidden: 2048, heads: 16, ffn: 8192, vocab: 32000, experts: 32, top_k: 4, "
       "expert_ffn: 1024, shared_expert_ffn: 1024, first_dense_layers: 1, "
       "mla: {q_lora: 512, kv_lora: 256, qk_nope: 64, qk_rope: 32, v: 64}}\nsoftware: megatron-core\n" +
           a100_nodes(2, 8) +
           "train: {seq_len: 1024, global_batch: 32, precision: bf16, peft: {kind: lora, rank: 16}}\n"
           "plan: {ep: 8, zero: 1, micro_batch: 1}"},
      {"quantised experts under FSDP",
       kSparseForFsdp + kA100Node +
           "train: {seq_len: 1024, global_batch: 16, precision: bf16, peft: {kind: qlora, rank: 16}}\n"
           "plan: {ep: 2, zero: 3, recompute: full, micro_batch: 1}"},
      {"experts sharded inside nodes",
       kSparseForFsdp + a100_nodes(4, 4) + train(32) + "plan: {ep: 4, zero: 3, shard_group: 8, micro_batch: 1}"},
      {"experts' optimizer on the host", kSparse + "software: deepspeed\n" + a100_nodes(2, 8) + train(16) +
                                             "plan: {ep: 8, zero: 2, micro_batch: 1, offload: optimizer}"},
      {"experts on the host under ZeRO-3, activations too",
       kSparse + "software: deepspeed\n" + a100_nodes(2, 8) + train(16) +
           "plan: {ep: 4, zero: 3, recompute: full, micro_batch: 1, "
           "offload: {optimizer: cpu, params: cpu, activations: cpu}}"},
      {"parts of layers with experts redone",
       kLatent + a100_nodes(2, 8) + train(32) +
           "plan: {tp: 2, ep: 8, etp: 1, sequence_parallel: true, micro_batch: 1, "
           "recompute: {modules: [moe, mla_up_proj, layernorm]}}"},
      {"activations of experts and shared experts redone",
       kLatent + kA100Node + train(16) +
           "plan: {tp: 2, ep: 4, etp: 1, sequence_parallel: true, micro_batch: 1, "
           "recompute: {modules: [moe_act, shared_experts, core_attn]}}"},
      {"experts with a capacity", kExperts + kA100Node + train(16) + "plan: {ep: 8, capacity_factor: 1.25}"},
      {"loss in parts, tensor parallel over nodes",
       kSmallGpt + a100_nodes(2, 8) +
           "train: {seq_len: 1024, global_batch: 16, precision: bf16, loss: {chunks: 4}}\n"
           "plan: {tp: 16, sequence_parallel: true, micro_batch: 2}"},
      {"loss in parts, zero bubble",
       kSmallGpt + kA100Node +
           "train: {seq_len: 1024, global_batch: 32, precision: bf16, loss: {chunks: 8}}\n"
           "plan: {pp: 4, tp: 2, schedule: zero-bubble, micro_batch: 1}"},
      {"loss without logits, in a pipeline",
       kSmallGpt + a100_nodes(2, 4) +
           "train: {seq_len: 1024, global_batch: 32, precision: bf16, loss: fused}\n"
           "plan: {pp: 4, tp: 2, micro_batch: 1}"},
      {"weights updated in the backward pass",
       kSmallLlama + kA100Node +
           "train: {seq_len: 1024, global_batch: 8, precision: bf16, optimizer_in_backward: true}\n"
           "plan: {zero: 3, micro_batch: 1}"},
      {"Muon with ZeRO-1 and experts",
       kExperts + a100_nodes(2, 8) +
           "train: {seq_len: 1024, global_batch: 32, precision: bf16, optimizer: muon}\n"
           "plan: {ep: 8, zero: 1, micro_batch: 1}"},
      {"fp8 by blocks, weights gathered as fp8",
       small_gpt("megatron-core") +
           "cluster: {gpu: h100, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 400, "
           "net: infiniband}\ntrain: {seq_len: 1024, global_batch: 32, precision: fp8, "
           "fp8: {recipe: blockwise, parameter_gather: true}}\nplan: {zero: 1, micro_batch: 1}"},
      {"an optimizer that is paged out",
       small_llama("hf-trainer") +
           "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
           "train: {seq_len: 1024, global_batch: 8, precision: bf16, optimizer: paged-adamw8bit}\n"
           "plan: {zero: 1, micro_batch: 1}",
       [](Case& c) { c.cluster.gpu.memory = simulate_plainly(c).memory[0].needed - Bytes{2e7}; }},
      {"a slow NIC",
       kSmallGpt +
           "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 200, "
           "net: infiniband, overrides: [{link: nic, node: 1, index: 3, factor: 0.25}]}\n" +
           train(32) + "plan: {tp: 4, micro_batch: 2}"},
  };
  return kinds;
}

}  // namespace foretrain::testing
