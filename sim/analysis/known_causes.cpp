#include <algorithm>

#include "sim/analysis/case_change.h"

namespace foretrain {
namespace {

bool rdma(NetworkKind kind) { return kind != NetworkKind::ethernet; }
bool over_nvlink(Intra intra) { return intra != Intra::pcie && intra != Intra::pcie_switch; }
bool several_on_a_node(const ClusterDescription& c) { return std::min(c.gpus, c.gpus_per_node) > 1; }

void add_links(std::vector<CaseChange>& all) {
  const auto add = [&](const char* name, Message what, std::function<bool(Case&)> edit) {
    all.push_back(change_of_case(name, std::move(what), std::move(edit)));
  };
  add("sockets", message("TCP sockets instead of RDMA on the same network cards"), [](Case& c) {
    if (c.cluster.nodes() == 1 || !rdma(c.cluster.network)) return false;
    c.cluster.network = NetworkKind::ethernet;
    return true;
  });
  add("management-network", message("traffic over one 10 Gbit/s Ethernet port (NCCL_SOCKET_IFNAME)"), [](Case& c) {
    if (c.cluster.nodes() == 1) return false;
    const BytesPerSecond wire = gigabits_per_second(10);
    const bool there_already = c.cluster.nics == 1 && c.cluster.nic_rate <= wire;
    c.cluster.network = NetworkKind::ethernet;
    c.cluster.nics = 1;
    c.cluster.nic_rate = wire;
    return !there_already;
  });
  add("slow-nic", message("one network card at a quarter of its rate"), [](Case& c) {
    if (c.cluster.nodes() == 1) return false;
    c.cluster.overrides.push_back({"nic", 0, 0, 0.25});
    return true;
  });
  add("no-nvlink", message("NVLink not used: traffic over PCIe"), [](Case& c) {
    if (!several_on_a_node(c.cluster) || !over_nvlink(c.cluster.intra)) return false;
    c.cluster.intra = Intra::pcie_switch;
    return true;
  });
  add("no-p2p", message("no P2P between GPUs (NCCL_P2P_DISABLE, ACS, virtual machine)"), [](Case& c) {
    if (!several_on_a_node(c.cluster) || !c.cluster.p2p) return false;
    c.cluster.p2p = false;
    if (over_nvlink(c.cluster.intra)) c.cluster.intra = Intra::pcie;
    return true;
  });
  add("narrow-pcie", message("PCIe links of the GPUs at x4 instead of x16"), [](Case& c) {
    const bool used = c.plan.offload.any() || (several_on_a_node(c.cluster) && !over_nvlink(c.cluster.intra));
    if (!used || c.cluster.gpu.pcie_lanes <= 4) return false;
    c.cluster.gpu.pcie_lanes = 4;
    return true;
  });
}

void add_hosts(std::vector<CaseChange>& all) {
  all.push_back(
      change_of_rate("slow-host", message("launches bound by the host: CPU half as fast"), HardwareRate::host, 0.5));
  all.push_back(change_of_rate("very-slow-host", message("launches bound by the host: CPU a quarter as fast"),
                               HardwareRate::host, 0.25));
  for (const int divisor : {4, 16}) {
    all.push_back(change_of_case(divisor == 4 ? "few-cores" : "starved-cores",
                                 divisor == 4 ? message("a quarter of the host's cores for the optimizer")
                                              : message("a sixteenth of the host's cores (OMP_NUM_THREADS, container)"),
                                 [divisor](Case& c) {
                                   if (c.plan.offload.optimizer == Offload::Place::gpu ||
                                       c.cluster.host.cores <= divisor)
                                     return false;
                                   c.cluster.host.cores /= divisor;
                                   return true;
                                 }));
  }
  all.push_back(
      change_of_case("half-memory-channels", message("half of the host's memory channels filled"), [](Case& c) {
        if (!c.plan.offload.any() && c.cluster.p2p) return false;
        c.cluster.host.dram_bandwidth_per_socket *= 0.5;
        return true;
      }));
}

void add_gpus(std::vector<CaseChange>& all) {
  for (const int percent : {70, 50}) {
    all.push_back(change_of_case(percent == 70 ? "power-cap" : "hard-power-cap",
                                 percent == 70 ? message("GPUs held at 70 % of their power (limit or heat)")
                                               : message("GPUs held at half of their power (limit or heat)"),
                                 [percent](Case& c) {
                                   const double watts = c.cluster.gpu.tdp_watts * percent / 100;
                                   const double now = c.cluster.power_limit_watts;
                                   if (!(watts > 0) || (now > 0 && now <= watts)) return false;
                                   c.cluster.power_limit_watts = watts;
                                   return true;
                                 }));
  }
  all.push_back(change_of_case("fp32", message("computed in fp32 (no autocast)"), [](Case& c) {
    if (c.train.precision == Precision::fp32) return false;
    c.train.precision = Precision::fp32;
    return true;
  }));
}

void add_settings(std::vector<CaseChange>& all) {
  const auto add = [&](const char* name, Message what, std::function<bool(Case&)> edit) {
    all.push_back(change_of_case(name, std::move(what), std::move(edit)));
  };
  add("short-sequences", message("sequences half as long as described"), [](Case& c) {
    c.train.seq_len /= 2;
    return c.train.seq_len >= 16;
  });
  add("long-sequences", message("sequences twice as long as described"), [](Case& c) {
    c.train.seq_len *= 2;
    return c.train.seq_len <= (std::int64_t{1} << 24);
  });
  add("smallest-micro-batch", message("micro-batches of one sequence"), [](Case& c) {
    if (c.plan.micro_batch == 1 || !c.plan.shares.empty()) return false;
    c.plan.micro_batch = 1;
    return true;
  });
  add("no-sharding", message("ZeRO not in force: every rank holds all states"), [](Case& c) {
    if (c.plan.zero == 0 || c.plan.offload.any()) return false;
    c.plan.zero = 0;
    c.plan.shard_group = 0;
    c.plan.zeropp = {};
    return true;
  });
  add("adamw", message("states of AdamW in full precision"), [](Case& c) {
    if (c.train.optimizer == Optimizer::adamw) return false;
    c.train.optimizer = Optimizer::adamw;
    return true;
  });
}

}  // namespace

std::vector<CaseChange> known_causes() {
  std::vector<CaseChange> all;
  add_links(all);
  add_hosts(all);
  add_gpus(all);
  add_settings(all);
  // A switch that is not as the description has it is a cause as well.
  for (CaseChange& other : software_switches()) all.push_back(std::move(other));
  return all;
}

}  // namespace foretrain
