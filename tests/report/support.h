#pragma once

#include <algorithm>
#include <sstream>
#include <string>

#include "sim/report/run_report.h"
#include "sim/report/terminal.h"

namespace foretrain::report::testing {

// Columns of the widest line.
inline int widest(const std::string& text) {
  std::istringstream lines(text);
  int most = 0;
  for (std::string line; std::getline(lines, line);) most = std::max(most, display_width(line));
  return most;
}

// A case written by hand: 1 s on 8 GPUs in two stages, 30 of 40 GiB.
inline CaseReport hand_made(const std::string& name) {
  CaseReport r;
  r.name = name;
  Case& c = r.subject;
  c.name = name;
  c.model.name = "tiny";
  c.model.layers = 4;
  c.model.hidden = 64;
  c.model.heads = 4;
  c.model.kv_heads = 4;
  c.model.head_dim = 16;
  c.model.ffn = 256;
  c.model.vocab = 1000;
  c.train.seq_len = 128;
  c.train.global_batch = 16;
  c.cluster.gpu.name = "card";
  c.cluster.gpus = 8;
  c.cluster.gpus_per_node = 8;
  c.cluster.intra = Intra::nvswitch;
  c.plan.pp = 2;
  c.plan.dp = 4;
  c.plan.zero = 1;
  c.software.name = "profile";
  c.assumptions = {message("sequence length is the default")};
  c.warnings = {message("odd but legal")};

  r.step_time = Time{1'000'000'000'001};
  r.breakdown[Cause::compute] = Time{700'000'000'000};
  r.breakdown[Cause::bubble] = Time{200'000'000'001};
  r.breakdown[Cause::tp_comm] = Time{100'000'000'000};
  r.per_class = {r.breakdown, r.breakdown};
  r.step.stage = {0, 1};
  r.step.multiplicity = {4, 4};
  r.step.simulated_ranks = 2;
  r.step.total_ranks = 8;
  r.step.micro_batches = 4;
  r.schedule.fingerprint = 0xABCDEF;
  r.tokens_per_second = 2048;
  r.tokens_per_second_per_gpu = 256;
  r.samples_per_second = 16;
  r.model_tflops_per_gpu = 123.4;
  r.mfu = 0.41;
  r.hfu = 0.5;
  r.bubble_fraction = 0.2;
  r.elasticity.emplace();
  (*r.elasticity)[HardwareRate::matmul] = 0.75;
  (*r.elasticity)[HardwareRate::nvlink] = 0.25;
  r.capacity = Bytes{40 * kGiB};
  r.memory.resize(2);
  for (int s = 0; s < 2; ++s) {
    StagePeak& peak = r.memory[static_cast<std::size_t>(s)];
    peak.stage = s;
    peak.parts.weights = Bytes{10 * kGiB};
    peak.parts.activations = Bytes{(s == 0 ? 18 : 8) * kGiB + 0.4};
    peak.figures = {peak.parts.total(), peak.parts.total() * 1.1, peak.parts.total() * 1.1 + Bytes{2 * kGiB}};
    peak.needed = peak.parts.total() + Bytes{2 * kGiB};
  }
  return r;
}

// The same, 5 GiB too large.
inline CaseReport too_large(const std::string& name) {
  CaseReport r = hand_made(name);
  r.capacity = Bytes{25 * kGiB};
  r.fits = false;
  r.changes = {{"micro_batch: 2", Bytes{20 * kGiB}, Time::from_seconds(1.25)}, {"zero: 3", Bytes{15 * kGiB}, {}}};
  return r;
}

inline RunReport run_of(std::vector<CaseReport> cases) {
  RunReport run;
  run.title = "a question";
  run.verdict.winner = cases.empty() ? "" : cases.front().name;
  run.verdict.ratio = 1.5;
  run.verdict.findings = {{message("the first wins by 1.50 x"), {message("it has more of everything")}}};
  run.cases = std::move(cases);
  return run;
}

}  // namespace foretrain::report::testing
