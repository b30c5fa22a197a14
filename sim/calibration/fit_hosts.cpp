#include "sim/calibration/fit_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "sim/calibration/fit_robust.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;
using Link = TransferSample::Link;

const std::vector<std::string> kLinks = {"pcie", "pcie-pageable", "nvlink", "nvme-read", "nvme-write"};
const std::vector<std::string> kCodes = {"deepspeed", "torch", "torch_2020"};

std::string remarks(MapReader& row) {
  for (const char* remark : {"what", "note", "date", "software"}) row.text(remark);
  return row.required_text("source");
}

void read_transfer(const Node& node, HostMeasurements& all, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader row(node, diagnostics, "");
  TransferSample t;
  row.required_text("link");
  t.link = static_cast<Link>(row.choice("link", kLinks).value_or(0));
  t.generation = static_cast<int>(row.required_integer("generation", {1, 9}));
  t.drives = static_cast<int>(row.integer("drives", {1, 1000}).value_or(1));
  t.rate = {row.required_number("gbs", Unit::bytes_rate, {1e6, 1e14})};
  const std::optional<double> busy = row.number("busy_gbs", Unit::bytes_rate, {1e6, 1e14});
  if (busy) {
    t.busy_rate = {*busy};
    t.in_flight = {static_cast<double>(row.required_integer("queue_depth", {1, 65536})) *
                   row.required_number("block_kib", Unit::count, {1, 1e6}) * 1024.0};
    if (t.rate >= t.busy_rate) row.error("busy_gbs", message("a drive is at most as fast as when it is busy"));
  }
  t.source = remarks(row);
  row.finish();
  if (diagnostics.error_count() == errors_before) all.transfers.push_back(std::move(t));
}

void read_optimizer(const Node& node, HostMeasurements& all, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader row(node, diagnostics, "");
  OptimizerSample o;
  row.required_text("code");
  o.code = kCodes[row.choice("code", kCodes).value_or(0)];
  o.cores = static_cast<int>(row.required_integer("cores", {1, 1e5}));
  if (const auto dram = row.number("dram_gbs", Unit::bytes_rate, {1e8, 1e14})) o.dram = BytesPerSecond{*dram};
  o.params = row.required_number("params_b", Unit::count, {1e-6, 1e6}) * 1e9;
  o.seconds = row.required_number("time_s", Unit::seconds, {1e-9, 1e6});
  o.cpu = row.required_text("cpu");
  remarks(row);
  row.finish();
  if (diagnostics.error_count() == errors_before) all.optimizers.push_back(std::move(o));
}

bool holds_host_rows(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("transfers:") || line.starts_with("optimizers:")) return true;
  }
  return false;
}

void read_file(const std::string& path, HostMeasurements& all, Diagnostics& diagnostics) {
  const std::optional<Node> node = config::parse_yaml_file(path, diagnostics);
  if (!node) return;
  MapReader file(*node, diagnostics, "");
  const auto each = [&](const char* key, auto read) {
    const Node* list = file.node(key);
    if (list == nullptr) return;
    if (!list->is_sequence()) return file.error(key, message("{} must be a list", key));
    for (const Node& row : list->sequence()) read(row, all, diagnostics);
  };
  each("transfers", read_transfer);
  each("optimizers", read_optimizer);
  file.finish();
}

// Rows of one constant.
struct Group {
  std::vector<double> values;
  std::vector<std::string> systems;

  void add(double value, const std::string& system) {
    values.push_back(value);
    if (std::find(systems.begin(), systems.end(), system) == systems.end()) systems.push_back(system);
  }
};

ConstantFit median_of(std::string name, const Group& group) {
  const auto [lowest, highest] = std::minmax_element(group.values.begin(), group.values.end());
  ConstantFit fit{std::move(name), quantile(group.values, 0.5), group.values.size(), group.systems, false, ""};
  if (group.values.size() > 1) fit.detail = fmt::format("rows from {:.4g} to {:.4g}", *lowest, *highest);
  return fit;
}

const HostRates::Adam& adam_of(const std::string& code, const HostRates& rates) {
  if (code == "deepspeed") return rates.deepspeed;
  return code == "torch" ? rates.torch : rates.torch_2020;
}

// The constants that a large copy over a link of one generation speaks of.
std::vector<std::string> constants_of(Link link, int generation) {
  const std::string gen = fmt::format("gen{}", generation);
  switch (link) {
    case Link::pcie:
      return {"hosts.copy.pinned." + gen, "links.pcie.copy." + gen};
    case Link::pcie_pageable:
      return {"hosts.copy.pageable." + gen};
    case Link::nvlink:
      return {};  // the links' rates come from collectives
    case Link::nvme_read:
      return {"hosts.nvme.read." + gen};
    case Link::nvme_write:
      return {"hosts.nvme.write." + gen};
  }
  return {};
}

}  // namespace

HostMeasurements load_host_measurements(std::span<const std::string> paths, Diagnostics& diagnostics) {
  HostMeasurements all;
  for (const std::string& path : paths) {
    std::vector<std::string> files = {path};
    std::error_code failed;
    if (std::filesystem::is_directory(path, failed)) {
      files.clear();
      for (const auto& entry : std::filesystem::directory_iterator(path, failed))
        files.push_back(entry.path().string());
    }
    std::erase_if(files, [](const std::string& f) { return !f.ends_with(".yaml") || !holds_host_rows(f); });
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) read_file(file, all, diagnostics);
  }
  return all;
}

std::vector<ConstantFit> fit_hosts(const HostMeasurements& measurements, const HostRates& given) {
  std::map<std::string, Group> groups;
  for (const TransferSample& t : measurements.transfers) {
    if (t.busy_rate.value > 0.0) {
      // rate = busy x / (x + half)
      const double half = t.in_flight.value * (t.busy_rate / t.rate - 1.0);
      groups["hosts.nvme.half_in_flight_kib"].add(half / 1024.0, t.source);
      continue;
    }
    for (const std::string& name : constants_of(t.link, t.generation)) {
      groups[name].add(t.rate.value / 1e9 / t.drives, t.source);
    }
  }
  for (const OptimizerSample& o : measurements.optimizers) {
    const std::string name = "hosts.adam." + o.code;
    groups[name + ".core_ns"].add(o.seconds * o.cores / o.params * 1e9, o.cpu);
    const Bytes moved = adam_of(o.code, given).dram_per_parameter * o.params;
    if (o.dram) groups[name + ".dram_fraction"].add(moved.value / o.seconds / o.dram->value, o.cpu);
  }
  std::vector<ConstantFit> fits;
  for (const auto& [name, group] : groups) fits.push_back(median_of(name, group));
  return fits;
}

}  // namespace foretrain
