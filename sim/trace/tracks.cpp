#include "sim/trace/tracks.h"

#include <array>

namespace foretrain::trace {
namespace {

Lane lane_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::tensor:
      return Lane::tensor;
    case Purpose::context:
      return Lane::context;
    case Purpose::data:
      return Lane::data;
    case Purpose::shard:
    case Purpose::local:
      return Lane::shard;
    case Purpose::replica:
    case Purpose::across:
      return Lane::replica;
    case Purpose::expert:
      return Lane::expert;
    case Purpose::expert_tensor:
      return Lane::expert_tensor;
    // Reductions of a rank run one after another: those of experts can share a track.
    case Purpose::expert_data:
    case Purpose::expert_shard:
    case Purpose::expert_replica:
      return Lane::expert_data;
    case Purpose::forward:
      return Lane::send_forward;
    case Purpose::backward:
      return Lane::send_backward;
    case Purpose::tie:
      return Lane::tie;
    case Purpose::mirror:
      return Lane::mirror;
    case Purpose::to_host:
      return Lane::copy_out;
    case Purpose::from_host:
      return Lane::copy_in;
    case Purpose::host_work:
      return Lane::host_optimizer;
    case Purpose::nvme_read:
      return Lane::nvme_read;
    case Purpose::nvme_write:
      return Lane::nvme_write;
  }
  return Lane::compute;
}

// Collectives inside layers are on the compute stream in any case.
bool inside_layers(Lane lane) { return lane < Lane::data; }

}  // namespace

std::string thread_name(int thread) {
  constexpr std::array names = {"step time by cause",
                                "compute",
                                "kernels",
                                "tp: tensor parallel",
                                "cp: context parallel",
                                "ep: expert parallel",
                                "etp: tensor parallel of experts",
                                "pp: gather of boundary tensors",
                                "dp: data parallel",
                                "zero: shards",
                                "dp: replicas of shards",
                                "dp: experts",
                                "dp: tied embeddings",
                                "dp: mirrored stages",
                                "all ranks: gradient norm",
                                "pp: to the next stage",
                                "pp: to the previous stage",
                                "copy engine: host to GPU",
                                "copy engine: GPU to host",
                                "host: optimizer",
                                "host: NVMe read",
                                "host: NVMe write"};
  static_assert(names.size() == kLanes);
  const std::string name = names[static_cast<std::size_t>((thread - 1) / 2)];
  return thread % 2 == 1 ? name : name + " (compute waits)";
}

std::vector<Place> places(const Step& step, engine::TaskId task) {
  const TaskInfo& info = step.tasks[task.index()];
  std::vector<Place> found;
  if (is_pass(info.kind) || info.kind == TaskKind::optimizer || info.kind == TaskKind::step_overhead) {
    found.push_back({info.actor, Lane::compute, false});
  } else if (info.kind == TaskKind::gradient_norm) {
    for (std::uint32_t rank = 0; rank < step.stage.size(); ++rank) found.push_back({rank, Lane::norm, false});
  } else {
    const Communicator& communicator = step.communicators[info.actor];
    const Lane lane = info.kind == TaskKind::pipeline_gather ? Lane::pipeline_gather : lane_of(communicator.purpose);
    const bool blocking = info.on_compute_stream && !inside_layers(lane);
    const bool sent = info.kind == TaskKind::pipeline_transfer;
    for (std::uint32_t rank : communicator.rank_classes) {
      found.push_back({rank, lane, blocking});
      if (sent) break;
    }
  }
  return found;
}

}  // namespace foretrain::trace
