#include "sim/calibration/validate.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace foretrain;

namespace {

MeasuredCase measured(const std::string& name, double seconds) {
  MeasuredCase c;
  c.name = name;
  c.subject = Case{};
  c.subject->name = name;
  c.subject->train.global_batch = 8;
  c.subject->train.seq_len = 100;
  c.measured.step_time_s = seconds;
  return c;
}

MeasuredCase refused(const std::string& name) {
  MeasuredCase c;
  c.name = name;
  c.refusals = {"plan.offload", "model.experts"};
  return c;
}

// Predicts two seconds, 10, 11 and 12 GB, and fails on the case called "bad".
CaseReport stub(const Case& subject) {
  if (subject.name == "bad") throw std::logic_error("the schedule deadlocks");
  CaseReport report;
  report.step_time = Time::from_seconds(2.0);
  report.memory.resize(2);
  report.memory[1].figures = {Bytes{10e9}, Bytes{11e9}, Bytes{12e9}};
  report.fullest = 1;
  report.fits = subject.name != "large";
  return report;
}

std::vector<MeasuredFile> two_files() {
  MeasuredFile first{"a.yaml", "A", "https://a", {measured("one", 1.0), refused("no"), measured("bad", 1.0)}};
  MeasuredFile second{"b.yaml", "B", "https://b", {measured("two", 2.5), measured("large", 4.0)}};
  second.cases[1].measured.out_of_memory = true;
  return {first, second};
}

}  // namespace

TEST_CASE("every case that is not refused is compared, in order") {
  const Validation v = validate(two_files(), stub, 1);
  REQUIRE(v.cases.size() == 4);
  CHECK(v.cases[0].name == "one");
  CHECK(v.cases[0].tokens_per_step == 800);
  CHECK(*v.cases[0].error() == doctest::Approx(1.0));
  CHECK(v.cases[1].failure == "the schedule deadlocks");
  CHECK_FALSE(v.cases[1].predicted_step_time_s);
  CHECK(v.cases[2].file == 1);
  CHECK(*v.cases[3].predicted_oom);
  REQUIRE(v.refused.size() == 1);
  CHECK(v.refused[0].why == "plan.offload; model.experts");
  REQUIRE(v.sources.size() == 2);
  CHECK(v.sources[0].refused == 1);
  CHECK(v.sources[0].accuracy.cases == 2);
  CHECK(v.sources[0].accuracy.failures == 1);
  CHECK(*v.sources[1].accuracy.mape == doctest::Approx(0.35));  // -20 % and -50 %
  CHECK(*v.mape_of_sources == doctest::Approx((1.0 + 0.35) / 2));
  CHECK(v.summary.cases == 4);
  CHECK(*v.summary.oom_accuracy == 1.0);
}

TEST_CASE("memory is compared with the figure that was measured") {
  using Kind = Measured::MemoryKind;
  for (const auto& [kind, bytes] : {std::pair{Kind::allocated, 10e9}, {Kind::reserved, 11e9}, {Kind::device, 12e9}}) {
    MeasuredCase c = measured("one", 1.0);
    c.measured.memory_per_gpu = Bytes{10e9};
    c.measured.memory_kind = kind;
    const std::vector<MeasuredFile> files = {{"a.yaml", "", "", {c}}};
    const Validation v = validate(files, stub, 1);
    CHECK(v.cases[0].predicted_memory->value == bytes);
    CHECK(*v.cases[0].memory_error() == doctest::Approx(bytes / 10e9 - 1));
  }
}

TEST_CASE("a file of refused cases only") {
  const std::vector<MeasuredFile> files = {{"a.yaml", "", "", {refused("x")}}, {"b.yaml", "", "", {measured("y", 1)}}};
  const Validation v = validate(files, stub, 3);
  CHECK(v.sources[0].accuracy.cases == 0);
  CHECK(v.sources[1].accuracy.cases == 1);
}

TEST_CASE("the same result from any number of threads") {
  MeasuredFile many{"many.yaml", "", "", {}};
  for (int i = 0; i < 200; ++i) many.cases.push_back(measured(std::to_string(i), 1.0 + i));
  const auto slow = [](const Case& subject) {
    CaseReport report = stub(subject);
    report.step_time = Time::from_seconds(std::stod(subject.name) + 1.0);
    return report;
  };
  const std::vector<MeasuredFile> files = {many};
  for (int threads : {1, 2, 7, 500}) {
    const Validation v = validate(files, slow, threads);
    REQUIRE(v.cases.size() == 200);
    for (std::size_t i = 0; i < 200; ++i) CHECK(*v.cases[i].error() == doctest::Approx(0.0));
    CHECK(*v.summary.pairwise_order_accuracy == 1.0);
  }
}
