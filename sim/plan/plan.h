#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.h"
#include "sim/hardware/cluster_description.h"
#include "sim/model/model.h"
#include "sim/plan/optimizer.h"
#include "sim/plan/peft.h"
#include "sim/plan/recompute.h"
#include "sim/software/software.h"

namespace foretrain {

// How the logits and their loss are made.
struct Loss {
  enum class Kind {
    as_framework,  // all logits of a micro-batch at a time, as the software profile says
    // The tokens in parts, one after the other: a part's logits, its loss and all gradients that follow from it are
    // made in the forward pass, and only that part's logits are there (Liger, arXiv 2410.10989, section 3.2).
    chunked,
    // One kernel makes logits in registers, and again in the backward pass: none are in memory (Cut Cross-Entropy,
    // arXiv 2411.09009).
    fused,
  } kind = Kind::as_framework;
  std::int64_t chunks = 1;
  bool operator==(const Loss&) const = default;
};

// How linear layers of an fp8 run are made fp8. Attention, head, router, norms and the sums of gradients stay as they
// are (NVIDIA Transformer Engine; DeepSeek-V3, arXiv 2412.19437, section 3.3). Rates of fp8 products on Hopper are of
// kernels with block scales, which add up in fp32 on the CUDA cores every 128 elements (hardware/measurements).
struct Fp8 {
  enum class Recipe {
    as_framework,  // as the software profile says
    tensor,        // a scale a tensor, from the amax of steps before (delayed scaling)
    block,  // a scale for every 128 elements of a row and of a column, of weights for every 128 x 128 (DeepSeek-V3)
  } recipe = Recipe::as_framework;
  bool gathers_parameters = false;  // sharded weights of layers travel as fp8
  std::optional<bool> dispatch;     // so do tokens to their experts, and gradients; absent: as the framework does
  // Bytes of scales beside an element of an activation, and of a weight.
  double activation_scale_bytes() const { return recipe == Recipe::block ? 4.0 / 128 : 0.0; }
  double weight_scale_bytes() const { return recipe == Recipe::block ? 4.0 / (128 * 128) : 0.0; }
  bool operator==(const Fp8&) const = default;
};

// What is trained, independent of how it is spread.
struct Train {
  std::int64_t seq_len = 2048;
  std::int64_t global_batch = 0;  // sequences per optimizer step over all GPUs; 0 = not given, see default_global_batch
  Precision precision = Precision::bf16;
  Optimizer optimizer = Optimizer::adamw;
  MasterWeights master_weights = MasterWeights::as_framework;
  std::optional<double> gradient_bytes;  // of a gradient as reduced, where the scenario says (train.grad_reduce)
  Peft peft;
  AttentionKernel attention = AttentionKernel::flash2;
  Loss loss;
  Fp8 fp8;
  bool clip_gradients = true;
  // Every block's weights are updated as soon as the backward pass has made their gradient, which is then freed (LOMO,
  // arXiv 2306.09782; optimizer_in_bwd of torchtune).
  bool optimizer_in_backward = false;
  double tokens = 0.0;  // total work, 0 = not given
  // Where they were written, for messages.
  SourcePosition precision_position, attention_position, peft_position, fp8_position, optimizer_in_backward_position;
};

enum class PipelineSchedule {
  gpipe,
  one_f_one_b,
  interleaved,
  zero_bubble,     // ZB-H1: weight gradients fill the bubble, activations as 1F1B (arXiv 2401.10241, section 2)
  zero_bubble_2p,  // ZB-H2: twice the activations of 1F1B, next to no bubble
  zero_bubble_v,   // ZB-V: two chunks a stage that go there and back again, activations as 1F1B (section 6)
  dualpipe,        // both directions at once, over two copies of the model (DeepSeek-V3, arXiv 2412.19437, figure 5)
  dualpipe_v,      // the same over one copy, whose chunks go there and back again (github.com/deepseek-ai/DualPipe)
};
inline constexpr int kPipelineSchedules = 8;
const char* to_string(PipelineSchedule schedule);
// Whether a backward pass runs in two halves, Pass::input_gradient and Pass::weight_gradient.
bool splits_backward(PipelineSchedule schedule);
bool is_zero_bubble(PipelineSchedule schedule);
// Two chunks a stage: the second runs through the stages from the last to the first.
bool goes_there_and_back(PipelineSchedule schedule);

// How the ranks of a context-parallel group see each other's keys and values.
enum class ContextParallel {
  ring,        // passed round the group, each part beside the attention with the one before
  all_gather,  // gathered before the attention starts
  ulysses,     // an all-to-all deals every rank some heads of the whole sequence, and another deals the output back
               // (DeepSpeed-Ulysses, arXiv 2309.14509)
};
const char* to_string(ContextParallel kind);

// What is kept in host memory or on NVMe drives instead of on the GPU (ZeRO-Offload, arXiv 2101.06840; ZeRO-Infinity,
// arXiv 2104.07857), after defaults are filled in.
struct Offload {
  enum class Place { gpu, cpu, nvme };
  Place optimizer = Place::gpu;    // fp32 weights and moments, and with them the update unless the framework keeps it
  Place params = Place::gpu;       // the 16-bit weights of a rank, copied in block by block
  Place gradients = Place::gpu;    // they leave in the backward pass of every micro-batch; only gpu or cpu
  Place activations = Place::gpu;  // what a layer keeps for its backward pass; only gpu or cpu
  double fraction = 1.0;           // of the optimizer state, or of the activations if those alone are offloaded
  // The host updates while the next step computes with weights one step old (ZeRO-Offload, section 4.3).
  bool delayed_update = false;
  // Of the optimizer state, bytes of every rank that the driver moves to host memory and back in a step because they do
  // not fit (paged optimizers, arXiv 2305.14314, section 3). Found by simulation, not asked for.
  Bytes paged;
  int zero_stage = 0;  // as asked for: code that one GPU runs too, where `zero` itself shards nothing

  bool any() const {
    return optimizer != Place::gpu || params != Place::gpu || gradients != Place::gpu || activations != Place::gpu ||
           paged.value > 0;
  }
  // Of the optimizer state, and of the activations: 0 where they stay on the GPU.
  double of_optimizer() const { return optimizer == Place::gpu ? 0.0 : fraction; }
  double of_activations() const { return activations == Place::gpu ? 0.0 : (optimizer == Place::gpu ? fraction : 1.0); }
  bool operator==(const Offload&) const = default;
};
const char* to_string(Offload::Place place);

// What ZeRO-3 sends in the way of ZeRO++ (arXiv 2306.10209), after defaults are filled in.
struct ZeroPlusPlus {
  bool weights = false;    // qwZ: gathered as int8
  bool gradients = false;  // qgZ: scattered as int4, first inside a group and then between groups
  bool secondary = false;  // hpZ: every group holds the weights a second time, for the gathers of backward passes
  int group = 0;           // ranks of a group, by default those of a node

  bool any() const { return weights || gradients || secondary; }
  bool operator==(const ZeroPlusPlus&) const = default;
};

// Ways to spread a job over its ranks, and the order in which ranks are numbered along them: the first varies fastest.
enum class Dimension : std::uint8_t { tp, cp, ep, dp, pp };
using RankOrder = std::array<Dimension, 5>;
inline constexpr RankOrder kUsualOrder = {Dimension::tp, Dimension::cp, Dimension::ep, Dimension::dp, Dimension::pp};
const char* to_string(Dimension dimension);
std::string to_string(const RankOrder& order);  // "tp-cp-ep-dp-pp"

// How the job is spread over the GPUs, after defaults are filled in.
struct Plan {
  int tp = 1, pp = 1, vpp = 1, dp = 1;
  int cp = 1;  // ranks that split every sequence between them
  // Experts are spread over ep ranks and each of them over etp. In layers with experts the tp * cp * dp ranks of a
  // stage are regrouped: etp * ep ranks hold all experts, and what is left of them holds the same ones.
  int ep = 1, etp = 1;
  Software::Experts::Dispatch expert_dispatch = Software::Experts::Dispatch::all_to_all;
  double expert_imbalance = 1.0;  // tokens of the busiest expert rank over the mean
  // Tokens that every expert gets, over the mean: more are dropped, fewer are padded, so that no rank waits to learn
  // how many there are (GShard, arXiv 2006.16668, section 2.2). 0: no limit.
  double expert_capacity = 0.0;
  ContextParallel context = ContextParallel::ring;
  bool sequence_parallel = false;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool all_forward_first = false;    // interleaved, with no more micro-batches than stages
  std::vector<std::int64_t> layers;  // of each chunk in the model's order; empty = spread evenly
  int ends_as_layers = 0;            // where they are spread: 1 = the loss counts as a layer, 2 = the embedding too
  int zero = 0;                      // 0..3; 3 is also FSDP
  int shard_group = 0;               // ranks that share one copy of the sharded state (HSDP); 0 = all dp ranks
  ZeroPlusPlus zeropp;
  Recompute recompute;
  Offload offload;
  std::int64_t micro_batch = 1;  // the largest, where shares differ
  // What a data-parallel rank works on in a step. A slower one may get less of it (Whale, arXiv 2011.09208, section
  // 3.4; Poplar, arXiv 2408.12596).
  struct Share {
    std::int64_t micro_batch = 1, micro_batches = 1;
    std::int64_t sequences() const { return micro_batch * micro_batches; }
    auto operator<=>(const Share&) const = default;
  };
  std::vector<Share> shares;  // of every data-parallel rank; empty: all have the same
  // Still to be dealt out in proportion to the speeds of the GPUs: see balanced_plan().
  struct ToBalance {
    bool batch = false, layers = false;
    bool any() const { return batch || layers; }
    bool operator==(const ToBalance&) const = default;
  } to_balance;
  RankOrder order = kUsualOrder;
  struct Overlap {
    bool grad_reduce = true, param_gather = true, tp = false, p2p = false, ep = false;
  };
  Overlap overlap;

  int gpus() const { return tp * cp * pp * dp; }
  // Tokens that the busiest expert rank works on, over the mean.
  double expert_load() const { return expert_capacity > 0 ? expert_capacity : expert_imbalance; }
  // Ranks that hold the same parameters and reduce their gradients together.
  int data_ranks() const { return dp * cp; }
  // Chunks that one copy of the model is cut into.
  int model_chunks() const { return schedule == PipelineSchedule::dualpipe ? pp : pp * vpp; }
  // The same for the experts' parameters.
  int expert_data_ranks() const { return tp * cp * dp / (ep * etp); }
  int expert_shard_ranks() const {
    if (zero == 0) return 1;
    return shard_group > 0 ? tp * shard_group / (ep * etp) : expert_data_ranks();
  }
  // Experts lie on the ranks like everything else, so that their parameters are sharded and reduced with the rest.
  bool experts_as_rest() const { return ep == 1 && etp == tp; }
  int shard_ranks() const { return zero == 0 ? 1 : (shard_group > 0 ? shard_group : data_ranks()); }
};

// What a scenario wrote, before defaults: absent fields are nullopt.
struct PlanRequest {
  bool automatic = false;  // `plan: auto`: everything is to be found
  std::optional<std::int64_t> tp, pp, vpp, dp, cp, ep, etp, zero, shard_group, micro_batch, ends_as_layers;
  std::optional<std::vector<std::int64_t>> layers;
  bool layers_auto = false;
  std::optional<ContextParallel> context;
  bool micro_batch_auto = false;
  // What differs between data-parallel ranks: a number for each of them, or for those of each kind of GPU.
  struct PerRank {
    std::vector<std::int64_t> of_rank;                        // empty: by GPU; one: of all ranks
    std::map<std::string, std::int64_t, std::less<>> of_gpu;  // by its name in the catalogue
  };
  std::optional<PerRank> micro_batch_of_rank, micro_batches_of_rank;
  bool micro_batches_auto = false;
  bool splits_unevenly() const { return micro_batch_of_rank || micro_batches_of_rank || micro_batches_auto; }
  std::optional<bool> sequence_parallel, overlap_grad_reduce, overlap_param_gather, overlap_tp, overlap_p2p, overlap_ep;
  std::optional<Software::Experts::Dispatch> expert_dispatch;
  std::optional<double> expert_imbalance, expert_capacity;
  std::optional<PipelineSchedule> schedule;
  std::optional<ZeroPlusPlus> zeropp;
  std::optional<Recompute> recompute;
  struct OffloadRequest {
    Offload::Place optimizer = Offload::Place::gpu, params = Offload::Place::gpu, activations = Offload::Place::gpu;
    std::optional<Offload::Place> gradients;
    double fraction = 1.0;
    bool delayed_update = false;
  };
  std::optional<OffloadRequest> offload;  // absent if nothing is offloaded
  std::optional<RankOrder> order;
  SourcePosition position;                                       // of the plan map, for messages about the whole
  std::map<std::string, SourcePosition, std::less<>> positions;  // of the values that were written, by key

  SourcePosition position_of(std::string_view key) const;  // of the map where the key was not written
};

// Reads a scenario's `train` and `plan` maps (design: section 6). Everything wrong is reported; features that are not
// simulated are reported as unsupported by name ("plan.cp", "train.peft=lora"), unless their value switches them off
// (1, none, false). nullopt if anything was reported as wrong or unsupported.
std::optional<Train> read_train(const config::Node& node, Diagnostics& diagnostics);
std::optional<PlanRequest> read_plan(const config::Node& node, Diagnostics& diagnostics);

// Fills in defaults and checks that the plan is legal for this model, batch, cluster and framework. Every broken rule
// is an error that says why and lists the legal values ("tp=3 does not divide heads=32; legal: 1, 2, 4, 8, 16, 32").
// dp is what is left of the GPUs. A micro-batch that is still to be found (auto) is 1 for now; rules that need the
// global batch are skipped while it is not given. What is legal but odd is a warning, what is assumed a note.
std::optional<Plan> resolve_plan(const PlanRequest& request, const Model& model, const Train& train,
                                 const ClusterDescription& cluster, const Software& software, Diagnostics& diagnostics);

// Micro-batches of a pipeline, and with them the batch, of a run that states none: one for every stage, or two where
// the schedule needs as many.
std::int64_t default_micro_batches(const Plan& plan);
std::int64_t default_global_batch(const Plan& plan);

// Whether a schedule can pass so many micro-batches. The two-way schedules need two for every stage, and an even number
// where each way takes its own half.
bool feeds_schedule(const Plan& plan, std::int64_t micro_batches);

// The plan with more state in host memory: the optimizer's, then the weights too (with ZeRO-3); nullopt if the
// framework cannot or it is there already. And with what is in host memory on NVMe drives instead.
std::optional<Plan> with_more_on_host(const Plan& plan, const Software& software);
std::optional<Plan> with_more_on_nvme(const Plan& plan, const Software& software);

// Sizes that follow from a plan.
// Micro-batches of a pipeline in a step, of that with most of them where shares differ.
std::int64_t micro_batches(const Plan& plan, const Train& train);
Plan::Share share_of(const Plan& plan, const Train& train, int data_rank);
// The plan with these shares of its data-parallel ranks; none that are all alike.
Plan with_shares(Plan plan, std::vector<Plan::Share> shares);
// Whether all data-parallel ranks have to pass the same number of micro-batches, because they communicate in each.
bool meets_every_micro_batch(const Plan& plan, const Software& software);
// Passes of layers in a step, over all stages of one pipeline and all its micro-batches. Beyond the most, a step would
// take minutes and gigabytes to simulate, and no real run is near.
inline constexpr std::int64_t kMostLayerPasses = 1'000'000;
std::int64_t layer_passes(const Plan& plan, const Model& model, const Train& train);
// Layers of each of the plan's model_chunks() in the order a token meets them. Unless the plan says, they are spread
// evenly; when they do not divide, chunks get one layer fewer from both ends inwards, the last one (which also holds
// the LM head) before the first (the embedding): the way Llama 3 and Bloom were cut. Where the ends count as layers,
// their chunks hold that many fewer, maybe none. The loss does with prediction modules, and each of them as two: its
// layer and its loss (recipes of DeepSeek-V3, https://github.com/NVIDIA-NeMo/Megatron-Bridge).
std::vector<std::int64_t> layers_of_chunks(const Plan& plan, const Model& model);

// A chunk of layers as a pipeline stage holds it: stage 0 .. pp-1, chunk 0 .. vpp-1.
struct ChunkPlace {
  int stage = 0, chunk = 0;
  bool operator==(const ChunkPlace&) const = default;
};
// Where in the model a chunk is: 0 is the first chunk that a token meets. Under dualpipe a stage's second chunk belongs
// to the second copy of the model, which lies the other way round.
int chunk_position(const Plan& plan, ChunkPlace place);
// Who works on a micro-batch after (before) a chunk; nullopt at the model's ends.
std::optional<ChunkPlace> next_chunk(const Plan& plan, ChunkPlace place);
std::optional<ChunkPlace> previous_chunk(const Plan& plan, ChunkPlace place);
// Whether one stage holds both the embedding and the head (of whichever copy).
bool ends_share_a_stage(const Plan& plan);

// Where a rank sits. Ranks are numbered along plan.order.
struct RankCoordinates {
  int tp = 0, dp = 0, pp = 0, cp = 0;
  bool operator==(const RankCoordinates&) const = default;
};
RankCoordinates coordinates(const Plan& plan, int rank);
int rank_of(const Plan& plan, RankCoordinates c);

// Where a rank sits in layers with experts: the ranks of its stage are numbered along plan.order and dealt anew, with
// etp in the place of tp, ep in its own and what is left in the place of dp (as Megatron-Core's parallel folding does,
// arXiv 2504.14960).
struct ExpertCoordinates {
  int etp = 0, ep = 0, data = 0, pp = 0;
  bool operator==(const ExpertCoordinates&) const = default;
};
ExpertCoordinates expert_coordinates(const Plan& plan, int rank);
int rank_of_experts(const Plan& plan, ExpertCoordinates e);

}  // namespace foretrain
