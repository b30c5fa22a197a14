#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "sim/calibration/fit_collectives.h"
#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

constexpr std::size_t kMostRanks = 4096;

std::optional<double> number_in(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view line) {
  if (const std::size_t prefix = line.find(">:"); prefix != std::string_view::npos && line.starts_with('[')) {
    line.remove_prefix(prefix + 2);
  }
  std::vector<std::string_view> words;
  for (std::size_t start = 0; start < line.size();) {
    start = std::min(line.find_first_not_of(" \t\r#", start), line.size());
    const std::size_t end = std::min(line.find_first_of(" \t\r#", start), line.size());
    if (end > start) words.push_back(line.substr(start, end - start));
    start = end;
  }
  return words;
}

// Reads the runs of one file.
class RunReader {
 public:
  RunReader(const DataFolder& data, const LinkRates& rates, std::string folder, Diagnostics& diagnostics)
      : data_(data), rates_(rates), folder_(std::move(folder)), diagnostics_(diagnostics) {}

  std::optional<CollectiveRun> read(const Node& node) {
    const int errors_before = diagnostics_.error_count();
    MapReader run(node, diagnostics_, "");
    CollectiveRun result;
    result.name = run.required_text("class");
    run.required_text("source");
    for (const char* remark : {"id", "note"}) run.text(remark);
    for (const char* key : {"op", "intra", "net", "driver"}) run.required_text(key);
    result.op = static_cast<Collective>(
        run.choice("op", {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "send"}).value_or(0));
    result.driver =
        static_cast<CollectiveRun::Driver>(run.choice("driver", {"process", "thread", "torch"}).value_or(0));
    ClusterDescription d;
    d.intra = static_cast<Intra>(
        run.choice("intra", {"nvswitch", "nvlink-mesh", "nvlink-pairs", "pcie-switch", "pcie"}).value_or(0));
    d.network =
        static_cast<NetworkKind>(run.choice("net", {"infiniband", "roce", "ethernet", "efa", "omni-path"}).value_or(0));
    const auto count = [&](const char* key, double least) {
      return static_cast<int>(run.required_integer(key, {least, static_cast<double>(kMostRanks)}));
    };
    result.ranks = count("ranks", 1);
    const int nodes = count("nodes", 1), per_node = count("gpus_per_node", 1);
    d.nics = count("nics", 0);
    d.nic_rate = {run.required_number("nic_gbps", Unit::network_rate, {0, 1e13})};
    d.p2p = run.boolean("p2p").value_or(true);
    if (const auto board = run.choice("board", {"server", "desktop"})) d.host.board = static_cast<Board>(*board);
    const std::optional<Datasheet> card =
        load_datasheet(data_, run.required_text("gpu"), run.position_of("gpu"), diagnostics_);
    points(run, result);
    run.finish();
    if (result.ranks % nodes != 0 || result.ranks / nodes > per_node) {
      run.error("ranks", message("{} ranks do not fill {} nodes of {} GPUs evenly", result.ranks, nodes, per_node));
    }
    if (!card || diagnostics_.error_count() > errors_before) return std::nullopt;
    d.gpu = card->gpu;
    d.gpus = nodes * per_node;
    d.gpus_per_node = per_node;
    d.host.pcie_generation = d.gpu.pcie_generation;
    d.host.dram_bandwidth_per_socket = dram_of(d.gpu.pcie_generation);
    return build(std::move(result), std::move(d), nodes, run);
  }

 private:
  // Eight channels of the DDR of each PCIe generation's servers.
  static BytesPerSecond dram_of(int pcie_generation) {
    return gigabytes_per_second(pcie_generation == 3 ? 128.0 : pcie_generation == 4 ? 204.8 : 307.2);
  }

  std::optional<CollectiveRun> build(CollectiveRun result, ClusterDescription d, int nodes, MapReader& run) {
    const int per_node = d.gpus_per_node;
    try {
      result.cluster = std::make_shared<const Cluster>(std::move(d), rates_);
    } catch (const std::invalid_argument& problem) {
      run.error("gpus_per_node", message("no such machine: {}", problem.what()));
      return std::nullopt;
    }
    for (int node = 0; node < nodes; ++node) {
      for (int g = 0; g < result.ranks / nodes; ++g) result.gpus.push_back(node * per_node + g);
    }
    result.shape = shape_of(*result.cluster, result.gpus);
    return result;
  }

  void points(MapReader& run, CollectiveRun& result) {
    const Node* list = run.node("points");
    const std::optional<std::string> log = run.text("log");
    if ((list != nullptr) == log.has_value()) return run.error("points", message("a run has either points or a log"));
    if (log) return read_log(run, *log, result);
    if (!list->is_sequence()) return run.error("points", message("points are a list of [bytes, microseconds]"));
    for (const Node& point : list->sequence()) {
      const bool pair = point.is_sequence() && point.sequence().size() == 2 && point.sequence()[0].is_scalar() &&
                        point.sequence()[1].is_scalar();
      const auto bytes = pair ? number_in(point.sequence()[0].scalar()) : std::nullopt;
      const auto us = pair ? number_in(point.sequence()[1].scalar()) : std::nullopt;
      if (!bytes || !us || !(*bytes > 0 && *bytes < 1e15) || !(*us > 0 && *us < 1e12)) {
        diagnostics_.error(point.position, message("a point is [bytes, microseconds], both above 0"));
      } else {
        result.points.push_back({*bytes, *us * 1e-6});
      }
    }
  }

  void read_log(MapReader& run, const std::string& name, CollectiveRun& result) {
    if (name.find("..") != std::string::npos || name.starts_with('/')) {
      return run.error("log", message("a log lies in or below the folder of this file"));
    }
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    if (!file) return run.error("log", message("{} cannot be read", config::in_quotes(name)));
    result.points = parse_nccl_tests(std::string(std::istreambuf_iterator<char>(file), {}));
    if (result.points.empty()) run.error("log", message("{} has no table of nccl-tests", config::in_quotes(name)));
  }

  const DataFolder& data_;
  const LinkRates& rates_;
  std::string folder_;
  Diagnostics& diagnostics_;
};

// Whether a file is worth parsing: a list of runs begins a line.
bool holds_runs(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("runs:")) return true;
  }
  return false;
}

std::vector<std::string> files_of(const std::string& path) {
  std::error_code failed;
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(path, failed)) {
    files = {path};
  } else {
    for (const auto& entry : std::filesystem::directory_iterator(path, failed)) files.push_back(entry.path().string());
  }
  std::erase_if(files, [](const std::string& f) { return !f.ends_with(".yaml") || !holds_runs(f); });
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<CollectiveRun::Point> parse_nccl_tests(std::string_view text) {
  std::vector<CollectiveRun::Point> points;
  std::size_t columns = 0, time_column = 0;
  bool operation_column = false;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(start, end - start));
    start = end + 1;
    if (words.size() > 4 && words[0] == "size" && words[1] == "count") {
      const auto time = std::find(words.begin(), words.end(), "time");
      columns = words.size();
      time_column = static_cast<std::size_t>(time - words.begin());
      operation_column = std::find(words.begin(), words.end(), "redop") != words.end();
      continue;
    }
    // Older versions leave the cell of the reduction empty where there is none.
    const bool blank_operation = operation_column && words.size() + 1 == columns;
    if (columns == 0 || (words.size() != columns && !blank_operation)) continue;
    const std::size_t place = time_column - (blank_operation ? 1 : 0);
    const auto bytes = number_in(words[0]), count = number_in(words[1]);
    if (!bytes || !count || place >= words.size()) continue;
    const auto us = number_in(words[place]);
    if (us && *bytes > 0 && *us > 0) points.push_back({*bytes, *us * 1e-6});
  }
  return points;
}

std::vector<CollectiveRun> load_collective_runs(std::span<const std::string> paths, const DataFolder& data,
                                                const LinkRates& rates, Diagnostics& diagnostics) {
  std::vector<CollectiveRun> runs;
  for (const std::string& path : paths) {
    for (const std::string& file : files_of(path)) {
      const std::optional<Node> node = config::parse_yaml_file(file, diagnostics);
      const Node* list = node && node->is_map() ? node->find("runs") : nullptr;
      if (list == nullptr || !list->is_sequence()) continue;
      RunReader reader(data, rates, std::filesystem::path(file).parent_path().string(), diagnostics);
      for (const Node& run : list->sequence()) {
        if (auto read = reader.read(run)) runs.push_back(std::move(*read));
      }
    }
  }
  return runs;
}

}  // namespace foretrain
