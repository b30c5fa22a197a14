#include <fmt/format.h>

#include <array>

#include "sim/plan/read_offload.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using Place = Offload::Place;
using Request = PlanRequest::OffloadRequest;

constexpr std::array kPlaces = {Place::gpu, Place::cpu, Place::nvme};

std::optional<Place> read_place(MapReader& offload, const char* key) {
  const auto chosen = offload.choice(key, {"none", "cpu", "nvme"});
  return chosen ? std::optional(kPlaces[*chosen]) : std::nullopt;
}

bool moves_something(const Request& r) {
  return r.optimizer != Place::gpu || r.params != Place::gpu || r.activations != Place::gpu ||
         r.gradients.value_or(Place::gpu) != Place::gpu;
}

Request read_map(const Node& node, Diagnostics& diagnostics) {
  MapReader offload(node, diagnostics, "plan.offload");
  Request request;
  request.optimizer = read_place(offload, "optimizer").value_or(Place::gpu);
  request.params = read_place(offload, "params").value_or(Place::gpu);
  request.gradients = read_place(offload, "gradients");
  request.activations = read_place(offload, "activations").value_or(Place::gpu);
  request.fraction = offload.number("fraction", config::Unit::count, {0, 1}).value_or(1.0);
  request.delayed_update = offload.boolean("delayed_update").value_or(false);
  offload.finish();
  if (request.activations == Place::nvme) {
    diagnostics.unsupported(offload.position_of("activations"), message("plan.offload.activations=nvme (legal: cpu)"));
  }
  if (request.gradients == Place::nvme) {
    diagnostics.unsupported(offload.position_of("gradients"), message("plan.offload.gradients=nvme (legal: cpu)"));
  }
  if (request.fraction == 0) request = {};
  return request;
}

}  // namespace

std::optional<Request> read_offload(MapReader& plan, Diagnostics& diagnostics) {
  const Node* node = plan.node("offload");
  if (present(node) == nullptr) return std::nullopt;
  Request request;
  if (node->is_map()) {
    request = read_map(*node, diagnostics);
  } else {
    const auto chosen =
        plan.choice("offload", {"none", "optimizer", "optimizer+params", "params", "activations"}).value_or(0);
    if (chosen == 1 || chosen == 2) request.optimizer = Place::cpu;
    if (chosen == 2 || chosen == 3) request.params = Place::cpu;
    if (chosen == 4) request.activations = Place::cpu;
  }
  return moves_something(request) ? std::optional(request) : std::nullopt;
}

Offload resolve_offload(const PlanRequest& request, int zero, std::int64_t data_ranks, const Train& train,
                        const Software& software, const ClusterDescription& cluster, Diagnostics& diagnostics) {
  Offload offload;
  if (!request.offload) return offload;
  const Request& asked = *request.offload;
  const Software::Offload& can = software.offload;
  const SourcePosition& at = request.position_of("offload");
  const auto error = [&](Message message) { diagnostics.error(at, std::move(message)); };

  std::vector<std::string> legal = {"none"};
  if (can.optimizer) legal.emplace_back("optimizer");
  if (can.params) legal.emplace_back(can.optimizer ? "optimizer+params" : "params");
  if (can.activations) legal.emplace_back("activations");
  const auto cannot = [&](const Message& what) {
    error(message("plan.offload: {} does not offload {}; legal: {}", software.name, what, fmt::join(legal, ", ")));
  };
  if (asked.optimizer != Place::gpu && !can.optimizer) cannot(message("the optimizer"));
  if (asked.params != Place::gpu && !can.params) cannot(message("parameters"));
  if (asked.activations != Place::gpu && !can.activations) cannot(message("activations"));
  const bool to_nvme = asked.optimizer == Place::nvme || asked.params == Place::nvme;
  if (to_nvme && !can.nvme) error(message("plan.offload: {} does not offload to nvme; legal: cpu", software.name));
  if (to_nvme && zero < 3 && data_ranks > 1) error(message("plan.offload: nvme needs zero: 3; legal: cpu, or zero: 3"));

  offload.optimizer = asked.optimizer;
  if (can.together && asked.optimizer != Place::gpu && asked.params == Place::gpu) {
    error(message("plan.offload: {} moves weights, gradients and optimizer together; legal: optimizer+params",
                  software.name));
  }
  if (can.together && asked.params != Place::gpu && asked.optimizer == Place::gpu) {
    diagnostics.note(
        at, message("{} moves the optimizer with the weights: offload is taken as optimizer+params", software.name));
    offload.optimizer = asked.params;
  }
  offload.params = asked.params;
  offload.activations = asked.activations;
  offload.fraction = asked.fraction;
  offload.zero_stage = zero;
  if (offload.optimizer != Place::gpu && zero == 0 && data_ranks > 1) {
    error(
        message("plan.offload: with zero: 0 each of {} ranks would update the whole optimizer state on the host; "
                "legal zero: 1, 2, 3",
                data_ranks));
  }
  if (offload.params != Place::gpu && zero < 3 && data_ranks > 1) {
    // What DeepSpeed does with offload_param below stage 3 (its documentation: valid only with stage 3).
    diagnostics.warning(at, message("weights are whole on every GPU with zero: {} and stay there; offloading params "
                                    "needs zero: 3",
                                    zero));
    offload.params = Place::gpu;
  }
  const bool updates_on_host = offload.optimizer != Place::gpu && can.adam != Software::Offload::Adam::gpu;
  if (updates_on_host && !runs_on_host(train.optimizer)) {
    diagnostics.unsupported(at, message("plan.offload.optimizer with train.optimizer={}", to_string(train.optimizer)));
  }
  if (updates_on_host && cluster.host.cores_assumed) {
    diagnostics.note(at, message("host.cores is taken as {}", cluster.host.cores));
  }
  if (asked.delayed_update) {
    if (updates_on_host)
      offload.delayed_update = true;
    else
      error(message(
          "plan.offload: delayed_update needs an optimizer that runs on the host; legal: optimizer: cpu or nvme"));
  }
  const bool leave = updates_on_host && can.gradients_leave && zero >= 2 && offload.fraction == 1.0;
  offload.gradients = asked.gradients.value_or(leave ? Place::cpu : Place::gpu);
  if (asked.gradients.value_or(Place::gpu) != Place::gpu && zero < 2 && data_ranks > 1) {
    error(message(
        "plan.offload: gradients are reduced once a step below ZeRO-2 and stay on the GPU until then; legal: zero: 2, "
        "3"));
  }
  if (offload.gradients != Place::gpu && offload.optimizer == Place::gpu && can.adam != Software::Offload::Adam::gpu) {
    error(message("plan.offload: gradients go to the host with the optimizer; legal: add optimizer: cpu"));
  }
  if (to_nvme && !(cluster.host.nvme_read && cluster.host.nvme_write)) {
    diagnostics.note(at, message("host.nvme_read_gbps and nvme_write_gbps are taken as {} and {}, one drive",
                                 fmt::format("{:.1f}", kOneDriveReads.value / kGiga),
                                 fmt::format("{:.1f}", kOneDriveWrites.value / kGiga)));
  }
  return offload;
}

std::optional<Plan> with_more_on_host(const Plan& plan, const Software& software) {
  const Software::Offload& can = software.offload;
  Plan more = plan;
  Offload& offload = more.offload;
  const bool alone = plan.data_ranks() == 1;
  if (can.together && plan.pp > 1 && !alone) return std::nullopt;
  if (alone && !software.offers.offload_alone) return std::nullopt;
  if (offload.optimizer == Place::gpu && can.optimizer && (alone || plan.zero >= 1)) {
    offload.optimizer = Place::cpu;
    if (can.together) more.zero = alone ? plan.zero : 3;
  } else if (offload.optimizer == Place::cpu && offload.params == Place::gpu && can.params && (alone || plan.pp == 1)) {
    offload.params = Place::cpu;
    more.zero = alone ? plan.zero : 3;
  } else {
    return std::nullopt;
  }
  if (can.together) offload.params = Place::cpu;
  offload.zero_stage = alone ? 3 : more.zero;
  const bool leave = can.adam != Software::Offload::Adam::gpu && can.gradients_leave && offload.zero_stage >= 2;
  if (leave && offload.fraction == 1.0) offload.gradients = Place::cpu;
  return more;
}

std::optional<Plan> with_more_on_nvme(const Plan& plan, const Software& software) {
  const bool stage3 = plan.data_ranks() == 1 || plan.zero == 3;
  if (!software.offload.nvme || !stage3 || plan.offload.optimizer != Place::cpu) return std::nullopt;
  Plan more = plan;
  more.offload.optimizer = Place::nvme;
  return more;
}

}  // namespace foretrain
