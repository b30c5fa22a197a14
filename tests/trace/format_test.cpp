// The file against the Trace Event Format as documented
// (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU) and what Perfetto's importer of it needs:
// viewers drop what breaks these rules without a word.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "sim/trace/trace.h"
#include "tests/support/cases.h"
#include "tests/support/files.h"

using namespace foretrain;
using namespace foretrain::testing;
using nlohmann::json;

namespace {

const char* const kMachine =
    "software: megatron-core\n"
    "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 4, nic_gbps: 200, net: "
    "infiniband}\n"
    "train: {seq_len: 1024, global_batch: 16, precision: bf16}\n";
const char* const kDense = "model: {arch: gpt, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}\n";

// What is wrong with a trace; empty if nothing is.
class Validator {
 public:
  explicit Validator(const json& trace) {
    const std::string unit = trace.value("displayTimeUnit", "ms");
    if (unit != "ms" && unit != "ns") wrong("displayTimeUnit", trace);
    for (const json& event : trace.at("traceEvents")) check(event);
    for (const auto& [id, flow] : open_) wrong("a flow that does not end", flow);
    for (auto& [track, slices] : slices_) check_nesting(slices);
  }
  std::optional<std::string> problem;
  std::map<std::string, int> phases;

 private:
  void wrong(const std::string& what, const json& event) {
    if (!problem) problem = what + ": " + event.dump().substr(0, 300);
  }
  static bool is_id(const json& event, const char* key) {
    return event.contains(key) && event[key].is_number_integer() && event[key] >= 0 &&
           event[key] < (std::int64_t{1} << 31);
  }
  static bool is_time(const json& event, const char* key) {
    return event.contains(key) && event[key].is_number() && std::isfinite(event[key].get<double>()) && event[key] >= 0;
  }
  static bool is_text(const json& event, const char* key) {
    return event.contains(key) && event[key].is_string() && !event[key].get<std::string>().empty();
  }

  void check(const json& e) {
    if (!is_text(e, "ph") || !is_text(e, "name") || !is_id(e, "pid")) return wrong("without ph, name or pid", e);
    const std::string phase = e["ph"];
    ++phases[phase];
    if (phase == "M") return check_metadata(e);
    if (!is_time(e, "ts")) return wrong("without a time", e);
    if (phase == "C") return check_counter(e);
    if (!is_id(e, "tid") || !is_text(e, "cat")) return wrong("without tid or cat", e);
    if (phase == "X") {
      if (!is_time(e, "dur")) return wrong("a complete event without a duration", e);
      if (e.contains("args") && !e["args"].is_object()) wrong("args", e);
      slices_[e["pid"].dump() + " " + e["tid"].dump()].push_back(e);
      return;
    }
    if (phase == "s" || phase == "f") return check_flow(e, phase == "s");
    wrong("a phase that is not written", e);
  }

  void check_metadata(const json& e) {
    static const std::map<std::string, std::pair<const char*, bool>> known = {
        {"process_name", {"name", false}},
        {"process_sort_index", {"sort_index", false}},
        {"thread_name", {"name", true}},
        {"thread_sort_index", {"sort_index", true}}};
    const auto kind = known.find(e["name"]);
    if (kind == known.end()) return wrong("metadata of no known kind", e);
    const auto& [argument, of_thread] = kind->second;
    if (of_thread != is_id(e, "tid")) wrong("metadata of the wrong owner", e);
    const json args = e.value("args", json::object());
    if (std::string(argument) == "name" ? !is_text(args, "name")
                                        : !args.value("sort_index", json()).is_number_integer()) {
      wrong("metadata without what it says", e);
    }
    const std::string owner = e["name"].get<std::string>() + e["pid"].dump() + e.value("tid", json()).dump();
    if (!named_.insert(owner).second) wrong("named twice", e);
  }

  // One series of numbers over time for a process and name, always of the same members.
  void check_counter(const json& e) {
    if (!e.contains("args") || !e["args"].is_object() || e["args"].empty()) return wrong("a counter without values", e);
    std::set<std::string> members;
    for (const auto& [name, value] : e["args"].items()) {
      if (!value.is_number() || !std::isfinite(value.get<double>())) wrong("a counter's value", e);
      members.insert(name);
    }
    const auto [known, is_new] = counters_.try_emplace(e["pid"].dump() + e["name"].dump(), Counter{members, e["ts"]});
    if (known->second.members != members) wrong("a counter of other members", e);
    if (e["ts"] < known->second.last) wrong("a counter that goes back in time", e);
    known->second.last = e["ts"];
  }

  // Start and end are bound by id, category and name; "bp": "e" binds the end to the slice that encloses it.
  void check_flow(const json& e, bool starts) {
    if (!e.contains("id")) return wrong("a flow without id", e);
    const std::string key = e["id"].dump() + e["cat"].dump() + e["name"].dump();
    if (starts) {
      if (!open_.emplace(key, e).second) wrong("a flow that starts twice", e);
      return;
    }
    const auto start = open_.find(key);
    if (start == open_.end()) return wrong("a flow that ends without a start", e);
    if (e.value("bp", "") != "e") wrong("the end of a flow without bp: e", e);
    if (e["ts"] < start->second["ts"]) wrong("a flow that goes back in time", e);
    open_.erase(start);
  }

  // Perfetto rounds both times to nanoseconds and takes slices off their track that cross others' ends.
  void check_nesting(std::vector<json>& slices) {
    const auto ns = [](const json& time) { return std::llround(time.get<double>() * 1000.0); };
    std::stable_sort(slices.begin(), slices.end(), [](const json& a, const json& b) { return a["ts"] < b["ts"]; });
    std::vector<long long> ends;
    for (const json& slice : slices) {
      const long long begin = ns(slice["ts"]), end = begin + ns(slice["dur"]);
      while (!ends.empty() && ends.back() <= begin) ends.pop_back();
      if (!ends.empty() && end > ends.back()) wrong("a slice that crosses another's end", slice);
      ends.push_back(end);
    }
  }

  struct Counter {
    std::set<std::string> members;
    json last;
  };
  std::set<std::string> named_;
  std::map<std::string, Counter> counters_;
  std::map<std::string, json> open_;
  std::map<std::string, std::vector<json>> slices_;
};

Validator validated(const std::string& yaml, bool kernels) {
  Case c = case_of(yaml);
  c.name = "a \"name\"\n with \\ \x01 and 模型";
  CaseReport report = simulate_case(c, environment(), {.with_advice = false, .with_pieces = kernels});
  const std::vector<CaseReport> twice = {report, report};  // names of cases are then part of those of processes
  std::string text;
  trace::write(twice, {kernels}, [&](std::string_view piece) { text += piece; });
  return Validator(json::parse(text));
}

}  // namespace

TEST_CASE("traces keep to the documented format") {
  const std::vector<std::string> plans = {
      "plan: {tp: 2, pp: 4, zero: 1, micro_batch: 1, overlap: {grad_reduce: true, param_gather: true}}",
      "plan: {pp: 4, vpp: 2, micro_batch: 1}", "plan: {zero: 3, micro_batch: 1}",
      "plan: {zero: 2, micro_batch: 1, offload: optimizer}"};
  for (const std::string& plan : plans) {
    for (const bool kernels : {false, true}) {
      CAPTURE(plan);
      const Validator trace = validated(kDense + std::string(kMachine) + plan, kernels);
      CHECK_MESSAGE(!trace.problem, trace.problem.value_or(""));
      for (const char* phase : {"M", "X", "s", "f", "C"}) CHECK(trace.phases.contains(phase));
      CHECK(trace.phases.at("s") == trace.phases.at("f"));
    }
  }
}

TEST_CASE("the validator finds what is wrong") {
  const auto problem_of = [](const char* event) {
    return Validator(json::parse(std::string(R"({"traceEvents": [)") + event + "]}")).problem.value_or("");
  };
  CHECK(problem_of(R"({"ph":"X","pid":1,"tid":1,"ts":0,"dur":1,"name":"a","cat":"b"})").empty());
  CHECK(contains(problem_of(R"({"ph":"X","pid":1,"tid":1,"ts":0,"name":"a","cat":"b"})"), "without a duration"));
  CHECK(contains(problem_of(R"({"ph":"X","pid":"1","tid":1,"ts":0,"dur":1,"name":"a","cat":"b"})"), "pid"));
  CHECK(contains(problem_of(R"({"ph":"C","pid":1,"ts":0,"name":"a","args":{"x":"1"}})"), "value"));
  CHECK(contains(problem_of(R"({"ph":"X","pid":1,"tid":1,"ts":0.0014,"dur":0.0022,"name":"a","cat":"b"},
                               {"ph":"X","pid":1,"tid":1,"ts":0.0024,"dur":1,"name":"a","cat":"b"})"),
                 "crosses another's end"));
  CHECK(contains(problem_of(R"({"ph":"C","pid":1,"ts":2,"name":"a","args":{"x":1}},
                               {"ph":"C","pid":1,"ts":1,"name":"a","args":{"x":1}})"),
                 "back in time"));
  CHECK(contains(problem_of(R"({"ph":"s","id":1,"pid":1,"tid":1,"ts":0,"name":"a","cat":"b"})"), "does not end"));
  CHECK(contains(problem_of(R"({"ph":"s","id":1,"pid":1,"tid":1,"ts":0,"name":"a","cat":"b"},
                               {"ph":"f","id":1,"pid":1,"tid":1,"ts":0,"name":"a","cat":"b"})"),
                 "bp"));
  CHECK(contains(problem_of(R"({"ph":"M","pid":1,"name":"thread_name","args":{"name":"x"}})"), "owner"));
}
