#include "sim/launch/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace foretrain {
namespace {

// Their word for a value; nullptr where they have none.
const char* word_for(const ImportRule& rule, const std::string& ours) {
  const auto word = std::find_if(rule.words.begin(), rule.words.end(), [&](const auto& w) { return w.second == ours; });
  return word == rule.words.end() ? nullptr : word->first;
}

}  // namespace

FieldTexts common_fields(const Case& c) {
  const Plan& plan = c.plan;
  const auto number = [](auto value) { return fmt::format("{}", value); };
  const auto yes_or_no = [](bool yes) { return std::string(yes ? "true" : "false"); };
  FieldTexts fields = {{"train.seq_len", number(c.train.seq_len)},
                       {"train.global_batch", number(c.train.global_batch)},
                       {"train.precision", to_string(c.train.precision)},
                       {"plan.micro_batch", number(plan.micro_batch)},
                       {"plan.zero", number(plan.zero)}};
  if (plan.data_ranks() > 1) fields["plan.overlap.grad_reduce"] = yes_or_no(plan.overlap.grad_reduce);
  return fields;
}

std::vector<std::pair<std::string, std::string>> in_their_words(const FieldTexts& fields,
                                                                std::span<const ImportRule> rules) {
  std::vector<std::pair<std::string, std::string>> said;
  std::set<std::string_view> done;
  for (const ImportRule& rule : rules) {
    const auto field = fields.find(std::string_view(rule.path));
    if (field == fields.end() || done.contains(rule.path)) continue;
    const char* word = rule.words.empty() ? field->second.c_str() : word_for(rule, field->second);
    if (word == nullptr) continue;
    done.insert(rule.path);
    said.emplace_back(rule.theirs, word);
  }
  return said;
}

std::optional<LaunchSettings> launch_settings(const Case& c) {
  switch (c.software.launcher) {
    case Software::Launcher::megatron:
      return megatron_command(c);
    case Software::Launcher::deepspeed:
      return deepspeed_configuration(c);
    case Software::Launcher::other:
      break;
  }
  return std::nullopt;
}

}  // namespace foretrain
