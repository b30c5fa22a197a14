#include "sim/page/view.h"

#include <cmath>

#include "sim/page/link_load.h"
#include "sim/page/pipeline_view.h"
#include "sim/page/roofline.h"
#include "sim/report/figures.h"

namespace foretrain::page {
namespace {

using report::Json;

// Times of slices are whole multiples of this: a ten-millionth of a step or finer, which a screen cannot show.
std::int64_t tick_of(Time length) {
  std::int64_t tick = 1;
  while (length.ps / tick > 20'000'000) tick *= 10;
  return tick;
}

Json slices_json(const std::vector<PipelineView::Slice>& slices, std::int64_t tick) {
  Json list = Json::array();
  for (const PipelineView::Slice& slice : slices) {
    Json numbers = {static_cast<int>(slice.activity), slice.begin.ps / tick, (slice.end - slice.begin).ps / tick,
                    slice.activity == Activity::left_out ? static_cast<std::int64_t>(slice.stands_for)
                                                         : std::int64_t{slice.micro_batch}};
    if (slice.chunk > 0) numbers.push_back(slice.chunk);
    list.push_back(std::move(numbers));
  }
  return list;
}

Json pipeline_json(const CaseReport& r, const Communicators& communicators, std::size_t slices) {
  const PipelineView view = pipeline_view(r.step, r.schedule, communicators, {.slices = slices});
  const std::int64_t tick = tick_of(view.end);
  Json stages = Json::array();
  for (const PipelineView::Stage& stage : view.stages) {
    Json time = Json::object();
    Time busy;
    for (std::size_t a = 0; a < kActivities; ++a) {
      if (stage.time[a] == Time::zero()) continue;
      busy += stage.time[a];
      time[to_string(static_cast<Activity>(a))] = report::exact_seconds(stage.time[a]);
    }
    stages.push_back({{"stage", stage.stage},
                      {"gpus", stage.gpus},
                      {"passes", stage.passes},
                      {"time_s", std::move(time)},
                      {"idle_s", report::exact_seconds(view.end - busy)},
                      {"compute", slices_json(stage.compute, tick)},
                      {"beside", slices_json(stage.beside, tick)}});
  }
  Json activities = Json::array();
  for (std::size_t a = 0; a < kActivities; ++a) activities.push_back(to_string(static_cast<Activity>(a)));
  return {{"tick_ps", tick},
          {"end_s", report::exact_seconds(view.end)},
          {"all_stages", view.all_stages},
          {"activities", std::move(activities)},
          {"stages", std::move(stages)}};
}

const char* to_string(Pass pass) {
  constexpr std::array names = {"forward", "backward", "input_gradient", "weight_gradient"};
  return names[static_cast<std::size_t>(pass)];
}

Json roofline_json(const CaseReport& r) {
  const Gpu& gpu = r.subject.cluster.gpu;
  const MatrixRate rate = matrix_rate(gpu, r.subject.train.precision);
  Json operators = Json::array();
  for (const OperatorPoint& point : operator_points(r.subject)) {
    operators.push_back({{"name", point.name},
                         {"pass", to_string(point.pass)},
                         {"flops", point.flops},
                         {"bytes", point.bytes},
                         {"time_s", point.time.value},
                         {"flops_per_byte", point.flops / point.bytes},
                         {"flops_per_s", point.flops / point.time.value}});
  }
  return {{"gpu", gpu.name},
          {"precision", foretrain::to_string(r.subject.train.precision)},
          {"peak_flops_per_s", rate.datasheet.value},
          {"achieved_flops_per_s", rate.datasheet.value * rate.achieved},
          {"memory_bytes_per_s", gpu.memory_bandwidth.value},
          {"achieved_memory_bytes_per_s", gpu.memory_bandwidth.value * gpu.achieved.memory},
          {"step_flops_per_s", r.model_tflops_per_gpu * 1e12},
          {"operators", std::move(operators)}};
}

Json topology_json(const CaseReport& r, const Cluster& cluster, const Communicators& communicators) {
  const ClusterDescription& d = cluster.description();
  Json links = Json::array();
  for (const auto& link : node_traffic(r, cluster, communicators).links) {
    links.push_back({{"from", link.from},
                     {"to", report::or_null(link.to)},
                     {"kind", foretrain::to_string(link.link.kind)},
                     {"bytes_per_s", link.link.rate.value},
                     {"datasheet_bytes_per_s", link.link.datasheet.value},
                     {"bytes_per_step", link.bytes},
                     {"load", link.load}});
  }
  return {{"node", report::or_null(d.node_name)},
          {"gpu", d.gpu.name},
          {"gpus_per_node", d.gpus_per_node},
          {"nodes", d.nodes()},
          {"nodes_alike", d.overrides.empty()},
          {"network", d.nodes() > 1 ? Json(foretrain::to_string(d.network)) : Json(nullptr)},
          {"oversubscription", d.oversubscription},
          {"rail_optimised", d.rail_optimised},
          {"links", std::move(links)}};
}

}  // namespace

Json case_view(const CaseReport& r, const Environment& environment, std::size_t slices) {
  const Cluster cluster(r.subject.cluster, environment.link_rates);
  const Communicators communicators(r.subject, cluster, environment.collectives, Communicators::Folding::symmetric,
                                    environment.hosts);
  return {{"name", r.name},
          {"pipeline", pipeline_json(r, communicators, slices)},
          {"roofline", roofline_json(r)},
          {"topology", topology_json(r, cluster, communicators)}};
}

}  // namespace foretrain::page
