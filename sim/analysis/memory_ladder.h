#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/analysis/case_report.h"
#include "sim/memory/serving.h"

namespace foretrain {

// What a ladder is made for: one model, from serving it to training all of it.
struct LadderQuestion {
  std::string model;          // as a scenario names it
  std::string software = {};  // empty: the one that the training rows together call for
  std::int64_t streams = 1, context = 4096;
  double cache_bytes = 2;
  std::int64_t seq_len = 2048, micro_batch = 1;
  std::string recompute = "full";
  std::int64_t rank = 16;  // of adapters
  int cards = 8;           // that ZeRO shards over
};

// One way to use the model, and the memory that one of its GPUs must have for it.
struct LadderRow {
  Message use, how;  // "train", "ZeRO-3 over 8"
  int gpus = 1;
  std::vector<std::pair<std::string, Bytes>> parts = {};  // at the fullest moment; they add up to `needed`
  Bytes needed = {}, host = {};
  std::vector<std::string> held_by = {};  // GPUs of the catalogue with as much, the smallest first
  Message why_not = {};                   // where the framework cannot, or the model; no figures then
};

struct Ladder {
  LadderQuestion question;  // with the software that was taken
  Model model = {};
  std::vector<LadderRow> rows = {};
};

// Serving by serving_memory; everything else is a case of a scenario, simulated. nullopt after reporting what is wrong
// with the question.
std::optional<Ladder> memory_ladder(const LadderQuestion& question, const Environment& environment,
                                    Diagnostics& diagnostics);

}  // namespace foretrain
