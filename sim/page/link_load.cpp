#include "sim/page/link_load.h"

#include <algorithm>
#include <array>
#include <limits>

#include "sim/hardware/node_graph.h"

namespace foretrain::page {
namespace {

// What the engine moved, by folded link: those are its first resources, in the same order.
std::vector<double> scheduled_traffic(const Step& step, std::size_t links) {
  std::vector<double> traffic(links);
  std::vector<std::size_t> tasks_of_cost(step.graph.cost_count());
  for (std::size_t task = 0; task < step.graph.task_count(); ++task) {
    ++tasks_of_cost[step.graph.cost_of(engine::TaskId(task)).index()];
  }
  for (std::size_t id = 0; id < tasks_of_cost.size(); ++id) {
    const engine::Cost& cost = step.graph.cost(engine::CostId(id));
    for (const engine::ResourceUse& use : step.graph.uses(cost)) {
      if (use.resource.index() >= links) continue;
      traffic[use.resource.index()] += static_cast<double>(tasks_of_cost[id]) * cost.work * use.per_unit;
    }
  }
  return traffic;
}

// A communicator of the rank class for traffic inside layers.
std::optional<std::uint32_t> inside_layers(const Communicators& communicators, std::uint32_t rank_class, Part part) {
  const auto find = [&](Purpose purpose, Algorithm algorithm) {
    return communicators.find(rank_class, purpose, algorithm);
  };
  if (part == Part::tensor_transfer) return find(Purpose::tensor, Algorithm::ring);
  if (part == Part::context_transfer) return find(Purpose::context, Algorithm::ring);
  if (const auto exchange = find(Purpose::expert, Algorithm::all_to_all)) return exchange;
  if (const auto gather = find(Purpose::expert, Algorithm::ring)) return gather;
  return find(Purpose::expert_tensor, Algorithm::ring);
}

// A collective that a pass contracts runs at what the tightest of its links gives.
void add_contracted_traffic(std::vector<double>& traffic, const Step& step, const Communicators& communicators) {
  for (std::uint32_t rank = 0; rank < step.compute_tasks.size(); ++rank) {
    for (const Part part : {Part::tensor_transfer, Part::context_transfer, Part::expert_transfer}) {
      const auto communicator = inside_layers(communicators, rank, part);
      if (!communicator) continue;
      Time busy;
      for (const engine::TaskId task : step.compute_tasks[rank]) {
        const TaskInfo& info = step.tasks[task.index()];
        if (is_pass(info.kind)) busy += step.compositions[info.composition][part];
      }
      const auto& uses = communicators.all()[*communicator].uses;
      double rate = std::numeric_limits<double>::infinity();
      for (const auto& use : uses) rate = std::min(rate, communicators.links()[use.link].rate / use.bytes_per_unit);
      for (const auto& use : uses) traffic[use.link] += busy.seconds() * rate * use.bytes_per_unit;
    }
  }
}

}  // namespace

NodeTraffic node_traffic(const CaseReport& report, const Cluster& cluster, const Communicators& communicators) {
  std::vector<double> traffic = scheduled_traffic(report.step, communicators.links().size());
  add_contracted_traffic(traffic, report.step, communicators);
  const NodeGraph& node = cluster.graph(0);
  NodeTraffic result;
  const auto add = [&](LinkId id, std::string from, std::string to) {
    NodeTraffic::LinkTraffic& link = result.links.emplace_back();
    link = {cluster.link(id), std::move(from), std::move(to)};
    if (const auto folded = communicators.folded_link(id)) link.bytes = traffic[*folded];
    // What is taken from exposed times counts rings even where another algorithm ran.
    link.load = std::min(1.0, link.bytes / link.link.rate.value / report.step_time.seconds());
  };
  for (std::size_t i = 0; i < node.links().size(); ++i) add(LinkId(i), node.links()[i].from, node.links()[i].to);
  // The fabric's links are numbered behind those of all nodes: up and down of the first node come first.
  const std::size_t fabric = node.links().size() * static_cast<std::size_t>(cluster.node_count());
  if (cluster.link_count() > fabric) {
    add(LinkId(fabric), "up to spine", "");
    add(LinkId(fabric + 1), "down from spine", "");
  }
  return result;
}

}  // namespace foretrain::page
