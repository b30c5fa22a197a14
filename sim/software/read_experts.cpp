#include "sim/software/read_experts.h"

#include <array>

#include "sim/base/lower_case.h"

namespace foretrain {

using config::Unit;
using Dispatch = Software::Experts::Dispatch;

const char* to_string(Dispatch dispatch) {
  constexpr std::array names = {"all-to-all", "two-level", "all-gather"};
  return names[static_cast<std::size_t>(dispatch)];
}

namespace {

void read_habits(const config::Node& node, Software::Experts& e, Diagnostics& diagnostics) {
  config::MapReader map(node, diagnostics, "experts");
  if (const auto chosen = map.choice("dispatch", {"all-to-all", "two-level", "all-gather"})) {
    e.dispatch = static_cast<Dispatch>(*chosen);
  }
  for (auto [key, field] : {std::pair{"tensor_parallel", &e.tensor_parallel},
                            {"grouped_kernel", &e.grouped_kernel},
                            {"one_by_one", &e.one_by_one},
                            {"fused_activation", &e.fused_activation},
                            {"overlap", &e.overlap},
                            {"fp8_dispatch", &e.fp8_dispatch},
                            {"shared_overlap", &e.shared_overlap}}) {
    *field = map.boolean(key).value_or(*field);
  }
  constexpr config::Range kMilliseconds{0, 60'000}, kMoves{0, 1'000}, kPart{0, 1};
  struct Number {
    const char* key;
    double* field;
    config::Range range;
  };
  for (const Number& number : {Number{"call_us", &e.call_us, {0, 1e6}},
                               {"permute_forward", &e.permute_forward, kMoves},
                               {"permute_backward", &e.permute_backward, kMoves},
                               {"bias_forward", &e.bias_forward, kMoves},
                               {"bias_backward", &e.bias_backward, kMoves},
                               {"permute_efficiency", &e.permute_efficiency, {0.01, 1}},
                               {"host_forward_ms", &e.host_forward_ms, kMilliseconds},
                               {"host_backward_ms", &e.host_backward_ms, kMilliseconds},
                               {"stall_ms", &e.stall_ms, kMilliseconds},
                               {"overlap_exposed", &e.overlap_exposed, kPart},
                               {"kept_copies", &e.kept_copies, {0, 100}}}) {
    *number.field = map.number(number.key, Unit::count, number.range).value_or(*number.field);
  }
  for (auto [key, field] :
       {std::pair{"kernels_forward", &e.kernels_forward}, {"kernels_backward", &e.kernels_backward}}) {
    *field = static_cast<int>(map.integer(key, {0, 10'000}).value_or(*field));
  }
  map.finish();
}

}  // namespace

void read_expert_habits(config::MapReader& profile, Software& software, Diagnostics& diagnostics) {
  const config::Node* habits = profile.node("experts");
  if (present(habits) != nullptr) read_habits(*habits, software.experts, diagnostics);
  const config::Node* list = profile.node("expert_variants");
  if (present(list) == nullptr) return;
  if (!list->is_sequence()) {
    profile.error("expert_variants", message("expert_variants must be a list of {{mentions: TEXT, experts: {{...}}}}"));
    return;
  }
  software.expert_variants.clear();
  for (const config::Node& item : list->sequence()) {
    config::MapReader map(item, diagnostics, "expert_variants");
    Software::ExpertVariant variant{lower_case(map.required_text("mentions")), software.experts};
    if (const config::Node* changes = map.node("experts")) read_habits(*changes, variant.experts, diagnostics);
    map.finish();
    if (!variant.mentions.empty()) software.expert_variants.push_back(std::move(variant));
  }
}

void choose_expert_variant(Software& software, std::string_view version) {
  for (const Software::ExpertVariant& variant : software.expert_variants) {
    if (version.find(variant.mentions) == std::string_view::npos) continue;
    software.experts = variant.experts;
    return;
  }
}

}  // namespace foretrain
