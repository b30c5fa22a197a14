#pragma once

#include <optional>
#include <span>

#include "sim/hardware/cluster.h"

namespace foretrain {

// A node is several hosts where NVLink joins them.
int hosts_of(const ClusterDescription& node);

// The links of one node: what each reaches, and what its datasheet says.
struct NodeRates {
  const ClusterDescription& node;
  const LinkRates& rates;
  std::span<const Gpu* const> gpus;  // of this node, in order

  const Gpu& gpu(std::size_t index) const { return *gpus[index]; }

  // `share` of a GPU's NVLinks.
  Link nvlink(std::size_t index, double share, bool bridge) const;
  // The same between two GPUs: as the slower of them can.
  Link nvlink(std::size_t a, std::size_t b, double share, bool bridge) const;
  Link gpu_pcie(std::size_t index) const;
  Link host_pcie() const;
  // Between two sockets.
  Link socket() const;
  // Of one socket.
  Link dram() const;
  // A GPU's copies through host memory where there is no P2P. Unless the host is known, a driver that refuses P2P marks
  // a desktop card; see host_staging in links.yaml.
  Link staging(std::size_t index) const;
  // A GPU's NVLink-C2C to its CPU.
  Link c2c(std::size_t index) const;
  // The cores of one of so many sockets, in core-nanoseconds a second.
  Link cores(std::size_t sockets) const;
  // One direction of one NIC.
  Link nic() const;
  // What the TCP sockets of a node move in one direction, over all its NICs together: the threads that copy into and
  // out of the kernel are the host's, not a NIC's. Nothing where the NICs are slower anyway.
  std::optional<Link> tcp_sockets() const;
};

}  // namespace foretrain
