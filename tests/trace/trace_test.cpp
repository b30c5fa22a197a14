#include "sim/trace/trace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;
using nlohmann::json;

namespace {

const std::string kTrain = "train: {seq_len: 1024, global_batch: 32, precision: bf16}\n";
const std::string kGpt =
    "model: {arch: gpt, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}\n"
    "software: megatron-lm\n";
const std::string kLlama = "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, ffn: 5632, vocab: 32000}\n";
const std::string kExperts =
    "model: {arch: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 4, vocab: 32000, experts: 16, top_k: 2, "
    "expert_ffn: 1408}\nsoftware: megatron-core\n";
const std::string kNode = "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n";
const std::string kTwoNodes =
    "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 4, nic_gbps: 200, "
    "net: infiniband}\n";

// One of each way to spread or store a step that makes other tasks.
const std::vector<std::string>& plan_kinds() {
  static const std::vector<std::string> kinds = {
      kGpt + kNode + kTrain + "plan: {pp: 4, micro_batch: 2}",
      kGpt + kTwoNodes + kTrain + "plan: {tp: 2, pp: 4, zero: 1, micro_batch: 2, overlap: {grad_reduce: true}}",
      kGpt + kNode + kTrain + "plan: {pp: 4, vpp: 2, micro_batch: 2}",
      kGpt + kNode + kTrain + "plan: {pp: 4, schedule: zero-bubble, micro_batch: 1}",
      kGpt + kNode + kTrain + "plan: {tp: 4, micro_batch: 2, overlap: {grad_reduce: true}}",
      kLlama + "software: torch-fsdp\n" + kNode + kTrain + "plan: {zero: 3, micro_batch: 1}",
      kLlama + "software: deepspeed\n" + kTwoNodes + kTrain + "plan: {zero: 3, micro_batch: 1, recompute: full}",
      kLlama + "software: deepspeed\n" + kNode + kTrain + "plan: {zero: 2, micro_batch: 2, offload: optimizer}",
      kLlama + "software: megatron-core\n" + kNode + kTrain + "plan: {cp: 2, tp: 2, pp: 2, micro_batch: 1}",
      kExperts + kNode + kTrain + "plan: {ep: 8, micro_batch: 1}",
      kExperts + kNode + kTrain + "plan: {ep: 4, pp: 2, micro_batch: 1}",
  };
  return kinds;
}

CaseReport simulated(const std::string& yaml) {
  return simulate_case(case_of(yaml), environment(), {.with_advice = false, .with_pieces = true});
}

std::string text_of(std::span<const CaseReport> cases, bool kernels = false) {
  std::string text;
  trace::write(cases, {kernels}, [&](std::string_view piece) { text += piece; });
  return text;
}

std::vector<json> events_of(const CaseReport& report, bool kernels = false) {
  return json::parse(text_of({&report, 1}, kernels)).at("traceEvents").get<std::vector<json>>();
}

// As Perfetto reads a time or duration (src/trace_processor/importers/json/json_trace_tokenizer.cc).
std::int64_t nanoseconds(const json& microseconds) { return std::llround(microseconds.get<double>() * 1e3); }

struct Slice {
  std::int64_t begin = 0, end = 0;
  std::string name, category;
};
using Tracks = std::map<std::pair<int, int>, std::vector<Slice>>;  // by process and thread, in order of time

Tracks tracks_of(const std::vector<json>& events) {
  Tracks tracks;
  for (const json& e : events) {
    if (e.at("ph") != "X") continue;
    const std::int64_t begin = nanoseconds(e.at("ts"));
    tracks[{e.at("pid"), e.at("tid")}].push_back({begin, begin + nanoseconds(e.at("dur")), e.at("name"), e.at("cat")});
  }
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  }
  return tracks;
}

// Processes are numbered from 1 in the order of the rank classes.
std::size_t rank_of(int process) { return static_cast<std::size_t>(process - 1); }

int thread_named(const std::vector<json>& events, int process, const std::string& name) {
  for (const json& e : events) {
    if (e.at("name") == "thread_name" && e.at("pid") == process && e.at("args").at("name") == name) return e.at("tid");
  }
  return -1;
}

}  // namespace

TEST_CASE("slices do not overlap on a track, and each has a named track of a named process") {
  for (const std::string& kind : plan_kinds()) {
    CAPTURE(kind);
    const std::vector<json> events = events_of(simulated(kind), true);
    std::set<std::pair<int, int>> named;
    std::set<int> processes;
    for (const json& e : events) {
      if (e.at("name") == "thread_name") named.emplace(e.at("pid").get<int>(), e.at("tid").get<int>());
      if (e.at("name") == "process_name") processes.insert(e.at("pid").get<int>());
    }
    const Tracks tracks = tracks_of(events);
    CHECK(tracks.size() == named.size());
    for (const auto& [track, slices] : tracks) {
      CHECK(named.contains(track));
      CHECK(processes.contains(track.first));
      std::int64_t free = 0;
      for (const Slice& slice : slices) {
        CHECK_MESSAGE(slice.begin >= free, slice.name);
        CHECK(slice.end > slice.begin);
        free = slice.end;
      }
    }
  }
}

TEST_CASE("the slices of a cause add up to its part of the breakdown: exactly, and as written to a nanosecond each") {
  for (const std::string& kind : plan_kinds()) {
    CAPTURE(kind);
    const CaseReport report = simulated(kind);
    std::vector<std::map<std::string, std::int64_t>> written(report.per_class.size());
    const Tracks tracks = tracks_of(events_of(report));
    for (const auto& [track, slices] : tracks) {
      for (const Slice& slice : slices) written.at(rank_of(track.first))[slice.category] += slice.end - slice.begin;
    }
    for (std::uint32_t rank = 0; rank < written.size(); ++rank) {
      std::array<Time, kCauses> exact;
      std::array<std::int64_t, kCauses> slices{};
      for (const auto& slice : cause_slices(report.step, report.schedule, report.subject.plan.zero, rank)) {
        exact[static_cast<std::size_t>(slice.cause)] += slice.end - slice.begin;
        ++slices[static_cast<std::size_t>(slice.cause)];
      }
      for (std::size_t cause = 0; cause < kCauses; ++cause) {
        const std::string name(to_string(static_cast<Cause>(cause)));
        CAPTURE(name);
        CHECK(exact[cause] == report.per_class[rank].parts[cause]);
        CHECK(std::abs(written[rank][name] * 1000 - exact[cause].ps) <= slices[cause] * 1000);
      }
    }
  }
}

TEST_CASE("arrows begin and end on slices, and go forward in time") {
  for (const std::string& kind : plan_kinds()) {
    CAPTURE(kind);
    const std::vector<json> events = events_of(simulated(kind));
    const Tracks tracks = tracks_of(events);
    const auto on_slice = [&](const json& e) {
      const auto track = tracks.find({e.at("pid"), e.at("tid")});
      if (track == tracks.end()) return false;
      const std::int64_t at = nanoseconds(e.at("ts"));
      return std::any_of(track->second.begin(), track->second.end(),
                         [&](const Slice& slice) { return slice.begin <= at && at < slice.end; });
    };
    std::map<int, json> open;
    int arrows = 0;
    for (const json& e : events) {
      if (e.at("ph") == "s") {
        CHECK(on_slice(e));
        CHECK(open.emplace(e.at("id"), e).second);
      } else if (e.at("ph") == "f") {
        CHECK(on_slice(e));
        const auto from = open.find(e.at("id"));
        REQUIRE(from != open.end());
        CHECK(nanoseconds(e.at("ts")) >= nanoseconds(from->second.at("ts")));
        CHECK((e.at("pid") != from->second.at("pid") || e.at("tid") != from->second.at("tid")));
        open.erase(from);
        ++arrows;
      }
    }
    CHECK(open.empty());
    CHECK(arrows > 0);
  }
}

TEST_CASE("the memory counter's maximum is the reported peak of the stage") {
  for (const std::string& kind : plan_kinds()) {
    CAPTURE(kind);
    const CaseReport report = simulated(kind);
    std::map<int, double> most, most_by_part;
    std::map<int, std::int64_t> last;
    for (const json& e : events_of(report)) {
      if (e.at("ph") != "C" || !e.at("name").get<std::string>().starts_with("GPU memory")) continue;
      double sum = 0;
      for (const json& value : e.at("args")) sum += value.get<double>();
      double& highest = (e.at("name") == "GPU memory" ? most : most_by_part)[e.at("pid")];
      highest = std::max(highest, sum);
      if (e.at("name") != "GPU memory") continue;
      CHECK(nanoseconds(e.at("ts")) >= last[e.at("pid")]);
      last[e.at("pid")] = nanoseconds(e.at("ts"));
    }
    REQUIRE(most.size() == report.step.stage.size());
    for (const auto& [process, highest] : most) {
      const StagePeak& peak = report.memory[static_cast<std::size_t>(report.step.stage[rank_of(process)])];
      CHECK(highest == std::round(peak.parts.total().value));
      CHECK(std::abs(most_by_part[process] - highest) <= 8);  // each part is rounded to a byte
    }
  }
}

TEST_CASE("links carry no more than they can, and are idle at the end") {
  for (const std::string& kind : plan_kinds()) {
    CAPTURE(kind);
    std::map<std::string, std::pair<double, double>> links;  // most and last
    for (const json& e : events_of(simulated(kind))) {
      if (e.at("ph") != "C" || !e.at("args").contains("GB/s")) continue;
      const double rate = e.at("args").at("GB/s");
      auto& [most, last] = links[e.at("name")];
      most = std::max(most, rate);
      last = rate;
    }
    for (const auto& [name, use] : links) {
      const double capacity = std::stod(name.substr(name.find("(of ") + 4));
      CHECK(use.first <= capacity * 1.001);  // the name rounds
      CHECK(use.first > 0);
      CHECK(use.second == 0);
    }
  }
}

TEST_CASE("the kernels of a pass fill it exactly and are those of its layers") {
  for (const std::string& kind : plan_kinds()) {
    CAPTURE(kind);
    const std::vector<json> events = events_of(simulated(kind), true);
    const Tracks tracks = tracks_of(events);
    const int compute = thread_named(events, 1, "compute"), kernels = thread_named(events, 1, "kernels");
    REQUIRE(compute >= 0);
    REQUIRE(kernels >= 0);
    for (const auto& [track, slices] : tracks) {
      if (track.second != compute) continue;
      std::int64_t passes = 0, filled = 0;
      for (const Slice& slice : slices) passes += slice.category == "pass" ? slice.end - slice.begin : 0;
      for (const Slice& slice : tracks.at({track.first, kernels})) filled += slice.end - slice.begin;
      CHECK(filled == passes);
      const auto pass = std::find_if(slices.begin(), slices.end(), [](const Slice& s) { return s.category == "pass"; });
      const auto& all = tracks.at({track.first, kernels});
      CHECK(all.front().begin == pass->begin);
      CHECK(std::any_of(all.begin(), all.end(), [](const Slice& s) { return s.name == "attention forward"; }));
      CHECK(std::any_of(all.begin(), all.end(), [](const Slice& s) { return s.name.ends_with("weight gradient"); }));
    }
  }
}

TEST_CASE("names tell stages, layers and what ranks stand for") {
  const CaseReport report = simulated(plan_kinds().front());
  const std::vector<json> events = events_of(report);
  std::vector<std::string> processes;
  std::set<std::string> slices;
  for (const json& e : events) {
    if (e.at("name") == "process_name") processes.push_back(e.at("args").at("name"));
    if (e.at("ph") == "X") slices.insert(e.at("name").get<std::string>());
  }
  CHECK(processes == std::vector<std::string>{"stage 0 of 4 (2 GPUs)", "stage 1 of 4 (2 GPUs)", "stage 2 of 4 (2 GPUs)",
                                              "stage 3 of 4 (2 GPUs)", "links"});
  CHECK(slices.contains("forward embedding, layers 0..1 micro-batch 0"));
  CHECK(slices.contains("backward layers 2..3 micro-batch 7"));
  CHECK(slices.contains("forward layers 6..7, head micro-batch 7"));
  CHECK(trace::ranks_shown({&report, 1}).english() ==
        "the trace shows 4 of 8 ranks; each stands for ranks that cannot differ from it");
}

TEST_CASE("several cases are groups of processes of one file") {
  const std::vector<CaseReport> reports = {simulated(plan_kinds()[0]), simulated(plan_kinds()[5])};
  const json whole = json::parse(text_of(reports));
  std::set<int> numbers;
  int first = 0;
  for (const json& e : whole.at("traceEvents")) {
    if (e.at("name") != "process_name") continue;
    CHECK(numbers.insert(e.at("pid").get<int>()).second);
    first += e.at("args").at("name").get<std::string>().starts_with(reports[0].name + ": ");
  }
  CHECK(first >= 5);
  CHECK(numbers.size() == reports[0].step.stage.size() + reports[1].step.stage.size() + 2);
  CHECK(whole.at("otherData").at("cases").size() == 2);
}

TEST_CASE("a step of 16 stages and 64 micro-batches") {
  const CaseReport report = simulated(
      "model: {arch: gpt, layers: 32, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}\nsoftware: megatron-lm\n" +
      kTwoNodes + "train: {seq_len: 1024, global_batch: 64, precision: bf16}\nplan: {pp: 16, micro_batch: 1}");
  const Tracks tracks = tracks_of(events_of(report));
  std::size_t passes = 0;
  for (const auto& [track, slices] : tracks) {
    std::int64_t free = 0;
    for (const Slice& slice : slices) {
      passes += slice.category == "pass";
      CHECK(slice.begin >= free);
      free = slice.end;
    }
  }
  CHECK(passes >= 16 * 64 * 2);
}
