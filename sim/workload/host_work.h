#pragma once

#include "sim/cost/collective.h"
#include "sim/hardware/host_rates.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

enum class Purpose : std::uint8_t;

// What the host and the copies to and from it do for a rank, whatever the amount.
struct HostWork {
  Seconds latency;              // of issuing a copy or starting the host's threads
  BytesPerSecond copy_cap;      // what one copy reaches whatever the link: pageable memory is copied twice
  double copy_memory = 1;       // bytes of DRAM that a byte copied takes: 3 if it is copied once more on the host
  double core_ns = 0;           // of one core for a parameter's update
  double memory_bytes = 0;      // of DRAM, as if at the rate that plain copies reach, for a parameter's update
  double parameters_per_s = 0;  // that a rank's threads reach by themselves
  BytesPerSecond nvme_read, nvme_write;  // that the framework's requests let the drives reach
};

// Of a case's framework and host. A rank has the framework's threads, or its even share of the cores.
HostWork host_work(const Case& subject, const Cluster& cluster, const HostRates& rates);

// Purposes from Purpose::to_host on, in units of a byte moved: the optimizer's are those of DRAM that its updates take,
// so that what shares DRAM with copies shares it by bytes. How many units there are of an amount of bytes, or of
// parameters to update; what one unit takes of links, cores and DRAM; and the most units a second.
double host_units(Purpose purpose, double amount, const HostWork& host);
std::vector<LinkLoad> host_loads(Purpose purpose, int rank, const Cluster& cluster, const HostWork& host);
double host_rate(Purpose purpose, const HostWork& host);

}  // namespace foretrain
