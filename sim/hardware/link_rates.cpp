#include "sim/hardware/link_rates.h"

#include <algorithm>
#include <string>

#include "sim/config/reader.h"

namespace foretrain {

namespace {

constexpr config::Range kOfLine{1e-3, 1.0}, kRate{1e-3, 1e6};

}  // namespace

void ByGeneration::set(int generation, double value) { values_.at(static_cast<std::size_t>(generation)) = value; }

bool ByGeneration::empty() const {
  return std::none_of(values_.begin(), values_.end(), [](const auto& v) { return v.has_value(); });
}

double* ByGeneration::own(int generation) {
  std::optional<double>& value = values_.at(static_cast<std::size_t>(generation));
  return value ? &*value : nullptr;
}

double ByGeneration::at(int generation) const {
  const int last = static_cast<int>(values_.size()) - 1;
  for (int g = std::clamp(generation, 0, last); g >= 0; --g)
    if (values_[static_cast<std::size_t>(g)]) return *values_[static_cast<std::size_t>(g)];
  return **std::find_if(values_.begin(), values_.end(), [](const auto& v) { return v.has_value(); });
}

ByGeneration read_by_generation(config::MapReader& parent, std::string_view key, double scale,
                                Diagnostics& diagnostics) {
  ByGeneration result;
  if (const config::Node* node = parent.node(key)) {
    config::MapReader map(*node, diagnostics, std::string(key));
    for (int generation = 1; generation < ByGeneration::kGenerations; ++generation)
      if (const auto value = map.number("gen" + std::to_string(generation), config::Unit::count, kRate))
        result.set(generation, *value * scale);
    map.finish();
  }
  if (result.empty()) parent.error(key, message("no value for any generation; give at least one, as in {{gen4: 1.0}}"));
  return result;
}

std::optional<LinkRates> load_link_rates(const DataFolder& data, Diagnostics& diagnostics) {
  const auto file = config::parse_yaml_file(data.path + "/hardware/calibrated/links.yaml", diagnostics);
  return file ? read_link_rates(*file, diagnostics) : std::nullopt;
}

std::optional<LinkRates> read_link_rates(const config::Node& file, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  LinkRates rates;
  config::MapReader reader(file, diagnostics, "links");
  {
    config::MapReader nvlink(reader.child("nvlink"), diagnostics, "nvlink");
    rates.nvlink_fraction = read_by_generation(nvlink, "fraction", 1.0, diagnostics);
    rates.nvlink_bridge_fraction = read_by_generation(nvlink, "bridge_fraction", 1.0, diagnostics);
    nvlink.required_text("source");
    nvlink.finish();
  }
  {
    config::MapReader pcie(reader.child("pcie"), diagnostics, "pcie");
    rates.pcie_copy = read_by_generation(pcie, "copy", kGiga, diagnostics);
    rates.pcie_datasheet = read_by_generation(pcie, "datasheet", kGiga, diagnostics);
    pcie.required_text("source");
    pcie.finish();
  }
  {
    config::MapReader socket(reader.child("socket"), diagnostics, "socket");
    rates.socket = read_by_generation(socket, "rate", kGiga, diagnostics);
    socket.required_text("source");
    socket.finish();
  }
  {
    config::MapReader staging(reader.child("host_staging"), diagnostics, "host_staging");
    rates.staging_server = read_by_generation(staging, "server", kGiga, diagnostics);
    rates.staging_desktop = read_by_generation(staging, "desktop", kGiga, diagnostics);
    staging.required_text("source");
    staging.finish();
  }
  {
    config::MapReader dram(reader.child("dram"), diagnostics, "dram");
    rates.dram_fraction = dram.required_number("fraction", config::Unit::count, kOfLine);
    dram.required_text("source");
    dram.finish();
  }
  {
    config::MapReader nic(reader.child("nic"), diagnostics, "nic");
    rates.rdma = nic.required_number("rdma", config::Unit::count, kOfLine);
    rates.rdma_staged = nic.required_number("rdma_staged", config::Unit::count, kOfLine);
    rates.efa = nic.required_number("efa", config::Unit::count, kOfLine);
    rates.efa_blackwell = nic.required_number("efa_blackwell", config::Unit::count, kOfLine);
    rates.ethernet = nic.required_number("ethernet", config::Unit::count, kOfLine);
    rates.omni_path = nic.required_number("omni_path", config::Unit::count, kOfLine);
    rates.ethernet_node_limit = {nic.required_number("ethernet_node_limit", config::Unit::count, kRate) * kGiga};
    nic.required_text("source");
    nic.finish();
  }
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return rates;
}

}  // namespace foretrain
