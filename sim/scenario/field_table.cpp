#include "sim/scenario/fields.h"

namespace foretrain {
namespace {

using config::Range;
using config::Unit;
using Kind = Field::Kind;
using Words = std::vector<std::string_view>;

Field map(std::string_view path, std::string_view meaning, std::string_view fallback = {}) {
  return {path, Kind::map, meaning, fallback};
}
Field list_of_maps(std::string_view path, std::string_view meaning) {
  Field field = map(path, meaning);
  field.list = true;
  return field;
}
Field text(std::string_view path, std::string_view meaning, std::string_view fallback = {},
           std::string_view flag = {}) {
  return {.path = path, .kind = Kind::text, .meaning = meaning, .fallback = fallback, .flag = flag};
}
Field texts(std::string_view path, std::string_view meaning, std::string_view fallback = {}) {
  Field field = text(path, meaning, fallback);
  field.list = true;
  return field;
}
Field boolean(std::string_view path, std::string_view meaning, std::string_view fallback, std::string_view flag = {}) {
  return {.path = path, .kind = Kind::boolean, .meaning = meaning, .fallback = fallback, .flag = flag};
}
Field integer(std::string_view path, Range range, std::string_view meaning, std::string_view fallback = {},
              std::string_view flag = {}, Words words = {}) {
  return {.path = path,
          .kind = Kind::integer,
          .meaning = meaning,
          .fallback = fallback,
          .words = std::move(words),
          .range = range,
          .flag = flag};
}
Field number(std::string_view path, Unit unit, Range range, std::string_view meaning, std::string_view fallback = {},
             std::string_view flag = {}) {
  return {.path = path,
          .kind = Kind::number,
          .meaning = meaning,
          .fallback = fallback,
          .range = range,
          .unit = unit,
          .flag = flag};
}
// One amount, or [low, high].
Field band(std::string_view path, std::string_view meaning) {
  Field field = number(path, Unit::count, {0, 1e15}, meaning);
  field.list = true;
  return field;
}
Field choice(std::string_view path, Words words, std::string_view meaning, std::string_view fallback = {},
             std::string_view flag = {}) {
  return {.path = path,
          .kind = Kind::choice,
          .meaning = meaning,
          .fallback = fallback,
          .words = std::move(words),
          .flag = flag};
}
// One for all data-parallel ranks, one for each, or one for those of each kind of GPU.
Field by_data_rank(Field field) {
  field.list = field.by_gpu = true;
  return field;
}
Field also(Field field, std::string_view other_flag) {
  field.other_flag = other_flag;
  return field;
}
Field anything(std::string_view path, std::string_view meaning) {
  return {.path = path, .kind = Kind::anything, .meaning = meaning};
}

void add(std::vector<Field>& all, Field::Place place, std::vector<Field> fields) {
  for (Field& field : fields) {
    field.place = place;
    all.push_back(std::move(field));
  }
}

std::vector<Field> file_fields() {
  return {
      text("title", "the question, as the answer prints it", {}, "--title"),
      choice("ask", {"faster", "cheaper", "fits"}, "what the verdict compares", "faster", "--ask"),
      map("source", "where measured runs were published"),
      text("source.title", "name of the publication"),
      text("source.url", "its address"),
      text("source.date", "its date"),
      anything("source.also", "further sources"),
      map("base", "what all cases share; every case is merged over it, map by map"),
      list_of_maps("cases", "the cases that are compared; without them `base` is the only one"),
  };
}

std::vector<Field> model_fields() {
  constexpr Range kWidth = {1, 10'000'000}, kLatent = {1, 100'000}, kLayers = {1, 10'000};
  return {
      text("name", "what the answer calls the case; each once", "case 1, case 2, ..."),
      text("model", "a name of `foretrain catalog models`, or a file (.yaml, or config.json of Hugging Face)", {},
           "--model"),
      text("model.name", "what the answer calls the model", "inline"),
      choice("model.arch", {"gpt", "llama", "moe", "bert"},
             "gpt: LayerNorm, biases, GELU; llama: RMSNorm, no biases, rotary positions; moe: llama with experts; "
             "bert is refused"),
      integer("model.layers", kLayers, "number of blocks"),
      integer("model.hidden", {1, 1'000'000}, "width"),
      integer("model.heads", {1, 100'000}, "query heads"),
      integer("model.kv_heads", {1, 100'000}, "key-value heads (grouped-query attention); divides heads", "heads"),
      integer("model.head_dim", {1, 16'384}, "width of a head", "hidden / heads"),
      integer("model.ffn", kWidth, "width of the MLP", "gpt: 4 x hidden"),
      boolean("model.gated", "three MLP matrices (SwiGLU, GeGLU) instead of two", "llama, moe: true"),
      integer("model.vocab", {1, 100'000'000}, "rows of the token table"),
      integer("model.max_positions", {0, 100'000'000}, "rows of a learned position table", "0, none"),
      boolean("model.tied_embeddings", "the LM head is the token table", "gpt: true"),
      boolean("model.qkv_bias", "biases on query, key and value only", "false"),
      boolean("model.parallel_block", "attention and MLP side by side", "false"),
      boolean("model.linear_biases", "biases on every linear layer of a block", "gpt: true"),
      boolean("model.norm_biases", "LayerNorm (weight and bias) instead of RMSNorm", "gpt: true"),
      integer("model.norms_per_layer", {1, 4}, "norms in a block", "2; 1 with parallel_block"),
      boolean("model.embedding_norm", "a norm after the token table", "false"),
      boolean("model.qk_norm", "a norm of every head's queries and keys", "false"),
      integer("model.experts", {0, 10'000}, "experts of a layer", "0: a dense model"),
      integer("model.top_k", {1, 10'000}, "experts that a token visits; needed with experts"),
      integer("model.expert_groups", {1, 10'000}, "groups that the experts lie in", "1"),
      integer("model.top_k_groups", {1, 10'000}, "groups that a token visits at most", "all of them"),
      integer("model.expert_ffn", kWidth, "width of one expert; needed with experts"),
      integer("model.shared_expert_ffn", {0, kWidth.max}, "width of all shared experts together", "0"),
      integer("model.moe_every", kLayers, "every so-many-th layer has experts, the last of each group", "1"),
      integer("model.first_dense_layers", {0, kLayers.max}, "layers at the front without experts", "0"),
      map("model.mla", "multi-head latent attention", "none"),
      integer("model.mla.q_lora", {0, 100'000}, "width of the compressed queries", "0: not compressed"),
      integer("model.mla.kv_lora", kLatent, "width of the compressed keys and values"),
      integer("model.mla.qk_nope", kLatent, "elements of a head's queries and keys without position"),
      integer("model.mla.qk_rope", kLatent, "elements with rotary position"),
      integer("model.mla.v", kLatent, "elements of a head's values"),
      integer("model.mtp", {0, 16}, "multi-token-prediction modules behind the last layer", "0"),
      integer("model.window", {0, 100'000'000}, "keys a token sees in windowed layers", "0: all"),
      integer("model.window_every", kLayers, "every so-many-th layer is windowed, the first of each group", "1"),
      number("model.params_b", Unit::count, {1e-6, 1e6}, "published parameters in 1e9: a check, not an input"),
      text("model.hf", "a config.json of Hugging Face or its folder; keys beside it win over it"),
  };
}

std::vector<Field> train_fields() {
  return {
      map("train", "what is trained, however it is spread"),
      also(integer("train.seq_len", {1, 16'777'216}, "tokens of a sequence", "2048, or the model's max_positions",
                   "--seq-len"),
           "--seq"),
      integer("train.global_batch", {1, 1e9}, "sequences of an optimizer step, over all GPUs",
              "a micro-batch for every data-parallel rank and pipeline stage", "--global-batch"),
      choice("train.precision", {"fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4", "mxfp8"},
             "type of the linear layers' products; with fp8 and nvfp4 all else is bf16 (mxfp8: refused)",
             "bf16, or the next best the GPU has", "--precision"),
      choice("train.optimizer",
             {"adamw", "sgd", "adamw8bit", "paged-adamw8bit", "paged_adamw8bit", "lion", "adafactor", "lamb", "muon"},
             "what updates the weights; paged: its states give way to host memory where they do not fit", "adamw",
             "--optimizer"),
      choice("train.attention", {"standard", "flash", "flash1", "flash2", "flash3"}, "the attention kernel",
             "flash2, or standard where the GPU has none", "--attention"),
      choice("train.peft", {"none", "lora", "qlora"}, "adapters instead of a full fine-tune", "none", "--peft"),
      choice("train.peft.kind", {"none", "lora", "qlora"}, "qlora: over quantised weights"),
      integer("train.peft.rank", {1, 65'536}, "rank of the adapters", "16"),
      number("train.peft.alpha", Unit::count, {0, 1e9}, "their scale; changes no time"),
      number("train.peft.dropout", Unit::count, {0, 1}, "share of their inputs that is dropped", "0"),
      texts("train.peft.targets", "all-linear, attention, qv, or a list of q, k, v, o, gate, up, down",
            "the framework's, else all-linear"),
      choice("train.peft.quant", {"none", "nf4", "nf4-dq", "int4", "gptq", "int8"}, "of the frozen weights",
             "nf4 with qlora"),
      texts("train.peft.full", "trained in full beside them: embedding, lm_head", "none"),
      choice("train.master_weights", {"fp32", "none", "bf16"}, "copy of the weights that the optimizer updates",
             "the framework's"),
      choice("train.grad_reduce", {"fp32", "bf16", "fp16"}, "type in which gradients are reduced", "the framework's"),
      boolean("train.clip_gradients", "the norm of all gradients is taken before the update",
              "true; false with optimizer_in_backward"),
      boolean("train.optimizer_in_backward", "weights are updated as soon as their gradient is there", "false"),
      choice("train.loss", {"as-framework", "fused"}, "fused: cross entropy without logits in memory", "as-framework"),
      integer("train.loss.chunks", {1, 4096}, "parts in which logits and their loss are made"),
      map("train.fp8", "recipe of precision fp8", "the framework's"),
      choice("train.fp8.recipe", {"as-framework", "per-tensor", "blockwise"}, "what shares a scale", "as-framework"),
      boolean("train.fp8.parameter_gather", "weights are gathered as fp8", "false"),
      boolean("train.fp8.dispatch", "tokens travel to their experts as fp8, results back in 16 bits",
              "the framework's"),
      number("train.tokens", Unit::count, {0, 1e18}, "of the whole job, for hours and money", {}, "--tokens"),
      number("train.samples", Unit::count, {1, 1e15}, "sequences of the whole job, instead of tokens", {}, "--samples"),
      number("train.epochs", Unit::count, {1e-6, 1e6}, "how often the samples are seen", "1", "--epochs"),
  };
}

std::vector<Field> cluster_fields() {
  constexpr Range kArray = {1e6, 1e13};
  return {
      map("cluster", "the machine: a catalogue node, or a description; what is written wins over the node's"),
      text("cluster.node", "a name of `foretrain catalog nodes`", {}, "--node"),
      integer("cluster.nodes", {1, 1e6}, "how many of it", "1", "--nodes"),
      text("cluster.fabric", "a name of `foretrain catalog fabrics`: the network between nodes", {}, "--fabric"),
      text("cluster.gpu", "a name or alias of `foretrain catalog gpus`", {}, "--gpu"),
      integer("cluster.gpus", {1, 1e6}, "GPUs of the job", "all of the nodes", "--gpus"),
      integer("cluster.gpus_per_node", {1, 256}, "GPUs of a node", "gpus, at most 8", "--gpus-per-node"),
      choice("cluster.intra", {"nvswitch", "nvlink-mesh", "nvlink-pairs", "pcie-switch", "pcie"},
             "how the GPUs of a node reach each other", "the usual form of the GPU", "--intra"),
      boolean("cluster.p2p", "GPUs copy to each other over PCIe; else through host memory", "as the driver allows"),
      integer("cluster.gpus_per_pcie_switch", {1, 256}, "GPUs that share one x16 uplink", "2"),
      integer("cluster.nics", {0, 256}, "NICs of a node that carry training traffic", "0, or the fabric's", "--nics",
              {"per-gpu"}),
      number("cluster.nic_gbps", Unit::network_rate, {1e6, 1e13}, "rate of one NIC; a bare number is Gbit/s", {},
             "--nic-gbps"),
      choice("cluster.net", {"infiniband", "roce", "ethernet", "efa", "omni-path"}, "kind of the network",
             "infiniband from 100 Gbit/s, else ethernet", "--net"),
      number("cluster.oversubscription", Unit::count, {1, 1000},
             "what comes into a leaf switch over what its uplinks carry", "1"),
      boolean("cluster.rail_optimised", "NIC i of every node hangs on leaf switch i", "true"),
      integer("cluster.nvlink_domain", {1, 1e6}, "GPUs that NVLink joins beyond a host", "a node"),
      map("cluster.host", "the host of a node"),
      text("cluster.host.cpu", "for people"),
      choice("cluster.host.board", {"desktop", "server"}, "how well it forwards between cards without P2P",
             "desktop for GeForce"),
      integer("cluster.host.sockets", {1, 16}, "CPU sockets", "1 or 2, as usual for the GPU"),
      integer("cluster.host.cores", {1, 4096}, "physical cores, of all sockets", "usual for the PCIe generation"),
      number("cluster.host.dram_gb", Unit::gigabytes, {1e9, 1e15}, "memory of the node; a bare number is GB"),
      number("cluster.host.dram_gbps", Unit::bytes_rate, {1e9, 1e14},
             "memory bandwidth of all sockets; a bare number is GB/s", "usual for the PCIe generation"),
      choice("cluster.host.pcie", {"gen3", "gen4", "gen5"}, "PCIe generation of the host", "the GPU's"),
      number("cluster.host.nvme_read_gbps", Unit::bytes_rate, kArray, "of all drives; a bare number is GB/s"),
      number("cluster.host.nvme_write_gbps", Unit::bytes_rate, kArray, "of all drives; a bare number is GB/s"),
      number("cluster.power_limit_w", Unit::watts, {10, 1e5}, "power limit of a GPU", "none"),
      list_of_maps("cluster.overrides", "GPUs and links that are unlike the rest"),
      choice("cluster.overrides[].link", {"nvlink", "pcie", "nic"}, "kind of a slow link; without it, of GPUs"),
      integer("cluster.overrides[].node", {0, 1e6}, "its node, from 0"),
      texts("cluster.overrides[].nodes", "or several nodes"),
      integer("cluster.overrides[].index", {0, 255}, "its GPU or NIC in the node, from 0", "all GPUs of the node"),
      text("cluster.overrides[].gpu", "another kind of GPU"),
      number("cluster.overrides[].power_limit_w", Unit::watts, {10, 1e5}, "another power limit"),
      number("cluster.overrides[].factor", Unit::count, {1e-6, 10},
             "its speed over the usual one; of a link at most 1"),
      map("cluster.jitter", "every GPU a little faster or slower than the next", "none"),
      number("cluster.jitter.sigma", Unit::count, {0, 0.5}, "standard deviation of the logarithm of their speeds"),
      integer("cluster.jitter.seed", {0, 9e15}, "of the random numbers", "1"),
      texts("cluster.mig", "slices that every card is cut into, such as 3g.20gb, or one list for a card",
            "whole cards"),
      text("cluster.topo", "a file with what nvidia-smi topo -m prints, or that text; gpu says which GPUs they are"),
  };
}

std::vector<Field> plan_fields() {
  constexpr Range kRanks = {1, 1'048'576};
  const Words places = {"none", "cpu", "nvme"};
  return {
      choice("plan", {"auto"}, "how the job is spread over the GPUs; auto: the fastest plan is looked for", {},
             "--plan"),
      integer("plan.tp", kRanks, "tensor-parallel ranks", "1", "--tp"),
      integer("plan.pp", kRanks, "pipeline stages", "1", "--pp"),
      integer("plan.vpp", kRanks, "chunks of layers a stage", "1; 2 where the schedule needs them", "--vpp"),
      integer("plan.dp", kRanks, "data-parallel ranks", "what is left of the GPUs", "--dp"),
      integer("plan.cp", kRanks, "ranks that split every sequence", "1", "--cp"),
      choice("plan.cp_kind", {"ring", "all-gather", "ulysses"},
             "how they see each other's keys; ulysses deals heads out", "ring; all-gather with a window"),
      integer("plan.ep", kRanks, "ranks that experts are spread over", "1", "--ep"),
      integer("plan.etp", kRanks, "tensor-parallel ranks of an expert", "tp, as the framework does it"),
      choice("plan.expert_dispatch", {"all-to-all", "two-level", "all-gather"}, "how tokens reach experts",
             "the framework's"),
      number("plan.expert_imbalance", Unit::count, {1, 1000}, "tokens of the busiest expert rank over the mean", "1"),
      number("plan.capacity_factor", Unit::count, {0.1, 1000}, "tokens an expert takes at most, over the mean",
             "as many as come"),
      boolean("plan.sequence_parallel", "norms and dropout split over the tensor-parallel ranks",
              "true for experts with tp", "--sequence-parallel"),
      choice(
          "plan.schedule",
          {"gpipe", "1f1b", "interleaved", "zero-bubble", "zero-bubble-2p", "zero-bubble-v", "dualpipe", "dualpipe-v"},
          "order of the passes of a pipeline", "1f1b; interleaved with vpp above 1", "--schedule"),
      integer("plan.zero", {0, 3}, "what ZeRO shards: 1 optimizer, 2 gradients too, 3 weights too (FSDP)", "0",
              "--zero"),
      integer("plan.shard_group", kRanks, "ranks that share one copy of the sharded state (HSDP)",
              "all data-parallel ranks"),
      choice("plan.recompute", {"none", "selective", "full"}, "what runs again in the backward pass", "none",
             "--recompute"),
      integer("plan.recompute.blocks", {0, 1e6}, "layers of every stage in full, the first of each of its chunks"),
      texts("plan.recompute.modules",
            "parts of every layer: core_attn, mlp, norm, qkv, att, ffn, moe, moe_act, shared_experts, mla_up_proj ..."),
      texts("plan.recompute.saved",
            "all of every layer but these outputs: qkv, latent, attention, attention_out, mlp_in, mlp, moe"),
      choice("plan.offload", {"none", "optimizer", "optimizer+params", "params", "activations"},
             "what is kept in host memory", "none", "--offload"),
      choice("plan.offload.optimizer", places, "optimizer states, and with them the update", "none"),
      choice("plan.offload.params", places, "16-bit weights", "none"),
      choice("plan.offload.gradients", places, "gradients (nvme: refused)", "cpu with the optimizer, from zero: 2"),
      choice("plan.offload.activations", places, "what layers keep for the backward pass (nvme: refused)", "none"),
      number("plan.offload.fraction", Unit::count, {0, 1}, "how much of it", "1"),
      boolean("plan.offload.delayed_update", "the host updates while the next step computes", "false"),
      by_data_rank(integer("plan.micro_batch", {1, 1e6},
                           "sequences that pass through the model at once; auto: the most that fit",
                           "auto; 1 without global_batch", "--micro-batch", {"auto"})),
      by_data_rank(
          integer("plan.micro_batches", {1, 1e6},
                  "micro-batches of a data-parallel rank in a step; auto: dealt out in proportion to the speeds "
                  "of the GPUs (their sizes, where all need the same number)",
                  "what an even split of global_batch makes", "--micro-batches", {"auto"})),
      texts("plan.order", "the dimensions of the ranks, fastest-varying first", "tp-cp-ep-dp-pp"),
      map("plan.overlap", "which communication runs beside computation"),
      boolean("plan.overlap.grad_reduce", "reduction of gradients", "the framework's"),
      boolean("plan.overlap.param_gather", "gathering of updated weights", "the framework's"),
      boolean("plan.overlap.tp", "tensor-parallel collectives", "the framework's"),
      boolean("plan.overlap.p2p", "transfers between pipeline stages", "the framework's and the schedule's"),
      boolean("plan.overlap.ep", "dispatch of tokens to experts", "the framework's"),
      texts("plan.layers",
            "layers of every chunk, in the model's order; auto: in proportion to the speeds of the stages' GPUs",
            "evenly"),
      integer("plan.ends_as_layers", {0, 2}, "when spreading: 1: the loss counts as a layer, 2: the embedding too",
              "0"),
      boolean("plan.zeropp", "ZeRO-3 sends less (ZeRO++); true: all three of the following", "false"),
      boolean("plan.zeropp.weights", "qwZ: weights are gathered as int8", "false"),
      boolean("plan.zeropp.gradients", "qgZ: gradients are scattered as int4, inside groups and then between them",
              "false"),
      boolean("plan.zeropp.secondary",
              "hpZ: every group holds all weights once more, and backward passes gather inside it",
              "false; with a group and no gradients, true"),
      integer("plan.zeropp.group", {2, 1'048'576}, "ranks of a group", "the data-parallel ranks of a node"),
      text("software", "a name of `foretrain catalog software`: what the framework adds",
           "by what is asked: configs/software-defaults.yaml", "--software"),
      text("software_version", "its version, where it matters"),
      text("price", "of the whole cluster, such as 2800CNY/month or 9.5USD/hour", {}, "--price"),
      band("price.per_hour", "money for an hour, or [low, high]"),
      band("price.per_month", "money for a month"),
      band("price.per_year", "money for a year"),
      text("price.currency", "of the price", "USD"),
      boolean("price.whole_periods", "a period that is begun is paid whole", "false"),
      text("price.minimum_term", "paid even where less is used: month, quarter, 30d ...", "none"),
      anything("price.terms", "paid beforehand, at a factor: {quarter: 0.95, year: 0.8}"),
  };
}

std::vector<Field> measured_fields() {
  return {
      map("measured", "what somebody measured on this case (for validate)"),
      number("measured.step_time_s", Unit::seconds, {1e-9, 1e9}, "time of an optimizer step; a bare number is seconds"),
      number("measured.memory_gb_per_gpu", Unit::gigabytes, {1, 1e15}, "peak of a GPU; a bare number is GB"),
      choice("measured.memory_kind", {"allocated", "reserved", "device"}, "what was read as memory", "allocated"),
      boolean("measured.oom", "it ran out of memory", "false"),
      text("measured.derived_from", "how the figures follow from what was published"),
      anything("measured.published", "the figures as they were printed"),
      choice("trust", {"high", "medium", "low"}, "how sure the description of the run is"),
      texts("guessed", "fields that the source does not say"),
      texts("needs", "features the run needs"),
  };
}

}  // namespace

const std::vector<Field>& scenario_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all;
    add(all, Field::Place::file, file_fields());
    for (auto part : {model_fields, train_fields, cluster_fields, plan_fields}) add(all, Field::Place::in_case, part());
    add(all, Field::Place::measured, measured_fields());
    return all;
  }();
  return fields;
}

}  // namespace foretrain
