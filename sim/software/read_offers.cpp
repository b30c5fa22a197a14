#include "sim/software/read_offers.h"

#include <algorithm>

#include "sim/base/lower_case.h"

namespace foretrain {
namespace {

void read_map(const config::Node& node, Software::Offers& offers, Diagnostics& diagnostics) {
  config::MapReader map(node, diagnostics, "offers");
  for (auto [key, field] : {std::pair{"tensor", &offers.tensor},
                            {"sequence", &offers.sequence},
                            {"context", &offers.context},
                            {"pipeline", &offers.pipeline},
                            {"interleaved", &offers.interleaved},
                            {"zero_bubble", &offers.zero_bubble},
                            {"dualpipe", &offers.dualpipe},
                            {"rank_orders", &offers.rank_orders},
                            {"selective_recompute", &offers.selective_recompute},
                            {"block_recompute", &offers.block_recompute},
                            {"sharding_groups", &offers.sharding_groups},
                            {"overlap_in_pipelines", &offers.overlap_in_pipelines},
                            {"offload_alone", &offers.offload_alone}}) {
    *field = map.boolean(key).value_or(*field);
  }
  if (const auto chosen = map.choice("activations", {"stay", "without-recompute", "checkpoints", "leave"})) {
    offers.activations = static_cast<Software::Offers::Activations>(*chosen);
  }
  if (const auto stages = map.integer("interleaved_stages", {2, 1'000})) {
    offers.interleaved_stages = static_cast<int>(*stages);
  }
  if (const auto stages = map.text_list("zero")) {
    offers.zero.fill(false);
    for (const std::string& stage : *stages) {
      if (stage.size() == 1 && stage[0] >= '0' && stage[0] <= '3') {
        offers.zero[static_cast<std::size_t>(stage[0] - '0')] = true;
      } else {
        map.error("zero", message("offers.zero is a list of stages from 0 to 3, for instance [0, 1]"));
      }
    }
  }
  map.finish();
}

}  // namespace

void read_offers(config::MapReader& profile, Software& software, Diagnostics& diagnostics) {
  software.offer_variants.clear();
  const config::Node* offers = profile.node("offers");
  if (present(offers) != nullptr) read_map(*offers, software.offers, diagnostics);
  const config::Node* list = profile.node("offer_variants");
  if (present(list) == nullptr) return;
  if (!list->is_sequence()) {
    profile.error("offer_variants", message("offer_variants must be a list of {{mentions: TEXT, offers: {{...}}}}"));
    return;
  }
  for (const config::Node& item : list->sequence()) {
    config::MapReader map(item, diagnostics, "offer_variants");
    Software::OfferVariant variant{lower_case(map.required_text("mentions")), software.offers};
    if (const config::Node* changes = map.node("offers")) read_map(*changes, variant.offers, diagnostics);
    map.finish();
    if (!variant.mentions.empty()) software.offer_variants.push_back(std::move(variant));
  }
}

void choose_offer_variant(Software& software, std::string_view version) {
  const auto variant = std::find_if(software.offer_variants.begin(), software.offer_variants.end(),
                                    [&](const auto& v) { return version.find(v.mentions) != std::string_view::npos; });
  if (variant != software.offer_variants.end()) software.offers = variant->offers;
}

}  // namespace foretrain
