#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/reader.h"
#include "sim/hardware/gpu.h"

namespace foretrain {

// How the GPUs of one node reach each other.
enum class Intra { nvswitch, nvlink_mesh, nvlink_pairs, pcie_switch, pcie };
const char* to_string(Intra intra);

enum class NetworkKind { infiniband, roce, ethernet, efa, omni_path };
const char* to_string(NetworkKind kind);

// Of one PCIe 4.0 drive, where a plan needs drives and nothing says how many there are
// (hardware/measurements/hosts.yaml).
inline constexpr BytesPerSecond kOneDriveReads{3.69e9}, kOneDriveWrites{3.18e9};

// What GPUs without P2P copy through: a board with all PCIe lanes and memory channels, or a desktop or cloud box with
// narrow uplinks and slow host paths (host_staging in hardware/calibrated/links.yaml).
enum class Board { server, desktop };
const char* to_string(Board board);

// The host of a node. In YAML: host: {cpu, board, sockets, cores, dram_gb, dram_gbps, pcie, nvme_read_gbps,
// nvme_write_gbps}, where dram_gbps is of all sockets together, like cores and dram_gb, and the NVMe rates are of the
// whole array.
struct HostDescription {
  std::string cpu;
  std::optional<Board> board;  // a desktop if nothing says, where the driver of the GPUs refuses P2P
  int sockets = 2;
  int cores = 64;             // physical ones, of all sockets: two hardware threads of a core count once
  std::optional<Bytes> dram;  // capacity of the whole node
  bool cores_assumed = false;
  BytesPerSecond dram_bandwidth_per_socket;
  int pcie_generation = 4;  // the links run at: the lower of the host's and the GPU's
  std::optional<BytesPerSecond> nvme_read, nvme_write;
};

// One node and how many of them: what the cluster graph is built from. A catalogue node and the generic
// description of a scenario both become this.
struct ClusterDescription {
  std::string node_name;    // catalogue node, or empty
  std::string fabric_name;  // catalogue fabric, or empty
  Gpu gpu;
  int gpus = 1;           // in the whole job
  int gpus_per_node = 1;  // present in a node; the last node may be used in part
  int gpus_per_host = 0;  // where a node is several hosts of one NVLink domain; 0 = a node is a host
  // MIG: the profiles of the slices that every card is cut into. A GPU of the job is then a slice and `gpu` the first
  // of these. Empty: whole cards.
  std::vector<std::string> mig;
  Intra intra = Intra::pcie;
  bool p2p = true;               // peer-to-peer over PCIe works
  int gpus_per_pcie_switch = 2;  // cards sharing one x16 uplink, for pcie_switch (and behind NVSwitch, for NICs)
  // NICs of a node that carry training traffic, evenly attached to the GPUs; 0 only for a single node.
  int nics = 0;
  BytesPerSecond nic_rate;  // one NIC, one direction
  NetworkKind network = NetworkKind::infiniband;
  double oversubscription = 1.0;  // of the leaf uplinks; 1 = full bisection
  bool rail_optimised = true;     // NIC i of every node hangs on leaf switch i
  HostDescription host;
  double power_limit_watts = 0.0;  // 0 = none; `gpu` is the unlimited card (see with_power_limit)

  // A link made slower than the catalogue says: {node, gpu or nic index, factor}.
  struct Override {
    std::string link;  // "nvlink" | "pcie" | "nic"
    int node = 0, index = 0;
    double factor = 1.0;
  };
  std::vector<Override> overrides;

  // GPUs that are not like `gpu`: of another kind, or whose kernels run at another speed. Numbered over the whole job.
  struct OddGpu {
    int number = 0;
    int kind = 0;  // 0: `gpu`; k: other_gpus[k - 1]
    double speed = 1.0;
  };
  std::vector<Gpu> other_gpus;   // with their power limits, unlike `gpu`
  std::vector<OddGpu> odd_gpus;  // by number
  struct Jitter {
    double sigma = 0.0;  // of the logarithm of a GPU's speed
    std::uint64_t seed = 1;
  } jitter;  // already in odd_gpus; for display

  std::vector<Message> assumptions;  // defaults filled in, printed with the answer

  int nodes() const { return (gpus + gpus_per_node - 1) / gpus_per_node; }
  int slices_per_card() const { return mig.empty() ? 1 : static_cast<int>(mig.size()); }
  int cards_per_node() const { return (gpus_per_node + slices_per_card() - 1) / slices_per_card(); }

  int kinds() const { return 1 + static_cast<int>(other_gpus.size()); }
  const Gpu& gpu_of_kind(int kind) const { return kind == 0 ? gpu : other_gpus[static_cast<std::size_t>(kind - 1)]; }
  OddGpu oddity_of(int number) const;  // kind 0 at speed 1 for a GPU like the others
  const Gpu& gpu_at(int number) const { return gpu_of_kind(oddity_of(number).kind); }
  // One GPU of every name.
  std::vector<const Gpu*> unlike_gpus() const;
};

// Reads a scenario's `cluster` map: {node, nodes, fabric} or the generic form {gpu, gpus, gpus_per_node, intra, p2p,
// gpus_per_pcie_switch, nics, nic_gbps, net, rail_optimised, oversubscription, host, power_limit_w, mig, overrides,
// jitter}, or a mix where the generic fields override those of the catalogue node. A fabric's NIC rate and network
// override the node's, its NIC count does not. `nics: per-gpu` means as many as GPUs.
//
// `nvlink_domain: N` joins hosts into nodes of up to N GPUs (see nvlink_domain.h).
// `mig: PROFILE` cuts every card into as many slices of it as it holds (or as a node has GPUs), `mig: [PROFILE, ...]`
// into these; gpus and gpus_per_node then count slices, but for a catalogue node, whose cards are all cut. `overrides`
// and `jitter`: see cluster_overrides.h.
//
// Reports everything wrong, with positions; nullopt then. Refused by name, as not built: NVLink domains of more GPUs
// than a node can have.
std::optional<ClusterDescription> read_cluster(const config::Node& node, const DataFolder& data,
                                               Diagnostics& diagnostics);

}  // namespace foretrain
