#include "sim/calibration/calibrate.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kMeasurements = std::string(FORETRAIN_SOURCE_DIR) + "/hardware/measurements";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A folder of its own for the files of one test, gone afterwards.
class Folder {
 public:
  explicit Folder(const char* name) : path_(std::filesystem::temp_directory_path() / name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

Measurements load(const std::string& path, Diagnostics& diagnostics) {
  const std::vector<std::string> paths = {path};
  return load_measurements(paths, data_folder(), diagnostics);
}

// The constants as the committed rules give them.
struct Given {
  explicit Given(Diagnostics& diagnostics)
      : rules(*load_constant_rules(kMeasurements + "/constants.yaml", diagnostics)),
        model{*read_collective_constants(given_constants(rules, "collectives", diagnostics), diagnostics),
              *read_link_rates(given_constants(rules, "links", diagnostics), diagnostics)},
        hosts(*read_host_rates(given_constants(rules, "hosts", diagnostics), diagnostics)) {}

  ConstantRules rules;
  CollectiveModel model;
  HostRates hosts;
};

// The first thing wrong with a file of this text, without the folder.
std::string first_error(const std::string& name, const std::string& text) {
  const Folder folder("foretrain-calibrate-test");
  Diagnostics diagnostics;
  load(folder.file(name, text), diagnostics);
  if (diagnostics.all().empty()) return "";
  const std::string message = to_string(diagnostics.all().front());
  return message.substr(folder.path().size() + 1);
}

const char* kGoodCsv =
    "# a comment\n"
    "#: source: somewhere\n"
    "#: kind: gemm\n"
    "gpu, dtype, m, n, k, time_us, tflops\n"
    "a100-80g,bf16,4096,4096,4096,550,\n"
    "\n"
    "h100,fp16,8192,8192,8192,,700\n";

std::optional<Calibration> calibrated(const std::string& rules_text, const Measurements& measurements,
                                      Diagnostics& diagnostics) {
  const Folder folder("foretrain-rules-test");
  const auto rules = load_rules(folder.file("rules.yaml", rules_text), diagnostics);
  return rules ? calibrate(*rules, measurements, data_folder(), diagnostics) : std::nullopt;
}

std::string rules(const std::string& files) {
  return "kernel_floor_us: {value: 2, source: s}\nelementwise_floor_us: {value: 4, source: s}\nfiles:\n" + files;
}
std::string file_rules(const std::string& name, const std::string& bf16, const std::string& flash2 = "null") {
  return "- name: " + name + "\n  title: T\n  measured_on: []\n  matmul: {bf16: " + bf16 +
         "}\n  memory: {value: 0.8, source: s}\n  attention: {flash2: " + flash2 +
         "}\n  collective_channels: {value: 2, source: s}\n";
}

const CalibratedFigure& figure(const Calibration& calibration, std::size_t file, const std::string& name) {
  for (const CalibratedFigure& f : calibration.files.at(file).figures) {
    if (f.name == name) return f;
  }
  throw std::runtime_error("no figure " + name);
}

}  // namespace

TEST_CASE("the committed files are what the committed measurements give, byte for byte") {
  Diagnostics diagnostics;
  const Measurements measurements = load(kMeasurements, diagnostics);
  const auto read = load_rules(kMeasurements + "/rules.yaml", diagnostics);
  REQUIRE(read);
  const auto calibration = calibrate(*read, measurements, data_folder(), diagnostics);
  for (const Diagnostic& d : diagnostics.all()) MESSAGE(to_string(d));
  REQUIRE(calibration);
  CHECK(diagnostics.all().empty());
  CHECK(calibration->files.size() > 40);
  for (const CalibratedFile& file : calibration->files) {
    const std::string path = std::string(FORETRAIN_SOURCE_DIR) + "/hardware/calibrated/" + file.name + ".yaml";
    CHECK_MESSAGE(text_of(path) == file_text(file), path);
  }
  const std::vector<std::string> paths = {kMeasurements};
  const auto rules_of_constants = load_constant_rules(kMeasurements + "/constants.yaml", diagnostics);
  REQUIRE(rules_of_constants);
  const auto constants = calibrate_constants(*rules_of_constants, paths, data_folder(), diagnostics);
  REQUIRE(constants);
  CHECK(constants->files.size() == 3);
  for (const FileText& file : constants->files) {
    const std::string path = std::string(FORETRAIN_SOURCE_DIR) + "/hardware/calibrated/" + file.name + ".yaml";
    CHECK_MESSAGE(text_of(path) == file.text, path);
  }
  // And every file of achieved rates is written by it: no card refers to one that is not.
  const config::Catalogue gpus(std::string(FORETRAIN_SOURCE_DIR) + "/hardware/gpus", "GPU");
  for (const std::string& name : gpus.names()) {
    const auto card = load_datasheet(data_folder(), name, {}, diagnostics);
    REQUIRE(card);
    CHECK(std::any_of(calibration->files.begin(), calibration->files.end(),
                      [&](const CalibratedFile& f) { return f.name == card->achieved; }));
  }
}

TEST_CASE("the fits of the repository's data are as good as the study of measured kernels found") {
  Diagnostics diagnostics;
  const Measurements measurements = load(kMeasurements, diagnostics);
  CHECK(measurements.rows.size() > 2000);
  const auto a100 = fit_matmul(measurements, "a100-pcie", Precision::bf16);
  REQUIRE(a100);
  CHECK(a100->value == doctest::Approx(0.765).epsilon(0.01));
  CHECK(a100->quality.median_error < 0.03);
  const auto h100 = fit_matmul(measurements, "h100-sxm5", Precision::bf16);
  REQUIRE(h100);
  CHECK(h100->value == doctest::Approx(0.88).epsilon(0.02));
  CHECK(h100->quality.p90_error < 0.12);
  const auto attention = fit_attention(measurements, "a100-pcie", AttentionKernel::flash2);
  REQUIRE(attention);
  CHECK(*attention->forward == doctest::Approx(0.63).epsilon(0.02));
  CHECK(*attention->backward == doctest::Approx(0.50).epsilon(0.02));
}

TEST_CASE("measurements: CSV and YAML say the same") {
  const Folder folder("foretrain-measurements-test");
  Diagnostics diagnostics;
  const Measurements csv = load(folder.file("a.csv", kGoodCsv), diagnostics);
  const Measurements yaml = load(folder.file("b.yaml",
                                             "source: somewhere\nkind: gemm\nrows:\n"
                                             "- {gpu: a100-80g, dtype: bf16, m: 4096, n: 4096, k: 4096, time_us: 550}\n"
                                             "- {gpu: h100, dtype: fp16, m: 8192, n: 8192, k: 8192, tflops: 700}\n"),
                                 diagnostics);
  for (const Diagnostic& d : diagnostics.all()) MESSAGE(to_string(d));
  CHECK(diagnostics.all().empty());
  for (const Measurements* m : {&csv, &yaml}) {
    REQUIRE(m->rows.size() == 2);
    REQUIRE(m->cards.size() == 2);
    CHECK(m->cards[0].gpu.name == "a100-sxm4-80gb");
    CHECK(m->rows[0].source == "somewhere");
    CHECK(m->rows[0].seconds == doctest::Approx(550e-6));
    CHECK(m->rows[1].seconds == doctest::Approx(2 * 8192.0 * 8192 * 8192 / 700e12));
    CHECK(m->rows[1].rate == doctest::Approx(700e12));
    CHECK(std::get<GemmSample>(m->rows[1].kernel).precision == Precision::fp16);
  }
  CHECK(csv.rows[1].position.line == 7);
}

TEST_CASE("measurements: what is wrong is named with its place") {
  const std::string head = "#: source: s\n#: kind: gemm\ngpu,dtype,m,n,k,time_us\n";
  CHECK(first_error("a.csv", kGoodCsv) == "");
  CHECK(first_error("a.csv", head + "a100-80g,bf16,1,2,three,4\n").starts_with("a.csv:4:19: error: k: 'three'"));
  CHECK(first_error("a.csv", head + "a100-80g,bf17,1,2,3,4\n").find("did you mean 'bf16'") != std::string::npos);
  CHECK(first_error("a.csv", head + "a100-80x,bf16,1,2,3,4\n").starts_with("a.csv:4:1: error: "));
  CHECK(first_error("a.csv", head + "a100-80g,bf16,1,2,3\n") == "a.csv:4:1: error: 5 cells; there are 6 columns");
  CHECK(first_error("a.csv", head + "a100-80g,bf16,1,2,3,\n").find("time_us or tflops is missing") !=
        std::string::npos);
  CHECK(first_error("a.csv", head + "a100-80g,bf16,0,2,3,1\n").starts_with("a.csv:4:15: error: "));
  CHECK(first_error("a.csv", head + "a100-80g,bf16,1,2,3,-1\n").starts_with("a.csv:4:21: error: "));
  CHECK(first_error("a.csv", head + "\"a100-80g\",bf16,1,2,3,4\n").starts_with("a.csv:4:1: error: quotes"));
  CHECK(first_error("a.csv", "#: source: s\n").find("names the columns") != std::string::npos);
  CHECK(first_error("a.csv", "#: source\ngpu\n").starts_with("a.csv:1:4: error: '#:'"));
  CHECK(first_error("a.csv", "#: source: s\n#: source: t\ngpu\n").starts_with("a.csv:2:4: error: 'source' is set"));
  CHECK(first_error("a.csv", "#: source: s\ngpu,gpu\n").starts_with("a.csv:2:5: error: column 'gpu'"));
  CHECK(first_error("a.csv", "gpu,kind,mechanism,time_us\na40,launch,stream,2\n").find("source is missing") !=
        std::string::npos);
  CHECK(first_error("a.csv", "#: source: s\ngpu,kind,mechanism,time_us,colour\na40,launch,stream,2,red\n")
            .starts_with("a.csv:3:21: error: "));
  CHECK(first_error("a.csv", "#: source: s\ngpu\n\xff\n").starts_with("a.csv:3:1: error: "));
  CHECK(first_error("a.yaml", "source: s\nrows: 3\n").find("list of `rows`") != std::string::npos);
  CHECK(first_error("a.yaml", "source: s\nrows: [3]\n").starts_with("a.yaml:2:8: error: a row is a map"));
  CHECK(first_error("a.yaml", "source: s\nrows: [{gpu: a40, kind: gem}]\n").find("did you mean 'gemm'") !=
        std::string::npos);
  // Both a time and a rate; a shape is needed unless it is a best shape.
  CHECK(first_error("a.yaml", "source: s\nkind: memory\nrows: [{gpu: a40, bytes: 8, time_us: 1, gbs: 2}]\n")
            .find("one is enough") != std::string::npos);
  const std::string peak = "source: s\nkind: gemm\ndtype: bf16\nrows: [{gpu: a40, tflops: 100";
  CHECK(first_error("a.yaml", peak + "}]\n").find("m is missing") != std::string::npos);
  CHECK(first_error("a.yaml", peak + ", condition: best-shape}]\n") == "");
  CHECK(first_error("missing.csv", "") != "");
}

TEST_CASE("rules: decided figures stand, rows beat guesses, the rest is inherited") {
  const Folder folder("foretrain-measurements-test");
  Diagnostics diagnostics;
  const Measurements none;
  const Measurements rows = load(folder.file("a.csv",
                                             "#: source: s\n#: kind: gemm\n#: condition: best-shape\n"
                                             "gpu,dtype,tflops\nl40,bf16,150\na40,bf16,120\n"),
                                 diagnostics);
  REQUIRE(rows.rows.size() == 2);
  const std::string text =
      rules(file_rules("a40", "{value: 0.7, source: steps}") +
            file_rules("l40", "{assumed: 0.5, source: guess}",
                       "{value: {forward: 0.6, backward: 0.5, prologue_tokens: 400}, source: s}") +
            file_rules("other", "{as: l40, times: 0.5, source: half}", "{as: l40, like_matmul: true, source: scaled}"));
  auto with = calibrated(text, rows, diagnostics);
  auto without = calibrated(text, none, diagnostics);
  for (const Diagnostic& d : diagnostics.all()) MESSAGE(to_string(d));
  REQUIRE(with);
  REQUIRE(without);
  CHECK(figure(*with, 0, "matmul.bf16").values == std::vector{0.7});
  CHECK(figure(*with, 0, "matmul.bf16").fitted.at(0) == doctest::Approx(120 / 149.7).epsilon(0.01));
  CHECK(figure(*with, 0, "matmul.bf16").sustained.find("of what the kernels alone reach") != std::string::npos);
  CHECK(figure(*without, 0, "matmul.bf16").values == std::vector{0.7});
  CHECK(figure(*without, 1, "matmul.bf16").values == std::vector{0.5});
  CHECK(figure(*with, 1, "matmul.bf16").values.at(0) == doctest::Approx(0.77));  // 0.93 x 150 of 181
  CHECK(figure(*with, 1, "matmul.bf16").origin == CalibrationRule::Kind::measured);
  CHECK(figure(*without, 2, "matmul.bf16").values.at(0) == doctest::Approx(0.25));
  CHECK(figure(*without, 2, "attention.flash2").values.at(0) == doctest::Approx(0.3));
  CHECK(figure(*without, 2, "attention.flash2").values.at(2) == 400);
  CHECK(figure(*with, 2, "matmul.fp8").values.empty());
  CHECK(file_text(with->files[2]).find("fp8: null") != std::string::npos);
}

TEST_CASE("rules: what cannot be answered is an error at the rule") {
  const auto error = [](const std::string& text) {
    Diagnostics diagnostics;
    CHECK_FALSE(calibrated(text, {}, diagnostics));
    return diagnostics.all().empty() ? "" : to_string(diagnostics.all().front());
  };
  CHECK(error(rules(file_rules("a", "{measured: true, source: s}"))).find(":7:18: error: no measurements say") !=
        std::string::npos);
  CHECK(error(rules(file_rules("a", "{as: b, source: s}") + file_rules("b", "{as: a, source: s}")))
            .find("refers to itself") != std::string::npos);
  CHECK(error(rules(file_rules("a", "{as: c, source: s}"))).find("'c' has no matmul.bf16") != std::string::npos);
  CHECK(error(rules(file_rules("a", "{as: bf16, source: s}"))).find("refers to itself") != std::string::npos);
  CHECK(error(rules(file_rules("a", "{value: 0.5, assumed: 0.5, source: s}"))).find("needs one of") !=
        std::string::npos);
  CHECK(error(rules(file_rules("a", "{value: 1.5, source: s}"))).find("error: bf16.value") != std::string::npos);
  CHECK(error(rules(file_rules("a", "{value: 0.5}"))).find("source is missing") != std::string::npos);
  CHECK(error(rules(file_rules("../a", "{value: 0.5, source: s}"))).find("name") != std::string::npos);
  CHECK(error(rules(file_rules("a", "null") + file_rules("a", "null"))).find("two entries 'a'") != std::string::npos);
  CHECK(error("files: []\n").find("kernel_floor_us is missing") != std::string::npos);
}

TEST_CASE("a written file is read back as it was meant") {
  CalibratedFile file{"x", "T", {"a100-sxm4-80gb"}, {}};
  CalibratedFigure f;
  f.name = "memory";
  f.values = {0.5};
  f.source =
      "says \"so\" with a back\\slash, and goes on " + std::string(60, 'w') + " and " + std::string(90, 'v') + " end";
  file.figures.push_back(f);
  const std::string text = file_text(file);
  Diagnostics diagnostics;
  const auto node = config::parse_yaml(text, "x.yaml", diagnostics);
  REQUIRE(node);
  CHECK(node->find("memory")->find("source")->scalar() == f.source);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    CHECK(end - start <= 120);
    start = end + 1;
  }
}

TEST_CASE("nccl-tests output is read in its several forms") {
  const auto points = parse_nccl_tests(
      "# nThread 1 nGpus 8 minBytes 1\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
      "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
      "node0:3442:3442 [0] NCCL INFO Launch mode Parallel\n"
      "           0             0   float     sum    35.20    0.00    0.00    N/A    34.05    0.00    0.00    N/A\n"
      "           4             1   float     sum    34.73    0.00    0.00    N/A    35.30    0.00    0.00    N/A\n"
      "          32             1   float    33.83    0.00    0.00    N/A    33.57    0.00    0.00    N/A\n"
      "  4294967296    1073741824   float     sum    15791  271.98  475.97    0e+00   15773  272.29  476.51  0e+00\n");
  REQUIRE(points.size() == 3);
  CHECK(points[0].bytes == 4);
  CHECK(points[0].seconds == doctest::Approx(34.73e-6));
  CHECK(points[1].seconds == doctest::Approx(33.83e-6));  // an all-gather has no reduction
  CHECK(points[2].seconds == doctest::Approx(15791e-6));
  const auto prefixed = parse_nccl_tests(
      "[1,0]<stdout>:#       size  count  type   redop    root     time   algbw   busbw #wrong     time   algbw   "
      "busbw  "
      "#wrong\n"
      "[1,0]<stdout>:           8      2 float     sum      -1    12.90    0.00    0.00      0    12.87    0.00    "
      "0.00   0\n");
  REQUIRE(prefixed.size() == 1);
  CHECK(prefixed[0].seconds == doctest::Approx(12.9e-6));
  CHECK(parse_nccl_tests("").empty());
  CHECK(parse_nccl_tests("8 2 float sum 1 2 3 4\n").empty());
}

TEST_CASE("collectives: the committed runs are as near to the constants as the study found") {
  Diagnostics diagnostics;
  const Given given(diagnostics);
  const std::vector<std::string> paths = {kMeasurements};
  const auto runs = load_collective_runs(paths, data_folder(), given.model.rates, diagnostics);
  for (const Diagnostic& d : diagnostics.all()) MESSAGE(to_string(d));
  CHECK(diagnostics.all().empty());
  CHECK(runs.size() > 90);
  const CollectiveFit fit = fit_collectives(runs, given.model, given.rules);
  CHECK(fit.points > 700);
  CHECK(fit.given.mean < 0.15);
  CHECK(fit.fitted.mean < fit.given.mean);
  CHECK(fit.fitted.median < fit.given.median);
  CHECK(fit.written.mean < 0.15);
  std::size_t points = 0, runs_of_classes = 0;
  for (const CollectiveFit::Class& c : fit.classes) {
    points += c.points;
    runs_of_classes += c.runs;
  }
  CHECK(points == fit.points);
  CHECK(runs_of_classes == runs.size());
  // Nothing leaves what is physical, and what no run feels stays where it was given.
  for (const ConstantFit& c : fit.constants) {
    CAPTURE(c.name);
    const ConstantRule* rule = given.rules.find(c.name);
    REQUIRE(rule);
    CHECK(c.fitted >= rule->min * (1 - 1e-9));
    CHECK(c.fitted <= rule->max * (1 + 1e-9));
    if (c.points == 0) CHECK(c.fitted == doctest::Approx(rule->value).epsilon(0.02));
  }
}

TEST_CASE("collectives: constants and rates that changed are found again, and a class can be left out") {
  Diagnostics diagnostics;
  const Given given(diagnostics);
  const std::vector<std::string> paths = {kMeasurements};
  auto runs = load_collective_runs(paths, data_folder(), given.model.rates, diagnostics);
  CollectiveModel truth = given.model;
  truth.constants.k0_us *= 1.5;
  truth.constants.nvls_base_us *= 0.8;
  *truth.rates.nvlink_fraction.own(3) *= 0.9;
  truth.rates.ethernet *= 0.8;
  for (CollectiveRun& run : runs) {
    run.driver = CollectiveRun::Driver::process;
    const Cluster cluster(run.cluster->description(), truth.rates);
    const GroupShape shape = shape_of(cluster, run.gpus);
    for (CollectiveRun::Point& point : run.points) {
      point.seconds = collective_cost(run.op, Bytes{point.bytes}, shape, cluster, truth.constants).idle_time().value;
    }
  }
  for (std::size_t i = 0; i < runs.size(); i += 9) {  // and some wild ones
    for (CollectiveRun::Point& point : runs[i].points) point.seconds *= 3;
  }
  CollectiveFit fit = fit_collectives(runs, given.model, given.rules);
  const auto fitted = [&](const std::string& name) {
    return std::find_if(fit.constants.begin(), fit.constants.end(), [&](const auto& c) { return c.name == name; })
        ->fitted;
  };
  CHECK(fitted("collectives.bandwidth_protocol.base") == doctest::Approx(27).epsilon(0.05));
  CHECK(fitted("collectives.nvls.base_us") == doctest::Approx(28).epsilon(0.05));
  CHECK(fitted("collectives.networks.roce.latency") == doctest::Approx(10).epsilon(0.1));
  CHECK(fitted("links.nvlink.fraction.gen3") == doctest::Approx(0.783 * 0.9).epsilon(0.02));
  CHECK(fitted("links.nic.ethernet") == doctest::Approx(0.94 * 0.8).epsilon(0.03));
  CHECK(fit.fitted.median < fit.given.median);
  CHECK(fit.fitted.median < 0.01);
  CHECK(fit.left_out.mean == 0.0);

  // Leaving out: A100 machines are told nothing of their own NVLink, so they keep the given rate.
  std::erase_if(runs, [](const CollectiveRun& run) { return run.name != "A100 NVSwitch" && run.name != "V100 mesh"; });
  fit = fit_collectives(runs, given.model, given.rules);
  leave_out_classes(runs, given.model, given.rules, fit);
  REQUIRE(fit.classes.size() == 2);
  CHECK(fit.left_out.mean > fit.fitted.mean);
  for (const CollectiveFit::Class& c : fit.classes) CHECK(c.left_out >= c.fitted * 0.99);
}

TEST_CASE("constants: the files say what is given and what is fitted, and rules are checked") {
  const Folder folder("foretrain-constants-test");
  Diagnostics diagnostics;
  const auto rules = load_constant_rules(
      folder.file("c.yaml",
                  "hosts:\n  about: Rates.\n  copy:\n    pinned:\n      gen3: {value: 12.0, take: fit}\n"
                  "      gen4: {value: 26.0, note: as published}\n      gen5: {value: 55, take: fit}\n    kind: x16\n"
                  "    source: \"a: b\"\n"),
      diagnostics);
  REQUIRE(rules);
  const std::vector<ConstantFit> fits = {{"hosts.copy.pinned.gen3", 12.8412, 3, {"a", "b"}, false, ""},
                                         {"hosts.copy.pinned.gen4", 20, 1, {"a"}, true, ""}};
  const std::vector<std::string> notes = {"A note."};
  const std::string text = constant_file_text(*rules, "hosts", fits, notes);
  CHECK(text.starts_with("# Rates.\n#\n# Written by"));
  CHECK(text.find("# A note.\n") != std::string::npos);
  CHECK(text.find("    gen3: 12.8  # fit of 3 points of 2 machines; given 12.0\n") != std::string::npos);
  CHECK(text.find("    gen4: 26.0  # given; 1 point of 1 machine says 20, at the bound of what is physical; as "
                  "published\n") != std::string::npos);
  CHECK(text.find("    gen5: 55  # given: not measured here\n") != std::string::npos);
  CHECK(text.ends_with("  kind: x16\n  source: \"a: b\"\n"));
  const config::Node given = given_constants(*rules, "hosts", diagnostics);
  CHECK(given.find("copy")->find("pinned")->find("gen3")->scalar() == "12.0");
  CHECK(diagnostics.all().empty());

  const auto error = [&](const std::string& yaml) {
    Diagnostics wrong;
    CHECK_FALSE(load_constant_rules(folder.file("w.yaml", yaml), wrong));
    return wrong.all().empty() ? "" : to_string(wrong.all().front());
  };
  CHECK(error("other: {a: {value: 1}}\n").find("'other' is not a map named") != std::string::npos);
  CHECK(error("links: {a: {value: 1, min: 2}}\n").find("not from 2 to") != std::string::npos);
  CHECK(error("links: {a: {value: -1}}\n").find("links.a.value") != std::string::npos);
  CHECK(error("links: {a: {value: 1, take: fitt}}\n").find("did you mean 'fit'") != std::string::npos);
  CHECK(error("links: {a: [1]}\n").find("must be a constant") != std::string::npos);
}

TEST_CASE("collectives: wrong runs are named with their place") {
  const auto error = [](const std::string& change, const std::string& points = "points: [[8, 12.9]]") {
    const Folder folder("foretrain-runs-test");
    Diagnostics diagnostics;
    std::string run =
        "runs:\n- {class: c, source: s, op: all-reduce, gpu: h100, ranks: 8, nodes: 1, gpus_per_node: 8, intra: "
        "nvswitch, "
        "p2p: true, nics: 0, nic_gbps: 0, net: infiniband, driver: process, " +
        points + "}\n";
    if (const std::size_t equals = change.find('='); equals != std::string::npos) {
      const std::string what = change.substr(0, equals);
      run.replace(run.find(what), what.size(), change.substr(equals + 1));
    }
    const std::vector<std::string> paths = {folder.file("runs.yaml", run)};
    const auto links = load_link_rates(data_folder(), diagnostics);
    const auto runs = load_collective_runs(paths, data_folder(), *links, diagnostics);
    if (diagnostics.all().empty()) return std::string(runs.size() == 1 ? "good" : "nothing");
    CHECK(runs.empty());
    return to_string(diagnostics.all().front()).substr(folder.path().size() + 1);
  };
  CHECK(error("") == "good");
  CHECK(error("all-reduce=all-redoce").find("did you mean 'all-reduce'") != std::string::npos);
  CHECK(error("ranks: 8=ranks: 9").find("9 ranks do not fill 1 nodes") != std::string::npos);
  CHECK(error("gpu: h100=gpu: h101").starts_with("runs.yaml:2:"));
  CHECK(error("nodes: 1=nodes: 2").find("no such machine") != std::string::npos);  // without NICs
  CHECK(error("", "points: [[8, 0]]").find("both above 0") != std::string::npos);
  CHECK(error("", "points: [8]").find("both above 0") != std::string::npos);
  CHECK(error("", "log: ../x.log").find("in or below the folder") != std::string::npos);
  CHECK(error("", "log: x.log").find("'x.log' cannot be read") != std::string::npos);
  CHECK(error("", "note: n").find("either points or a log") != std::string::npos);
}

TEST_CASE("hosts: medians by link, generation and code") {
  Diagnostics diagnostics;
  const Given given(diagnostics);
  const std::vector<std::string> paths = {kMeasurements};
  const HostMeasurements rows = load_host_measurements(paths, diagnostics);
  for (const Diagnostic& d : diagnostics.all()) MESSAGE(to_string(d));
  CHECK(diagnostics.all().empty());
  const std::vector<ConstantFit> fits = fit_hosts(rows, given.hosts);
  std::size_t compared = 0;
  for (const ConstantFit& f : fits) {
    CAPTURE(f.name);
    const ConstantRule* rule = given.rules.find(f.name);
    REQUIRE(rule);
    CHECK(f.points > 0);
    CHECK(!f.systems.empty());
    if (!f.name.starts_with("links.pcie.copy")) continue;
    ++compared;
    CHECK(rule->value == doctest::Approx(f.fitted).epsilon(0.08));
  }
  CHECK(compared == 3);

  const Folder folder("foretrain-hosts-test");
  const std::vector<std::string> good = {folder.file(
      "g.yaml",
      "transfers:\n- {link: nvme-read, generation: 4, gbs: 2, queue_depth: 4, block_kib: 256, busy_gbs: 6, source: s}\n"
      "optimizers:\n- {code: deepspeed, cpu: c, cores: 10, dram_gbs: 280, params_b: 1, time_s: 0.5, source: s}\n")};
  const std::vector<ConstantFit> own = fit_hosts(load_host_measurements(good, diagnostics), given.hosts);
  REQUIRE(own.size() == 3);
  CHECK(own[0].name == "hosts.adam.deepspeed.core_ns");
  CHECK(own[0].fitted == doctest::Approx(5.0));
  CHECK(own[1].name == "hosts.adam.deepspeed.dram_fraction");
  CHECK(own[1].fitted == doctest::Approx(0.2));
  CHECK(own[2].name == "hosts.nvme.half_in_flight_kib");
  CHECK(own[2].fitted == doctest::Approx(2048));  // a third of the rate with 1 MiB in flight
  CHECK(diagnostics.all().empty());

  const std::vector<std::string> wrong = {folder.file(
      "h.yaml", "transfers:\n- {link: pcie, generation: 4, gbs: -1, source: s}\n- {link: pci, source: s}\n")};
  CHECK(load_host_measurements(wrong, diagnostics).transfers.empty());
  CHECK(diagnostics.error_count() >= 3);
}
