#include "sim/calibration/confidence.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/calibration/accuracy_doc.h"
#include "sim/calibration/validated_runs.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

// The error bars the program ships with.
const ErrorBars& committed() {
  static const ErrorBars loaded = [] {
    Diagnostics diagnostics;
    auto bars = load_error_bars(data_folder(), diagnostics);
    if (!bars) throw std::runtime_error(to_string(diagnostics.all().front()));
    return *bars;
  }();
  return loaded;
}

RunTraits plain_run() {
  RunTraits run;
  run.gpu = "a100-sxm4-80gb";
  run.architecture = "ampere";
  run.software = run.family = "megatron-lm";
  run.intra = "nvswitch";
  run.precision = "bf16";
  run.attention = "flash2";
  run.gpus = 8;
  run.parameters = 7'000'000'000;
  run.seq_len = 2048;
  return run;
}

Residual residual(const std::string& source, double log_error, RunTraits run = plain_run()) {
  return {source + "-run", source, std::move(run), log_error};
}

double width(const RunTraits& run, const ErrorBars& bars) {
  const LogRange range = log_range(*neighbourhood(run, bars.residuals), bars.model);
  return range.high - range.low;
}

const char* const kTwoRows =
    "#: about: two rows by hand\n#: widening: 0.01\n#: tested_distance: 2\n#: pair_variance: 0.01\n"
    "#: pair_variance_slope: 0.005\n"
    "name,source,gpu,architecture,intra,network,gpus,nodes,software,family,precision,attention,parameters,seq_len,tp,"
    "pp,"
    "zero,cp,recompute,log_error\n"
    "r1,s1,card,ampere,nvswitch,none,8,1,megatron-lm,megatron-lm,bf16,flash2,7000000000,2048,8,1,0,1,none,-0.05000\n"
    "r2,s2,card,ampere,nvswitch,none,8,1,megatron-lm,megatron-lm,bf16,flash2,7000000000,2048,8,1,3,1,full,0.10000\n";

std::optional<ErrorBars> read(const std::string& text, Diagnostics& diagnostics) {
  return read_error_bars(text, "rows.csv", diagnostics);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

Case question(const std::string& gpu, const std::string& intra, const std::string& software) {
  return case_of("model: llama-2-7b\ntrain: {seq_len: 2048, global_batch: 64, precision: bf16}\ncluster: {gpu: " + gpu +
                 ", gpus: 8, gpus_per_node: 8, intra: " + intra + "}\nplan: {zero: 3}\nsoftware: " + software);
}

}  // namespace

TEST_CASE("nine in ten of the runs left out are in their range, leaving whole sources out") {
  const Coverage coverage = leave_sources_out(committed());
  CHECK(coverage.of_runs >= 0.85);
  CHECK(coverage.of_runs <= 0.95);
  CHECK(coverage.of_sources >= 0.85);
  CHECK(coverage.of_sources <= 0.95);
  CHECK(coverage.mean_width < std::log(2.0));  // ranges that say something
  CHECK(committed().residuals.size() > 1000);
}

TEST_CASE("the committed constants are those of the committed residuals, and writing them changes nothing") {
  const ErrorModel model = fit_error_model(committed().residuals);
  CHECK(model.widening == doctest::Approx(committed().model.widening));
  CHECK(model.tested_distance == doctest::Approx(committed().model.tested_distance));
  CHECK(model.pair_variance == doctest::Approx(committed().model.pair_variance));
  CHECK(model.pair_variance_slope == doctest::Approx(committed().model.pair_variance_slope));
  const std::string text = to_csv(committed());
  Diagnostics diagnostics;
  const auto again = read(text, diagnostics);
  REQUIRE(again);
  CHECK(to_csv(*again) == text);
}

TEST_CASE("distance: nothing to itself, symmetric, larger for what is less alike") {
  const RunTraits run = plain_run();
  CHECK(distance(run, run) == 0);
  RunTraits sibling = run, stranger = run;
  sibling.gpu = "a100-pcie-80gb";
  stranger.gpu = "h100-sxm5-80gb";
  stranger.architecture = "hopper";
  CHECK(distance(run, sibling) > 0);
  CHECK(distance(run, stranger) > distance(run, sibling));
  CHECK(distance(run, stranger) == distance(stranger, run));
  RunTraits larger = run, far_larger = run;
  larger.gpus = 16;
  far_larger.gpus = 8192;
  CHECK(distance(run, far_larger) == doctest::Approx(10 * distance(run, larger)));
}

TEST_CASE("a range is made of the errors of the runs that are alike") {
  RunTraits elsewhere = plain_run();
  elsewhere.gpu = "mi300x-192gb";
  elsewhere.architecture = "cdna3";
  elsewhere.software = elsewhere.family = "torch-fsdp";
  std::vector<Residual> rows;
  for (int i = 0; i <= 20; ++i) {
    const double spread = 0.01 * (i - 10);
    rows.push_back(residual("a-near", -0.3 + spread));
    rows.push_back(residual("b-far", 0.5 + spread, elsewhere));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.source < b.source; });
  const auto near = neighbourhood(plain_run(), rows);
  REQUIRE(near);
  CHECK(rows[near->nearest].source == "a-near");
  CHECK(near->nearest_distance == 0);
  CHECK(near->low < -0.3);
  CHECK(near->low > -0.41);
  // The same rows seen from the other side.
  const auto far = neighbourhood(elsewhere, rows);
  CHECK(far->high > 0.5);
  CHECK(far->high < 0.61);
  // A prediction is in its own range, though all runs nearby were predicted too fast.
  CHECK(log_range(*near, {}).high >= 0);
  CHECK(log_range(*near, {}).holds(0));
}

TEST_CASE("a source of many runs does not drown the others") {
  std::vector<Residual> rows;
  for (int i = 0; i < 1000; ++i) rows.push_back(residual("large", 0.0));
  for (int i = 0; i < 30; ++i) rows.push_back(residual("small", 0.2));
  const auto both = neighbourhood(plain_run(), rows);
  CHECK(both->low == doctest::Approx(0.0));
  CHECK(both->high == doctest::Approx(0.2));
}

TEST_CASE("what is far from every measured run gets a wider range and a warning") {
  const ErrorBars& bars = committed();
  RunTraits near = bars.residuals.front().run, far = near;
  far.gpu = "some-new-card";
  far.architecture = "some-new-architecture";
  far.family = far.software = "some-new-framework";
  far.gpus *= 64;
  CHECK(width(far, bars) > 1.2 * width(near, bars));

  CaseReport known = simulate_plainly(question("a100-sxm4-80gb", "nvswitch", "hf-trainer"));
  add_error_bar(known, bars);
  REQUIRE(known.error_bar);
  CHECK(known.error_bar->low_s <= known.step_time.seconds());
  CHECK(known.error_bar->high_s >= known.step_time.seconds());
  CHECK(known.error_bar->nearest.gpu == "a100-sxm4-80gb");
  for (const Message& warning : known.warnings) CHECK(warning.english().find("outside of") == std::string::npos);

  CaseReport unknown = simulate_plainly(question("mi300x-192gb", "nvlink-mesh", "hf-trainer"));
  add_error_bar(unknown, bars);
  REQUIRE(unknown.error_bar);
  CHECK(unknown.error_bar->confidence == ErrorBar::Confidence::low);
  REQUIRE_FALSE(unknown.warnings.empty());
  CHECK(unknown.warnings.back().english().find("no measured run on mi300x-192gb") != std::string::npos);
  CHECK(unknown.error_bar->high_s / unknown.error_bar->low_s > known.error_bar->high_s / known.error_bar->low_s);
}

TEST_CASE("no residuals: nothing is said") {
  CaseReport report = simulate_plainly(question("a100-sxm4-80gb", "nvswitch", "hf-trainer"));
  add_error_bar(report, {});
  CHECK_FALSE(report.error_bar);
  CHECK_FALSE(order_likelihood(report, report, 2.0, {}));
  CHECK(fit_error_model({}).widening == 0);
  CHECK(leave_sources_out({}).sources.empty());
}

TEST_CASE("the widening covers nine tenths of the runs left out, and no more than that takes") {
  // Nineteen sources of one run each, errors 0.00 to 0.18, one unit apart from each other.
  std::vector<Residual> rows;
  for (int i = 0; i < 19; ++i) {
    RunTraits run = plain_run();
    run.software = run.family = std::string(1, static_cast<char>('a' + i));
    rows.push_back(residual(run.software, 0.01 * i * i, run));
  }
  ErrorBars bars{rows, fit_error_model(rows)};
  const double covered = leave_sources_out(bars).of_runs;
  CHECK(covered >= 0.9);
  CHECK(bars.model.widening > 0);
  bars.model.widening *= 0.99;
  CHECK(leave_sources_out(bars).of_runs < 0.9);
}

TEST_CASE("likelihood of an order: even at a tie, surer the further apart and the more alike") {
  const ErrorModel& model = committed().model;
  const RunTraits a = plain_run();
  RunTraits b = a;
  b.gpu = "h100-sxm5-80gb";
  b.architecture = "hopper";
  CHECK(order_likelihood(1.0, a, b, model) == 0.5);
  double before = 0.5;
  for (double ratio : {1.01, 1.05, 1.1, 1.2, 1.25}) {
    const double likelihood = order_likelihood(ratio, a, b, model);
    CHECK(likelihood > before);
    CHECK(likelihood < order_likelihood(ratio, a, a, model));
    before = likelihood;
  }
  CHECK(before > 0.9);
  CHECK(order_likelihood(3.0, a, b, model) == 0.99);
  CHECK(order_likelihood(3.0, a, a, {}) == 0.99);
  // One standard deviation of the difference: 84.1 %.
  const double sigma = std::sqrt(model.pair_variance + model.pair_variance_slope * distance(a, b));
  CHECK(order_likelihood(std::exp(sigma), a, b, model) == doctest::Approx(0.8413).epsilon(0.001));
}

TEST_CASE("pair variance: what runs of a source share cancels") {
  // Two sources, each off by a constant and by +-0.05 from run to run.
  std::vector<Residual> rows;
  for (const auto& [source, bias] : {std::pair{"a", -0.3}, {"b", 0.2}}) {
    rows.push_back(residual(source, bias - 0.05));
    rows.push_back(residual(source, bias + 0.05));
  }
  CHECK(fit_error_model(rows).pair_variance == doctest::Approx(0.01));
}

TEST_CASE("a file of residuals is read, and what is wrong with it is reported with its place") {
  Diagnostics good;
  const auto bars = read(kTwoRows, good);
  REQUIRE(bars);
  CHECK(bars->residuals.size() == 2);
  CHECK(bars->residuals[1].run.zero == 3);
  CHECK(bars->residuals[1].log_error == 0.1);
  CHECK(bars->model.widening == 0.01);

  const auto wrong = [](const std::string& from, const std::string& to) {
    Diagnostics diagnostics;
    CHECK_FALSE(read(replaced(kTwoRows, from, to), diagnostics));
    REQUIRE(diagnostics.has_errors());
    CHECK(to_string(diagnostics.all().front()).find("rows.csv:") == 0);
  };
  wrong("0.10000", "abc");
  wrong("0.10000", "1e9");
  wrong("0.10000", "nan");
  wrong("r2,s2", "r2");
  wrong("7000000000", "0");
  wrong("7000000000", "-7");
  wrong("log_error", "log_mistake");
  wrong("#: widening: 0.01", "#: widening: -1");
  wrong("#: widening: 0.01\n", "");
  wrong("r1,s1,card", "r1,s1,\"card\"");
  wrong("r1,s1,card", "r1,s1,");
}

TEST_CASE("notes on runs and peers are read; other shapes are errors") {
  const std::string folder = std::string(FORETRAIN_SOURCE_DIR) + "/tests/validation";
  Diagnostics diagnostics;
  const auto notes = load_run_notes(folder + "/flags.yaml", diagnostics);
  REQUIRE(notes);
  CHECK(notes->flags.contains("glm-130b"));
  const auto peers = load_peers(folder + "/peers.yaml", diagnostics);
  REQUIRE(peers);
  CHECK(peers->front().error == doctest::Approx(0.0837));
  CHECK_FALSE(diagnostics.has_errors());
  CHECK_FALSE(load_run_notes(folder + "/peers.yaml", diagnostics));
  CHECK_FALSE(load_peers(folder + "/flags.yaml", diagnostics));
  CHECK(diagnostics.has_errors());
}

TEST_CASE("the accuracy page says what the validation says") {
  // Two runs of one source, predicted 10 % too fast and 20 % too slow, in the right order; one is flagged.
  MeasuredFile file{"somewhere/one-source.yaml", "a source", "https://example.org", {}};
  Validation validation;
  validation.sources.push_back({file.path, file.source_title, file.source_url, {}, 0});
  for (const auto& [name, measured, predicted] : {std::tuple{"fast-run", 10.0, 9.0}, {"slow-run", 20.0, 24.0}}) {
    MeasuredCase run;
    run.name = name;
    run.subject = question("a100-sxm4-80gb", "nvswitch", "hf-trainer");
    file.cases.push_back(run);
    Comparison comparison;
    comparison.name = name;
    comparison.measured_step_time_s = measured;
    comparison.predicted_step_time_s = predicted;
    validation.cases.push_back(comparison);
  }
  validation.sources[0].accuracy = accuracy(validation.cases);
  const std::vector<MeasuredFile> files = {file};
  const config::Node server{{}, std::string("server")};
  const RunNotes notes{{{"slow-run", "the disk was full"}},
                       {{{"fast-*"}, {{"cluster.host.board", server}}, "its photograph", "https://example.org/photo"},
                        {{"other-*"}, {{"plan.zero", server}}, "nothing", "nowhere"}}};
  const auto& flags = notes.flags;
  const ErrorBars bars{residuals_of(files, validation, flags), {}};
  REQUIRE(bars.residuals.size() == 1);
  CHECK(bars.residuals[0].source == "one-source");
  CHECK(bars.residuals[0].log_error == doctest::Approx(std::log(0.9)).epsilon(1e-4));

  const std::vector<Peer> peers = {
      {"Rival", "the same rows", "none", "https://example.org", true, 0.33, {"one-source"}}};
  const std::vector<LeftOut> left_out = {{"one-source", 2, 0.1, 0.13}};
  const std::string page = accuracy_markdown({files, validation, notes, bars, peers, left_out});
  const auto says = [&](const std::string& text) { return page.find(text) != std::string::npos; };
  CHECK(says("| all runs | 2 | 15.0 % | 15.0 % | 19.0 % | +5.0 % |"));
  CHECK(says("| without runs that look wrong | 1 | 10.0 % |"));
  CHECK(says("[one-source](https://example.org)"));
  CHECK(says("| a100-sxm4-80gb | 2 | 15.0 % |"));
  CHECK(says("the disk was full"));
  CHECK(says("| fast-* | 1 | `cluster.host.board: server` | its photograph | https://example.org/photo |"));
  CHECK_FALSE(says("other-*"));
  CHECK(says("predict that one 13.0 % off on average, 10.0 % if it is seen (mean over 1 sources): 1.30 times."));
  CHECK(says("| one-source | 2 | 10.0 % | 13.0 % |"));
  CHECK(says("| [Rival](https://example.org), claimed | 33.0 % | 15.0 % | 2 |"));

  const ErrorModel model{0, 0, 0.01, 0};  // ln(24 / 9) is ten standard deviations: as sure as it gets
  const auto reliability = order_reliability(files, validation, {}, model);
  CHECK(reliability.back().pairs == 1);
  CHECK(reliability.back().right == 1.0);
  CHECK(reliability.back().said == doctest::Approx(0.99));
  CHECK(order_reliability(files, validation, flags, model).back().pairs == 0);
}
