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

constexpr double kAdamBytes = 28.0;  // a parameter: 16 read (weight, gradient, two moments), 12 written, fp32
const std::vector<std::string> kLinks = {"pcie", "nvlink", "nvme-read", "nvme-write"};

void remarks(MapReader& row) {
  row.required_text("source");
  for (const char* remark : {"what", "note", "date", "software"}) row.text(remark);
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
  remarks(row);
  row.finish();
  if (diagnostics.error_count() == errors_before) all.transfers.push_back(t);
}

void read_optimizer(const Node& node, HostMeasurements& all, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader row(node, diagnostics, "");
  OptimizerSample o;
  row.required_text("code");
  o.code = row.choice("code", {"deepspeed", "torch"}).value_or(0) == 0 ? "deepspeed" : "torch";
  o.cores = static_cast<int>(row.required_integer("cores", {1, 1e5}));
  o.dram = {row.required_number("dram_gbs", Unit::bytes_rate, {1e8, 1e14})};
  o.params = row.required_number("params_b", Unit::count, {1e-6, 1e6}) * 1e9;
  o.seconds = row.required_number("time_s", Unit::seconds, {1e-9, 1e6});
  row.text("cpu");
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
    if (!list->is_sequence()) return file.error(key, fmt::format("{} must be a list", key));
    for (const Node& row : list->sequence()) read(row, all, diagnostics);
  };
  each("transfers", read_transfer);
  each("optimizers", read_optimizer);
  file.finish();
}

HostRate rate_of(std::string name, std::vector<double> values) {
  HostRate rate;
  rate.name = std::move(name);
  rate.rows = values.size();
  rate.lowest = *std::min_element(values.begin(), values.end());
  rate.highest = *std::max_element(values.begin(), values.end());
  rate.fitted = quantile(std::move(values), 0.5);
  return rate;
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

std::vector<HostRate> fit_hosts(const HostMeasurements& measurements, const LinkRates& rates) {
  std::map<std::pair<Link, int>, std::vector<double>> copies;
  for (const TransferSample& t : measurements.transfers) {
    copies[{t.link, t.generation}].push_back(t.rate.value / 1e9 / t.drives);
  }
  std::vector<HostRate> result;
  for (const auto& [key, values] : copies) {
    const auto [link, generation] = key;
    const bool drive = link == Link::nvme_read || link == Link::nvme_write;
    result.push_back(rate_of(
        fmt::format("{} gen{}{}, GB/s", kLinks[static_cast<std::size_t>(link)], generation, drive ? " a drive" : ""),
        values));
    if (link == Link::pcie && !rates.pcie_copy.empty()) result.back().in_use = rates.pcie_copy.at(generation) / 1e9;
  }
  std::map<std::string, std::vector<double>> of_dram, by_core;
  for (const OptimizerSample& o : measurements.optimizers) {
    of_dram[o.code].push_back(o.params * kAdamBytes / o.seconds / o.dram.value);
    by_core[o.code].push_back(o.params / o.seconds / 1e9 / o.cores);
  }
  for (const auto& [code, values] : of_dram) {
    result.push_back(rate_of(code + " Adam on the host, share of DRAM bandwidth", values));
    result.push_back(rate_of(code + " Adam on the host, G parameters/s a core", by_core[code]));
  }
  return result;
}

}  // namespace foretrain
