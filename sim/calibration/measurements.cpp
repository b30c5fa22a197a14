#include "sim/calibration/measurements.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

constexpr config::Range kExtent{1, 1e9};
constexpr config::Range kDuration{1e-9, 1e5};  // seconds
constexpr config::Range kFlopRate{1e6, 1e18};  // FLOP/s
constexpr config::Range kByteRate{1e6, 1e16};  // bytes/s
constexpr std::array kKinds = {"gemm", "mlp", "attention", "memory", "launch"};

std::vector<std::string> names_of_precisions() {
  std::vector<std::string> names;
  for (int i = 0; i < kPrecisions; ++i) names.emplace_back(to_string(static_cast<Precision>(i)));
  return names;
}

// Reads the rows of one file.
class RowReader {
 public:
  RowReader(const DataFolder& data, Measurements& result, Diagnostics& diagnostics)
      : data_(data), result_(result), diagnostics_(diagnostics) {}

  void read(const Node& node) {
    const int errors_before = diagnostics_.error_count();
    MapReader row(node, diagnostics_, "");
    Measurement m;
    m.position = node.position;
    m.source = row.required_text("source");
    const std::optional<std::size_t> card = card_of(row);
    m.condition = static_cast<Condition>(row.choice("condition", {"loop", "burst", "best-shape"}).value_or(0));
    row.required_text("kind");
    const auto kind = row.choice("kind", {kKinds.begin(), kKinds.end()});
    if (!kind) return;
    switch (*kind) {
      case 0:
        gemm(row, m);
        break;
      case 1:
        mlp(row, m);
        break;
      case 2:
        attention(row, m);
        break;
      case 3:
        memory(row, m);
        break;
      default:
        launch(row, m);
        break;
    }
    for (const char* remark : {"what", "note", "software", "date", "clock_mhz", "power_w"}) row.text(remark);
    row.finish();
    if (!card || diagnostics_.error_count() > errors_before) return;
    m.card = *card;
    result_.rows.push_back(std::move(m));
  }

 private:
  std::optional<std::size_t> card_of(MapReader& row) {
    const std::string name = row.required_text("gpu");
    if (name.empty()) return std::nullopt;
    if (const auto known = cards_.find(name); known != cards_.end()) return known->second;
    std::optional<Datasheet> sheet = load_datasheet(data_, name, row.position_of("gpu"), diagnostics_);
    std::optional<std::size_t> index;
    if (sheet) {
      const auto same = std::find_if(result_.cards.begin(), result_.cards.end(),
                                     [&](const Datasheet& d) { return d.gpu.name == sheet->gpu.name; });
      index = static_cast<std::size_t>(same - result_.cards.begin());
      if (same == result_.cards.end()) result_.cards.push_back(std::move(*sheet));
    }
    return cards_[name] = index;
  }

  Precision precision(MapReader& row) {
    row.required_text("dtype");
    return static_cast<Precision>(row.choice("dtype", names_of_precisions()).value_or(0));
  }

  // time_us or a rate; the other follows from the work, where that is known.
  void timing(MapReader& row, Measurement& m, double work, const char* rate_key, Unit rate_unit, config::Range range) {
    const std::optional<double> seconds = row.number("time_us", Unit::microseconds, kDuration);
    std::optional<double> rate;
    if (rate_key != nullptr) rate = row.number(rate_key, rate_unit, range);
    if (seconds && rate) return row.error(rate_key, message("time_us and {} are both given; one is enough", rate_key));
    if (!seconds && !rate) {
      return row.error("time_us",
                       rate_key ? message("time_us or {} is missing", rate_key) : message("time_us is missing"));
    }
    if (seconds && work <= 0.0 && rate_key)
      return row.error("time_us", message("a time needs the size of the work beside it"));
    m.seconds = seconds ? *seconds : work > 0.0 ? work / *rate : 0.0;
    m.rate = rate ? *rate : work / m.seconds;
  }

  void gemm(MapReader& row, Measurement& m) {
    GemmSample sample;
    sample.precision = precision(row);
    sample.gemm.batch = row.integer("batch", kExtent).value_or(1);
    const bool sized = row.has("m") || row.has("n") || row.has("k") || m.condition != Condition::best_shape;
    if (sized) {
      sample.gemm.m = row.required_integer("m", kExtent);
      sample.gemm.n = row.required_integer("n", kExtent);
      sample.gemm.k = row.required_integer("k", kExtent);
    }
    sample.gemm.accumulate = row.boolean("accumulate").value_or(false);
    sample.gemm.output_bytes = row.number("output_bytes", Unit::count, {1, 8}).value_or(2);
    const std::vector<std::string> layouts = {"nn", "nt", "tn", "tt"};
    if (const auto layout = row.choice("layout", layouts)) sample.layout = layouts[*layout];
    const Gemm& g = sample.gemm;
    const double work = 2.0 * static_cast<double>(g.batch) * static_cast<double>(g.m) * static_cast<double>(g.n) *
                        static_cast<double>(g.k);
    timing(row, m, work, "tflops", Unit::teraflops, kFlopRate);
    m.kernel = sample;
  }

  void mlp(MapReader& row, Measurement& m) {
    MlpSample sample;
    sample.precision = precision(row);
    sample.tokens = row.required_integer("tokens", kExtent);
    sample.hidden = row.required_integer("hidden", kExtent);
    sample.ffn = row.required_integer("ffn", kExtent);
    row.required_text("pass");
    sample.passes = static_cast<MlpSample::Passes>(row.choice("pass", {"forward", "backward", "full"}).value_or(0));
    sample.fused = row.boolean("fused").value_or(true);
    timing(row, m, 0.0, nullptr, Unit::count, {});
    m.kernel = sample;
  }

  void attention(MapReader& row, Measurement& m) {
    AttentionSample sample;
    sample.precision = precision(row);
    row.required_text("kernel");
    sample.kernel = static_cast<AttentionKernel>(row.choice("kernel", {"flash1", "flash2", "flash3"}).value_or(0) + 1);
    row.required_text("pass");
    sample.pass = static_cast<Pass>(row.choice("pass", {"forward", "backward"}).value_or(0));
    AttentionShape& s = sample.shape;
    s.batch = row.integer("batch", kExtent).value_or(1);
    s.heads = row.required_integer("heads", kExtent);
    s.head_dim = row.required_integer("head_dim", kExtent);
    s.seq = row.required_integer("seq", kExtent);
    s.causal = row.boolean("causal").value_or(true);
    const double work = 4.0 * static_cast<double>(s.batch) * static_cast<double>(s.heads) *
                        static_cast<double>(s.head_dim) * static_cast<double>(s.seq) * static_cast<double>(s.seq) *
                        (s.causal ? 0.5 : 1.0) * (sample.pass == Pass::forward ? 1.0 : 2.5);
    timing(row, m, work, "tflops", Unit::teraflops, kFlopRate);
    m.kernel = sample;
  }

  void memory(MapReader& row, Measurement& m) {
    MemorySample sample{{row.number("bytes", Unit::bytes, {1, 1e15}).value_or(0.0)}};
    timing(row, m, sample.bytes.value, "gbs", Unit::bytes_rate, kByteRate);
    m.kernel = sample;
  }

  void launch(MapReader& row, Measurement& m) {
    row.required_text("mechanism");
    const LaunchSample sample{row.choice("mechanism", {"stream", "graph"}).value_or(0) == 1};
    timing(row, m, 0.0, nullptr, Unit::count, {});
    m.kernel = sample;
  }

  const DataFolder& data_;
  Measurements& result_;
  Diagnostics& diagnostics_;
  std::map<std::string, std::optional<std::size_t>> cards_;  // by the name a row gives
};

std::optional<Node> parse_file(const std::string& path, Diagnostics& diagnostics) {
  if (!path.ends_with(".csv")) return config::parse_yaml_file(path, diagnostics);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    diagnostics.error({std::make_shared<const std::string>(path), 0, 0}, message("cannot be read"));
    return std::nullopt;
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_csv(text, path, diagnostics);
}

void read_file(const std::string& path, RowReader& rows, Diagnostics& diagnostics) {
  std::optional<Node> file = parse_file(path, diagnostics);
  if (!file) return;
  // Of collectives (load_collective_runs) and of hosts (load_host_measurements).
  for (const char* other : {"runs", "transfers", "optimizers"}) {
    if (file->is_map() && file->find(other)) return;
  }
  if (!file->is_map() || !file->find("rows") || !file->find("rows")->is_sequence()) {
    diagnostics.error(file->position, message("a file of measurements is a map with a list of `rows`"));
    return;
  }
  const Node::Sequence list = file->find("rows")->sequence();
  Node defaults = std::move(*file);
  std::erase_if(defaults.map(), [](const Node::Entry& entry) { return entry.key == "rows"; });
  for (const Node& row : list) {
    if (!row.is_map()) {
      diagnostics.error(row.position, message("a row is a map, such as {{gpu: a100-80g, kind: launch, time_us: 2.1}}"));
      continue;
    }
    Node merged = config::merge(defaults, row);
    merged.position = row.position;
    rows.read(merged);
  }
}

// The files of a folder, or the file itself; sorted, so that the order of a directory cannot matter.
std::vector<std::string> files_of(const std::string& path, Diagnostics& diagnostics) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, failed)) {
    const std::string name = entry.path().filename().string();
    const bool data = name.ends_with(".csv") || name.ends_with(".yaml");
    const bool rules = name == "rules.yaml" || name == "constants.yaml";
    if (data && !rules && !name.starts_with('.')) files.push_back(entry.path().string());
  }
  if (failed)
    diagnostics.error({std::make_shared<const std::string>(path), 0, 0},
                      message("cannot be read: {}", system_error(failed.value())));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

const char* to_string(Condition condition) {
  switch (condition) {
    case Condition::loop:
      return "loop";
    case Condition::burst:
      return "burst";
    case Condition::best_shape:
      return "best-shape";
  }
  return "";
}

Measurements load_measurements(std::span<const std::string> paths, const DataFolder& data, Diagnostics& diagnostics) {
  Measurements result;
  RowReader rows(data, result, diagnostics);
  for (const std::string& path : paths) {
    for (const std::string& file : files_of(path, diagnostics)) read_file(file, rows, diagnostics);
  }
  return result;
}

}  // namespace foretrain
