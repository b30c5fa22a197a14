#include "sim/scenario/case_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/hardware/known_machine.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

// The text of a description without its positions.
void append_text(const Node& node, std::string& text) {
  if (node.is_scalar()) {
    text += fmt::format("{}{}:{}", node.quoted ? '"' : '\'', node.scalar().size(), node.scalar());
  } else if (node.is_sequence()) {
    text += '[';
    for (const Node& item : node.sequence()) append_text(item, text);
    text += ']';
  } else if (node.is_map()) {
    text += '{';
    for (const Node::Entry& entry : node.map()) {
      text += fmt::format("{}:{}=", entry.key.size(), entry.key);
      append_text(entry.value, text);
    }
    text += '}';
  } else {
    text += '~';
  }
}

bool has_flash(const Gpu& gpu) {
  return std::any_of(gpu.achieved.flash.begin(), gpu.achieved.flash.end(),
                     [](const AchievedRates::Attention& kernel) { return kernel.forward > 0; });
}

bool names(const std::vector<std::string>& guessed, std::string_view field) {
  return std::find(guessed.begin(), guessed.end(), field) != guessed.end();
}

std::string in_words(const Node& targets) {
  if (targets.is_scalar()) return targets.scalar();
  std::vector<std::string> items;
  if (targets.is_sequence()) {
    for (const Node& item : targets.sequence()) items.push_back(item.is_scalar() ? item.scalar() : "");
  }
  return fmt::format("{}", fmt::join(items, ", "));
}

// `train` with the layers that the framework adapts by itself, where adapters are asked for and the scenario does not
// say which layers have one.
Node with_lora_targets(const Node& train, const Software& software, bool guessed, Diagnostics& diagnostics) {
  const Node* peft = train.is_map() ? train.find("peft") : nullptr;
  if (!software.lora_targets || present(peft) == nullptr) return train;
  const Node* kind = peft->is_map() ? peft->find("kind") : peft;
  if (kind == nullptr || !kind->is_scalar() || kind->scalar() == "none") return train;
  const Node* targets = peft->is_map() ? peft->find("targets") : nullptr;
  if (present(targets) != nullptr) {
    if (!guessed || canonical_text(*targets) == canonical_text(*software.lora_targets)) return train;
  }
  diagnostics.note(peft->position, message("train.peft.targets is taken as {}, the choice of {}",
                                           in_words(*software.lora_targets), software.name));
  const Node adapted{peft->position,
                     Node::Map{{"kind", kind->position, *kind}, {"targets", peft->position, *software.lora_targets}}};
  return merge(train, {train.position, Node::Map{{"peft", peft->position, adapted}}});
}

// What a scenario leaves open is set to what one would run on this GPU, and said.
void fill_defaults(const Node& written_train, const Model& model, const Gpu& gpu, Train& train,
                   Diagnostics& diagnostics) {
  const auto note = [&](Message message) { diagnostics.note(written_train.position, std::move(message)); };
  if (!is_written(written_train, "seq_len")) {
    if (model.max_positions > 0) train.seq_len = std::min(train.seq_len, model.max_positions);
    note(message("train.seq_len is taken as {}", train.seq_len));
  }
  if (!is_written(written_train, "precision")) {
    for (const Precision precision : {Precision::bf16, Precision::fp16, Precision::fp32}) {
      train.precision = precision;
      if (gpu.dense(precision)) break;
    }
    note(message("train.precision is taken as {}", to_string(train.precision)));
  }
  if (!is_written(written_train, "attention")) {
    if (!has_flash(gpu)) train.attention = AttentionKernel::standard;
    note(message("train.attention is taken as {}", to_string(train.attention)));
  }
}

// Micro-batch and global batch, where one or both are left open.
bool settle_batch(const PlanRequest& request, Case& result, Diagnostics& diagnostics) {
  if (result.train.global_batch > 0) {
    const bool said = request.micro_batch || request.micro_batch_of_rank || request.micro_batches_of_rank;
    result.micro_batch_auto = !said;
    if (!said && !request.micro_batch_auto) {
      diagnostics.note(request.position, message("plan.micro_batch is taken as auto: the largest that fits"));
    }
    return true;
  }
  if (request.micro_batch_auto) {
    diagnostics.error(request.position_of("micro_batch"),
                      message("micro_batch auto needs train.global_batch: without it nothing says how far to go"));
    return false;
  }
  if (request.micro_batches_auto) {
    diagnostics.error(request.position_of("micro_batches"),
                      message("micro_batches auto needs train.global_batch: without it there is nothing to deal out"));
    return false;
  }
  result.train.global_batch = default_global_batch(result.plan);
  if (!result.plan.shares.empty()) {
    diagnostics.note(
        request.position,
        message("train.global_batch is taken as {}: the shares of all data-parallel ranks", result.train.global_batch));
    return true;
  }
  diagnostics.note(request.position,
                   message("train.global_batch is taken as {}: a micro-batch of {} on each of {} "
                           "data-parallel ranks and {} pipeline stages",
                           result.train.global_batch, result.plan.micro_batch, result.plan.dp, result.plan.pp));
  return true;
}

// The batch of a search that states none, the same for all plans: a few sequences for every GPU, so that pipelines and
// accumulation have something to divide, but no more tokens than large runs take (GPT-3 175B 3.2e6, arXiv 2005.14165,
// table 2.1; Llama 2 4e6, arXiv 2307.09288, section 2.2).
std::int64_t batch_of_a_search(const Case& c) {
  constexpr std::int64_t kSequencesOfGpu = 8, kTokens = 4'000'000;
  const std::int64_t most = kTokens / (c.train.seq_len * c.cluster.gpus);
  return c.cluster.gpus * std::clamp<std::int64_t>(most, 1, kSequencesOfGpu);
}

// The planner compares plans for the same work.
void leave_open(const PlanRequest& request, Case& result, Diagnostics& diagnostics) {
  if (result.train.global_batch == 0) {
    result.train.global_batch = batch_of_a_search(result);
    diagnostics.warning(request.position,
                        message("train.global_batch is taken as {}: {} sequences on each GPU, for all plans alike",
                                result.train.global_batch, result.train.global_batch / result.cluster.gpus));
  }
  result.open_plan = request;
}

}  // namespace

template <class T>
std::optional<T> ReadOnce<T>::operator()(const Node& node, const Read& read, Diagnostics& diagnostics) {
  std::string text = canonical_text(node);
  if (const auto found = readings_.find(text); found != readings_.end()) {
    diagnostics.append(found->second.said);
    return found->second.value;
  }
  Diagnostics said;
  std::optional<T> value = read(node, said);
  diagnostics.append(said);
  if (said.has_errors()) return std::nullopt;
  if (value) readings_.emplace(std::move(text), Reading{*value, std::move(said)});
  return value;
}

Node CaseReader::cluster_of(const Node& written, bool network_is_guessed, Diagnostics& diagnostics) {
  const Node* network = network_is_guessed && written.is_map() ? written.find("net") : nullptr;
  if (network == nullptr || !network->is_scalar()) return written;
  if (!nodes_) nodes_.emplace(data_.path + "/hardware/nodes", "node");
  const std::optional<KnownMachine> machine = known_machine(written, *nodes_);
  if (!machine || machine->network == network->scalar()) return written;
  diagnostics.note(network->position,
                   message("cluster.net is taken as {}, the network of {}, where it was guessed as {}",
                           machine->network, machine->name, network->scalar()));
  return merge(written,
               {written.position, Node::Map{{"net", network->position, Node{network->position, machine->network}}}});
}

Node CaseReader::assumed_software(const Node& node, Diagnostics& diagnostics) {
  if (!software_defaults_) software_defaults_ = SoftwareDefaults::load(data_, diagnostics);
  if (!software_defaults_) return {node.position, std::string()};
  SoftwareNeeds own;
  own.add(node);
  const auto [name, because] = software_defaults_->choose(compared_ ? *compared_ : own);
  diagnostics.note(node.position, because.empty() ? message("software is taken as {}", name)
                                                  : message("software is taken as {}, for {}", name, because));
  return {node.position, name};
}

std::optional<Case> CaseReader::read(const Node& node, const std::string& name, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "case");
  const Node nothing{node.position, Node::Null{}};
  const auto part = [&](const char* key, bool required) -> const Node& {
    const Node* value = reader.node(key);
    if (present(value) != nullptr) return *value;
    if (required) {
      diagnostics.error(node.position, message("case {} has no {}", config::in_quotes(name), key));
    }
    return nothing;
  };
  const Node &model_node = part("model", true), &cluster_node = part("cluster", true);
  const Node &train_node = part("train", false), &plan_node = part("plan", false);
  const Node &software_node = part("software", false), &price_node = part("price", false);
  const std::string software_version = reader.text("software_version").value_or("");
  const std::vector<std::string> guessed = reader.text_list("guessed").value_or(std::vector<std::string>{});
  for (const char* known : {"name", "measured", "trust", "needs"}) reader.node(known);
  reader.finish();

  Case result;
  result.name = name;
  result.position = node.position;
  std::optional<Model> model;
  if (!model_node.is_null()) {
    model = models_(
        model_node, [&](const Node& n, Diagnostics& d) { return read_model(n, data_.path + "/configs/models", d); },
        diagnostics);
  }
  std::optional<ClusterDescription> cluster;
  if (!cluster_node.is_null()) {
    cluster = clusters_(
        cluster_of(cluster_node, names(guessed, "cluster.net"), diagnostics),
        [&](const Node& n, Diagnostics& d) { return read_cluster(n, data_, d); }, diagnostics);
  }
  const Node named_software = software_node.is_null() ? assumed_software(node, diagnostics) : software_node;
  // A profile depends on the version that the case names; both make up what is looked up once.
  const Node software_and_version{named_software.position,
                                  Node::Sequence{named_software, Node{named_software.position, software_version}}};
  const std::optional<Software> software = software_(
      software_and_version,
      [&](const Node& pair, Diagnostics& d) -> std::optional<Software> {
        const Node &profile = pair.sequence()[0], &version = pair.sequence()[1];
        if (profile.is_scalar()) {
          return load_software(data_.path + "/configs/software", profile.scalar(), profile.position, d,
                               version.scalar());
        }
        d.error(profile.position, message("software must be the name of a framework profile"));
        return std::nullopt;
      },
      diagnostics);
  const bool targets_guessed = names(guessed, "train.peft") || names(guessed, "train.peft.targets");
  std::optional<Train> train = read_train(
      software ? with_lora_targets(train_node, *software, targets_guessed, diagnostics) : train_node, diagnostics);
  const std::optional<PlanRequest> request = read_plan(plan_node, diagnostics);
  if (!price_node.is_null()) result.price = read_price(price_node, diagnostics);

  if (model && cluster && software && train && request) {
    fill_defaults(train_node, *model, cluster->gpu, *train, diagnostics);
    result.model = *model;
    result.cluster = *cluster;
    result.software = *software;
    result.train = *train;
    // Gradients are not reduced in fewer bytes than the weights they are of: DDP of fp32 models sends fp32.
    result.software.gradient_bytes = std::max(result.software.gradient_bytes, element_bytes(train->precision));
    if (train->gradient_bytes) result.software.gradient_bytes = *train->gradient_bytes;
    if (open_plans_ == OpenPlans::all || (open_plans_ == OpenPlans::automatic && request->automatic)) {
      leave_open(*request, result, diagnostics);
    } else if (request->automatic) {
      diagnostics.unsupported(request->position, message("plan=auto"));
    } else if (const auto plan = resolve_plan(*request, *model, *train, *cluster, result.software, diagnostics)) {
      result.plan = *plan;
      settle_batch(*request, result, diagnostics);
    }
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return result;
}

std::optional<Case> read_case(CaseReader& reader, const Node& node, const std::string& name, Diagnostics& said) {
  std::optional<Case> result = reader.read(node, name, said);
  if (!result) return std::nullopt;
  result->assumptions = result->cluster.assumptions;
  for (const Diagnostic& d : said.all()) {
    if (d.severity == Severity::note) result->assumptions.push_back(d.message);
    if (d.severity == Severity::warning) result->warnings.push_back(d.message);
  }
  return result;
}

std::string canonical_text(const Node& node) {
  std::string text;
  append_text(node, text);
  return text;
}

}  // namespace foretrain
