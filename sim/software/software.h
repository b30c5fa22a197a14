#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/catalogue.h"
#include "sim/config/reader.h"

namespace foretrain {

// What a training framework does beside the mathematics: facts and counts, from configs/software/<name>.yaml.
// Every file there names where its figures come from. Units: milliseconds are host time; bytes are per element,
// per parameter or per logit as named; x_gb is 1e9 bytes.
struct Software {
  std::string name;
  std::string family;  // the profile its line of `inherits` ends at: frameworks of one family share most of their code
  // The profile whose fitted factors (hardware/calibrated/steps.yaml) hold for this one: itself, or the one that it is
  // another version of, where its own runs are too few to tell them apart.
  std::string fitted_as;

  // Elementwise kernels of one layer: norms, activations, rotary, residual, bias, dropout, casts.
  // HBM bytes = 2 * tokens * (hidden * h / sp + attention * q / tp + ffn * f / tp), with h the hidden size, q the width
  // of all query heads, f the MLP width and sp = tp under sequence parallelism, else 1. So a pass is one read or one
  // write of a 16-bit tensor of that width. `kernels` are launches beside the GEMMs and the attention kernel.
  struct ElementwisePasses {
    double hidden = 11, attention = 8, ffn = 2;
    int kernels = 18;
  };
  ElementwisePasses forward{11, 8, 2, 18}, backward{19, 10, 3, 30};

  // Unfused (standard) attention: scale, mask and softmax are one kernel. Megatron's kernel wants
  // micro_batch * heads / tp to be a multiple of 4 (fused_softmax_multiple); otherwise the scores take three times the
  // traffic and the host the extra milliseconds of a layer's pass.
  bool fused_softmax = true;
  int fused_softmax_multiple = 1;
  double unfused_softmax_forward_ms = 0.5, unfused_softmax_backward_ms = 0.4;

  // Bytes of a cast to fp8 per element of a linear's input (K) and of its output gradient (N).
  double fp8_input_cast_bytes = 3, fp8_gradient_cast_bytes = 3;

  // Host time to issue one layer's forward / backward, and what tensor parallelism adds to each pass.
  double host_forward_ms = 0.5, host_backward_ms = 0.6, host_tensor_parallel_ms = 0.12;
  double host_zero3_hook_ms = 0.0;     // extra per layer and pass under ZeRO-3
  double micro_batch_overhead_ms = 5;  // scheduler, embedding, head and loss issue, once a micro-batch
  double step_overhead_ms = 10;        // once an optimizer step
  double jitter_per_doubling = 0.004;  // relative slowdown of a step for every doubling of the GPUs

  // Head and loss: bytes moved per logit (forward and backward together), bytes alive per logit at the peak, and of
  // those what stays between the forward and the backward pass (never more than are alive).
  double loss_bytes_per_logit = 24, loss_live_bytes_per_logit = 8, loss_kept_bytes_per_logit = 4;
  bool pads_vocabulary = true;           // to a multiple of 128 * tp
  double odd_vocabulary_slowdown = 1.5;  // factor on the head GEMMs if the vocabulary, as trained, is odd

  // Kept activations of a layer and token, in bytes (u = tp with sequence parallelism, else 1; a, k query and
  // key-value heads of dimension d; s sequence length, counted only with standard attention; i = bytes of an element
  // of a linear layer's input, 2, or fp8_kept_input_bytes in fp8 runs):
  //   gpt:    h (layernorm_kept_bytes + 2i + 2)/u + (2 d (2a + 2k) + (gelu_kept_bytes + i) f)/tp + 5 a s/tp
  //   llama:  h (rmsnorm_kept_bytes + 2i)/u + (2 d (2a + 2k) + (gated_kept_bytes + i) f + 4 a)/tp
  double rmsnorm_kept_bytes = 4;    // both norms: their 16-bit inputs; unfused norms also keep fp32 copies and factors
  double layernorm_kept_bytes = 4;  // both norms: their inputs, in fp32 under autocast
  double gated_kept_bytes = 4;      // gate and up; unfused kernels also keep the activated gate
  double gelu_kept_bytes = 2;       // its input; the tanh form written out operation by operation keeps four tensors
  // The activation's output, input of the down projection, is kept; a compiler redoes it in the backward pass.
  bool keeps_activation_output = true;
  bool dropout_masks = true;        // of GPT models: two of a byte each, the 2 in the first line above
  double fp8_kept_input_bytes = 1;  // linear layers of fp8 runs keep their inputs as quantised
  // Where parts of a layer are redone, work stops at the last tensor that the backward pass needs; otherwise a module
  // runs to its end.
  bool recompute_stops_early = false;
  // `recompute: selective` redoes every second layer in full instead of the attention core of each.
  bool selective_is_every_other_layer = false;

  // Adapters (LoRA). Fused: a low-rank product adds to the linear layer's output in its epilogue; otherwise scaling and
  // adding are kernels of their own, and adapters in fp32 (4 bytes) beside 16-bit weights add casts of input and
  // output.
  bool lora_fused = false;
  double lora_adapter_bytes = 2;
  bool lora_merged_projections = false;  // one adapter for Q, K and V, one for gate and up
  std::optional<config::Node>
      lora_targets;  // as in train.peft.targets, where a scenario does not say; none: all-linear
  // Under ZeRO-3 the hooks of frozen weights hold the input of every recomputed layer, and with it the gradient of
  // that, until the backward pass is through (register_multi_grad_hook in PyTorch's FSDP).
  bool zero3_holds_frozen_inputs = false;
  // Quantised frozen weights.
  double unquantised_bytes = 2;        // of embedding, head and norms beside quantised matrices
  bool quantises_head = false;         // the LM head as well
  bool quantised_keeps_input = false;  // quantised linear layers keep their input although they have no gradient
  bool zero3_shards_quantised = true;  // ZeRO-3 shards them (not their constants)
  // Adapters and the frozen weights beside them are one flat tensor under ZeRO-3, whose gradient takes memory for both.
  bool zero3_gradients_of_frozen = false;

  // Data parallelism and ZeRO.
  double gradient_bytes = 2;        // of a gradient element as reduced
  bool overlap_grad_reduce = true;  // beside the last micro-batch's backward; default when the scenario is silent
  bool overlap_param_gather = true;
  double bucket_bytes = 25 * 1024 * 1024.0;  // gradient bucket as reduced; infinite = one bucket
  double bucket_bytes_per_rank = 0;          // a bucket is at least this times the data-parallel ranks
  bool one_bucket_without_overlap = false;
  double communication_buffer_bytes = 0;  // held for buckets beside the gradients themselves
  bool zero1_all_reduce = false;          // ZeRO-1 reduces all gradients (all-reduce), then gathers weights
  bool zero2_all_reduce = false;          // so does ZeRO-2, and every rank keeps its part of the sum
  // Bytes of device memory that a gradient takes on its way to a reduction under ZeRO: copied into a bucket, divided by
  // the number of ranks, copied to the order that the collective wants.
  double zero_bucket_copy_bytes = 0;
  bool zero1_return_by_broadcast = false;  // updated weights come back by one broadcast a rank, not a gather
  bool zero2_reduce_each_micro_batch = true;
  int zero3_gathers_with_recompute =
      2;                      // gathers of a layer's weights in a micro-batch: forward, backward (, recompute)
  bool zero3_overlap = true;  // gathers are prefetched beside compute
  int zero3_prefetch_layers = 1;
  // Gradients are scattered once a step and whole until then (FSDP's no_sync), not after every micro-batch.
  bool zero3_accumulates_whole = false;
  // Over several nodes every rank's shard traffic is one flow over its own NIC's rate, however many NICs a node has.
  bool zero3_single_network_flow = false;
  bool zeropp = false;  // has ZeRO++ (plan.zeropp)
  // The second copy of ZeRO++ is written whenever gathered weights are released, not only by a step's first gather, and
  // the host waits for it: its work for the next module starts on an idle GPU.
  bool zeropp_rewrites_second_copy = false;

  // Pipeline and tensor parallelism.
  bool pipeline_scatter_gather = true;       // each tensor-parallel rank sends 1/tp of the boundary tensor
  bool pipeline_overlap_interleaved = true;  // with vpp > 1 transfers run beside compute
  // The interleaved schedule with no more micro-batches than stages runs all forward passes before any backward pass.
  bool interleaved_all_forward_first = false;
  bool tp_overlap = false;  // default of overlap.tp
  // ZeRO-2 and -3 with pp > 1: a stage's weights are gathered in its first forward pass and stay so to the last
  // backward pass, where the gradients are scattered. Otherwise the framework cannot do it.
  bool sharded_pipeline_gathers_once = false;
  // Zero-bubble schedules: stages step without waiting for the norm of all gradients, which is checked afterwards (Qi
  // et al., arXiv 2401.10241, section 4), so that the next step starts on each stage as soon as it is through.
  bool optimizer_post_validated = false;
  double tp_overlap_hidden = 0.84;  // share of TP collectives hidden when overlapped
  // The backward pass of a column-parallel linear sums its input gradient beside the product for its weight gradient.
  bool tp_backward_overlap = false;
  // Context parallelism: the least share of the exchange of keys and values that stays exposed beside the attention,
  // and what the causal mask costs where sequences are not cut evenly (1 = balanced, as Megatron's zigzag).
  double cp_exposed = 0.35, cp_imbalance = 1.0;

  // Mixtures of experts.
  struct Experts {
    // How tokens reach their experts. all_to_all: every copy of a token travels by itself. two_level: a token travels
    // once to every node with one of its experts and once to every GPU there (DeepEP, HybridEP). all_gather: every
    // rank of the group gets all tokens and picks its own.
    enum class Dispatch { all_to_all, two_level, all_gather } dispatch = Dispatch::all_to_all;
    bool tensor_parallel = true;  // default of plan.etp: tp where that is legal; false: 1
    // One kernel for all local experts; else a library call for each, which takes call_us at least.
    bool grouped_kernel = false;
    // One expert after the other with all its kernels, so that the backward pass has the gradients of one at a time.
    bool one_by_one = false;
    // The activation between an expert's two products, and the casts of what it makes, belong to their kernels.
    bool fused_activation = false;
    double call_us = 9;
    // Passes over the tensor of all copies, [tokens * top_k, hidden], to bring it into the experts' order and back, and
    // the share of the bandwidth of streaming kernels that they reach: rows move one by one.
    double permute_forward = 6, permute_backward = 6, permute_efficiency = 0.55;
    int kernels_forward = 24, kernels_backward = 30;  // router, permutation and the like
    // Of experts with biases: passes over the results, [rows, hidden], to add each its own.
    double bias_forward = 0, bias_backward = 0;
    // Host time that a layer with experts adds to a pass, and of it what the GPU always waits for: without a limit on
    // the tokens of an expert their number is copied to the host before the next kernels can be launched.
    double host_forward_ms = 0.5, host_backward_ms = 0.6, stall_ms = 0;
    bool overlap = false;          // default of overlap.ep: dispatch and combine beside another micro-batch's layers
    double overlap_exposed = 0.3;  // least share of them that stays exposed then
    bool fp8_dispatch = false;     // in fp8 runs tokens travel to their experts as fp8, and results back in 16 bits
    bool shared_overlap = false;   // shared experts run beside dispatch and combine
    double kept_copies = 2;        // tensors of all copies kept for the backward pass
  };
  Experts experts;
  // Habits that changed between versions: of the first whose text a run's version mentions (case is ignored).
  struct ExpertVariant {
    std::string mentions;
    Experts experts;
  };
  std::vector<ExpertVariant> expert_variants;

  // Memory in bytes a parameter of a 16-bit run, before ZeRO shards them: weights, gradients, optimizer state, and what
  // the optimizer step adds while it runs (sharded like the optimizer state).
  double weight_bytes = 2, gradient_store_bytes = 2, optimizer_bytes = 12, step_extra_bytes = 0;
  struct StateBytes {
    double weights = 2, gradients = 2, optimizer = 12, step_extra = 0;
    bool operator==(const StateBytes&) const = default;
  };
  std::optional<StateBytes> state_zero0, state_zero3;  // where this stage is another code path
  std::optional<StateBytes> state_adapter;             // of adapters
  std::optional<StateBytes> state_zero0_fp16;          // stage 0 in fp16, where that is autocast over fp32 weights
  std::optional<double> bf16_gradient_store_bytes;     // in bf16 runs: gradients accumulated in fp32 beside 16-bit ones
  double zero3_pipeline_extra_bytes = 0;  // ZeRO-3 with pp > 1: weights and gradients of the stage that stay unsharded

  // fp8 copies of a linear layer's weight in fp8 runs: where there are any, products work on them, and the 16-bit
  // weight is part of the optimizer's state.
  double fp8_weight_copy_bytes = 0;
  // Gradients come to be in the first backward pass and go after the optimizer step (set_to_none of PyTorch), so that
  // the activations of the first micro-batch do not meet them. Otherwise they are buffers that stay.
  bool gradients_on_demand = false;
  bool bucket_copy_of_gradients = false;  // ZeRO 0: gradients are copied into buckets that stay
  // ZeRO-3 gathers matrix by matrix, at most so many parameters ahead; 0 = blocks, zero3_prefetch_layers ahead.
  double zero3_max_live_parameters = 0;
  double zero3_step_group_parameters = 0;  // ZeRO-3 steps so many parameters of the shard at a time; 0 = all at once

  // Which of the above hold for a run.
  StateBytes state_bytes(int zero, bool bf16, bool fp16 = false) const;
  // Whether every rank gets the sum of all gradients, however it shards them afterwards.
  bool reduces_whole_gradients(int zero) const;
  // Size of a gradient bucket as reduced; infinite = all gradients at once.
  double gradient_bucket_bytes(int data_parallel_ranks, bool overlapped) const;

  double optimizer_traffic_bytes = 46;  // bytes moved a parameter held by the rank in the optimizer step
  double gradient_traffic_bytes = 8;    // and a gradient held by the rank: norm, clipping, zeroing
  double device_over_allocated = 1.1;   // nvidia-smi over allocator (fragmentation, library workspaces)
  double reserved_over_allocated = 1.06;
  // Of activations, logits and working sets, the share lost to gaps that the allocator cannot close when memory runs
  // out; states are allocated once and leave none. Study of published runs near the limit: 7B models fully sharded over
  // two GPUs of 80 GB step with 80.3 GB of states, and fail with 78 GB of which 36 are activations; device memory of 56
  // runs grows by 1.15 times their activations. 0 where all tensors are placed once.
  double activation_fragmentation = 0.12;
  double context_gb = 0.6;       // CUDA context and kernels, on the device only
  double communicator_gb = 0.8;  // buffers of each kind of communicator a rank is in: tensor, pipeline, data, context

  // What can be kept off the GPU, and how (plan.offload).
  struct Offload {
    bool optimizer = false, params = false, activations = false, nvme = false;
    bool together = false;  // weights, gradients and optimizer only at once (FSDP's CPUOffload)
    // Of the activations only the inputs of layers leave, which recompute of a whole layer starts from.
    bool layer_inputs_only = false;
    enum class Adam {
      vectorised,  // on the host, one pass over the states (DeepSpeedCPUAdam)
      torch,       // on the host, a few vectorised operations on each tensor
      torch_2020,  // on the host, a loop of operations over each tensor
      gpu,         // on the GPU, the states streamed through it
    };
    Adam adam = Adam::vectorised;
    bool pinned = true;                // copies from and to page-locked memory
    bool pinned_rounds_up = true;      // to a power of two, as PyTorch's allocator of host memory
    bool gradients_leave = true;       // under ZeRO-2 and 3 gradients are kept where the optimizer is
    bool gradients_read_back = false;  // a micro-batch's gradients are added on the GPU to those already on the host
    bool overlap_gradients = true;     // they are copied beside the backward pass
    // Every GPU copies whole blocks from host memory, where all parts are, instead of its own part for a gather.
    bool whole_blocks = false;
    // The optimizer updates the 16-bit weights themselves, which go to the host with its states where they do not fit.
    bool weights_are_masters = false;
    int threads_per_rank = 1;        // of the optimizer where a host has several ranks; 0 = its share of the cores
    double stage3_pass_bytes = 0;    // of host memory a parameter, in passes beside Adam and clipping under ZeRO-3
    bool overlap_nvme = false;       // the next part of the states is read while this one is updated
    double host_gradient_bytes = 4;  // of a gradient in host memory: what the optimizer reads
    double host_process_gb = 0;      // of host memory a rank takes beside all states
  };
  Offload offload;

  // The parallelism it has. Plans that are looked for keep to it; a plan that somebody writes is theirs.
  struct Offers {
    bool tensor = true, sequence = true, context = true, pipeline = true;
    bool interleaved = true, zero_bubble = false, dualpipe = false;  // pipeline schedules beside 1F1B
    int interleaved_stages = 2;                                      // the fewest that it interleaves
    bool rank_orders = true;                                         // stages of a replica may lie beside each other
    bool selective_recompute = true;
    bool block_recompute = false;  // of so many layers of a stage
    // Activations in host memory: where nothing is recomputed and there is no pipeline, with everything recomputed
    // (checkpoints), or either.
    enum class Activations { stay, without_recompute, checkpoints, leave } activations = Activations::stay;
    bool sharding_groups = true;       // ZeRO over the ranks of a node instead of all
    bool overlap_in_pipelines = true;  // gradients are reduced beside backward passes with several stages, too
    bool offload_alone = true;         // states in host memory with one data-parallel rank, too
    std::array<bool, 4> zero = {true, true, true, true};
  };
  Offers offers;
  // What says how it runs: flags of Megatron-LM, a configuration of DeepSpeed, or something of its own.
  enum class Launcher { other, megatron, deepspeed } launcher = Launcher::other;

  // What was offered at another time: of the first whose text a run's version mentions (case is ignored).
  struct OfferVariant {
    std::string mentions;
    Offers offers;
  };
  std::vector<OfferVariant> offer_variants;

  std::string source;
};

// Loads a profile by name or alias; an unknown name is an error with suggestions. A profile may be written as changes
// to another (`inherits: <name>`); a circle of those is an error.
// `version`: free text about versions and options. A profile may list `variants: [{mentions: TEXT, profile: NAME}]`;
// the first whose text occurs in it (case is ignored) is loaded instead.
std::optional<Software> load_software(const std::string& software_folder, std::string_view name,
                                      SourcePosition asked_at, Diagnostics& diagnostics, std::string_view version = {});

}  // namespace foretrain
