#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/config/catalogue.h"
#include "sim/config/quote.h"
#include "sim/report/catalogue_text.h"
#include "sim/report/describe.h"

namespace foretrain::cli {
namespace {

using config::Node;

struct CatalogOptions : CommonOptions {
  std::string kind, name;
};

struct Kind {
  const char* name;      // as the user writes it
  const char* singular;  // accepted as well
  const char* folder;
  const char* what;  // in messages
};
constexpr std::array<Kind, 6> kKinds = {{{"models", "model", "/configs/models", "model"},
                                         {"gpus", "gpu", "/hardware/gpus", "GPU"},
                                         {"nodes", "node", "/hardware/nodes", "node"},
                                         {"fabrics", "fabric", "/hardware/fabrics", "fabric"},
                                         {"software", "software", "/configs/software", "software profile"},
                                         {"offers", "offer", "/configs/offers", "offer file"}}};

std::string text_at(const Node& node, std::initializer_list<const char*> keys) {
  const Node* at = &node;
  for (const char* key : keys) {
    at = at->is_map() ? at->find(key) : nullptr;
    if (at == nullptr) return "";
  }
  return at->is_scalar() ? at->scalar() : "";
}

std::size_t length_of(const Node& node, const char* list) {
  const Node* found = node.is_map() ? node.find(list) : nullptr;
  return found != nullptr && found->is_sequence() ? found->sequence().size() : 0;
}

Message summary_of(const Kind& kind, const Node& node) {
  std::vector<Message> parts;
  const auto add = [&](std::initializer_list<const char*> keys, const std::function<Message(const std::string&)>& say) {
    if (const std::string text = text_at(node, keys); !text.empty()) parts.push_back(say(text));
  };
  const auto as_it_is = [](const std::string& text) { return Message(text); };
  const std::string_view name = kind.name;
  if (name == "models") {
    add({"params_b"}, [](const std::string& billions) { return message("{}e9 parameters", billions); });
    add({"layers"}, [](const std::string& layers) { return message("{} layers", layers); });
    add({"hidden"}, [](const std::string& size) { return message("hidden {}", size); });
    add({"arch"}, as_it_is);
  } else if (name == "gpus") {
    add({"memory", "nominal_gb"}, [](const std::string& size) { return message("{} GB", size); });
    add({"memory", "bandwidth_gbs"}, [](const std::string& rate) { return message("{} GB/s", rate); });
    add({"dense_tflops", "fp16"}, [](const std::string& rate) { return message("{} TFLOP/s fp16", rate); });
    add({"architecture"}, as_it_is);
  } else if (name == "software") {
    add({"inherits"}, [](const std::string& profile) { return message("{} with changes", profile); });
  } else {
    add({"description"}, as_it_is);
  }
  if (name == "offers") {
    const std::size_t offers = length_of(node, "offers"), for_sale = length_of(node, "purchases");
    if (offers > 0) parts.push_back(message("{} offers", offers));
    if (for_sale > 0) parts.push_back(message("{} for sale", for_sale));
    add({"date"}, as_it_is);
  }
  return report::listed(parts);
}

std::vector<std::string> aliases_of(const Node& node) {
  std::vector<std::string> aliases;
  const Node* listed = node.is_map() ? node.find("aliases") : nullptr;
  if (listed == nullptr || !listed->is_sequence()) return aliases;
  for (const Node& item : listed->sequence()) {
    if (item.is_scalar()) aliases.push_back(item.scalar());
  }
  return aliases;
}

std::vector<report::CatalogueEntry> list(const Kind& kind, const config::Catalogue& catalogue,
                                         Diagnostics& diagnostics) {
  std::vector<report::CatalogueEntry> entries;
  for (const std::string& name : catalogue.names()) {
    if (const auto found = catalogue.find(name, {}, diagnostics)) {
      entries.push_back({found->name, summary_of(kind, *found->node), aliases_of(*found->node)});
    }
  }
  return entries;
}

// The file itself, with its comments and sources.
std::string file_text(const Node& node) {
  std::ifstream file(node.position.file ? *node.position.file : "", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int show(const CatalogOptions& options, const config::Catalogue& catalogue) {
  Diagnostics diagnostics;
  const auto found = catalogue.find(options.name, {}, diagnostics);
  print(diagnostics, options.words, options.quiet);
  if (!found || diagnostics.has_errors()) return kBadInput;
  return deliver(options, [&] { return file_text(*found->node); },
                 {{options.json, [&] { return report::node_json(*found->node); }}});
}

int list_all(const CatalogOptions& options, const Kind& kind, const config::Catalogue& catalogue) {
  Diagnostics diagnostics;
  const std::vector<report::CatalogueEntry> entries = list(kind, catalogue, diagnostics);
  print(diagnostics, options.words, options.quiet);
  if (diagnostics.has_errors()) return kBadInput;
  return deliver(options, [&] { return report::catalogue_table(kind.name, entries, standard_output(options)); },
                 {{options.json, [&] { return report::catalogue_json(kind.name, entries); }}});
}

int catalog(const CatalogOptions& options) {
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const Kind& k) { return options.kind == k.name || options.kind == k.singular; });
  if (kind == kKinds.end()) {
    std::vector<std::string> names;
    for (const Kind& k : kKinds) names.emplace_back(k.name);
    return fail(options.words, message("there is no catalogue {}; there are {}{}", config::in_quotes(options.kind),
                                       fmt::join(names, ", "), did_you_mean(options.kind, names)));
  }
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  print(diagnostics, options.words, options.quiet);
  if (!data) return kBadInput;
  const config::Catalogue catalogue(data->path + kind->folder, kind->what);
  return options.name.empty() ? list_all(options, *kind, catalogue) : show(options, catalogue);
}

}  // namespace

Command catalog_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("catalog", words("list or show the models, GPUs, nodes ... a scenario can name"));
  const auto options = starting_from<CatalogOptions>(common);
  parser.add_option("KIND", options->kind, words("models, gpus, nodes, fabrics, software or offers"))->required();
  parser.add_option("NAME", options->name, words("show this one: a name or another name of it"));
  add_output_options(parser, *options, false);
  add_data_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain catalog gpus"}, {"foretrain catalog models 7b"}, {"foretrain catalog nodes dgx-a100-80g --json -"}});
  return {&parser, [options] { return catalog(*options); }};
}

}  // namespace foretrain::cli
