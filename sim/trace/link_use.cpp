#include "sim/trace/link_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/engine/simulation.h"

namespace foretrain::trace {
namespace {

// "stage 3", "stages 0..15", "stages 0, 15".
std::string stages_text(const std::set<int>& stages) {
  const int first = *stages.begin(), last = *stages.rbegin();
  if (first == last) return fmt::format("stage {}", first);
  if (stages.size() == static_cast<std::size_t>(last - first) + 1) return fmt::format("stages {}..{}", first, last);
  return fmt::format("stages {}", fmt::join(stages, ", "));
}

// Kind, stages and purposes of the communicators that use each link.
std::vector<std::string> link_names(const Step& step) {
  struct Users {
    std::set<int> stages;
    std::set<std::string> purposes;
  };
  std::map<std::uint32_t, Users> users;
  for (const Communicator& communicator : step.communicators) {
    for (const Communicator::LinkUse& use : communicator.uses) {
      Users& of = users[use.link];
      of.purposes.insert(to_string(communicator.purpose));
      for (std::uint32_t rank : communicator.rank_classes) of.stages.insert(step.stage[rank]);
    }
  }
  const bool staged = *std::max_element(step.stage.begin(), step.stage.end()) > 0;
  std::vector<std::string> names(step.resource_is_link.size());
  std::map<std::string, int> alike;
  for (const auto& [link, of] : users) {
    const std::string stages = staged ? " of " + stages_text(of.stages) : "";
    names[link] =
        fmt::format("{}{}: {}", to_string(step.link_kind_of_resource[link]), stages, fmt::join(of.purposes, ", "));
    if (const int before = alike[names[link]]++; before > 0) names[link] += fmt::format(" ({})", before + 1);
  }
  return names;
}

}  // namespace

std::vector<LinkUse> link_use(const Step& step) {
  const std::vector<std::string> names = link_names(step);
  std::vector<LinkUse> links(names.size());
  std::vector<double> rates(names.size());
  const auto observe = [&](Time now, std::span<const engine::ActiveTask> active) {
    std::fill(rates.begin(), rates.end(), 0.0);
    for (const engine::ActiveTask& running : active) {
      for (const engine::ResourceUse& use : step.graph.uses(step.graph.cost(step.graph.cost_of(running.task)))) {
        rates[use.resource.index()] += running.rate * use.per_unit;
      }
    }
    for (std::size_t i = 0; i < links.size(); ++i) {
      std::vector<LinkUse::Moment>& moments = links[i].moments;
      if (!step.resource_is_link[i] || rates[i] == (moments.empty() ? 0.0 : moments.back().rate)) continue;
      if (moments.empty()) moments.push_back({Time::zero(), 0.0});
      moments.push_back({now, rates[i]});
    }
  };
  engine::simulate(step.graph, {observe});
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i].name = names[i];
    links[i].capacity = step.graph.capacity(engine::ResourceId(i));
  }
  std::erase_if(links, [](const LinkUse& link) { return link.moments.empty(); });
  return links;
}

}  // namespace foretrain::trace
