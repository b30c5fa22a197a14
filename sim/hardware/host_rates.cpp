#include "sim/hardware/host_rates.h"

#include <algorithm>

#include "sim/config/reader.h"

namespace foretrain {
namespace {

constexpr config::Range kBytes{1.0, 1e9};
constexpr config::Range kNanoseconds{1e-3, 1e6};
constexpr config::Range kOfDram{1e-3, 1.0};

HostRates::Adam read_adam(config::MapReader& parent, std::string_view key, Diagnostics& diagnostics) {
  config::MapReader map(parent.child(key), diagnostics, std::string(key));
  HostRates::Adam adam;
  adam.core_per_parameter = {map.required_number("core_ns", config::Unit::count, kNanoseconds) * 1e-9};
  adam.dram_per_parameter = {map.required_number("dram_bytes", config::Unit::count, kBytes)};
  adam.dram_fraction = map.required_number("dram_fraction", config::Unit::count, kOfDram);
  map.finish();
  return adam;
}

}  // namespace

std::optional<HostRates> read_host_rates(const config::Node& file, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  HostRates rates;
  config::MapReader reader(file, diagnostics, "hosts");
  {
    config::MapReader copy(reader.child("copy"), diagnostics, "copy");
    rates.pinned_copy = read_by_generation(copy, "pinned", kGiga, diagnostics);
    rates.pageable_copy = read_by_generation(copy, "pageable", kGiga, diagnostics);
    copy.required_text("source");
    copy.finish();
  }
  {
    config::MapReader nvme(reader.child("nvme"), diagnostics, "nvme");
    rates.nvme_read = read_by_generation(nvme, "read", kGiga, diagnostics);
    rates.nvme_write = read_by_generation(nvme, "write", kGiga, diagnostics);
    rates.nvme_half_in_flight = {nvme.required_number("half_in_flight_kib", config::Unit::count, kBytes) * 1024.0};
    rates.nvme_block = {nvme.required_number("block_kib", config::Unit::count, kBytes) * 1024.0};
    rates.nvme_queue_depth = static_cast<int>(nvme.required_integer("queue_depth", {1, 65536}));
    nvme.required_text("source");
    nvme.finish();
  }
  {
    config::MapReader adam(reader.child("adam"), diagnostics, "adam");
    rates.deepspeed = read_adam(adam, "deepspeed", diagnostics);
    rates.torch = read_adam(adam, "torch", diagnostics);
    rates.torch_2020 = read_adam(adam, "torch_2020", diagnostics);
    adam.required_text("source");
    adam.finish();
  }
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return rates;
}

std::optional<HostRates> load_host_rates(const DataFolder& data, Diagnostics& diagnostics) {
  const auto file = config::parse_yaml_file(data.path + "/hardware/calibrated/hosts.yaml", diagnostics);
  return file ? read_host_rates(*file, diagnostics) : std::nullopt;
}

BytesPerSecond nvme_rate(BytesPerSecond large, Bytes block, double depth, const HostRates& rates) {
  const double in_flight = block.value * depth;
  return large * (in_flight / (in_flight + rates.nvme_half_in_flight.value));
}

Seconds adam_time(const HostRates::Adam& code, double parameters, double cores, BytesPerSecond dram) {
  const double compute = parameters * code.core_per_parameter.value / cores;
  const double memory = parameters * code.dram_per_parameter.value / (dram.value * code.dram_fraction);
  return {std::max(compute, memory)};
}

}  // namespace foretrain
