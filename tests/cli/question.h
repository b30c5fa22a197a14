#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.h"

// A small scenario of two cases, for commands that look into one.
namespace foretrain::testing {

inline const char* const kSmall = R"(title: a small run
base:
  model: {arch: llama, layers: 8, hidden: 2048, heads: 16, ffn: 5632, vocab: 32000}
  train: {seq_len: 1024, global_batch: 32, precision: bf16, attention: standard, tokens: 1e9}
  software: deepspeed
  cluster: {gpu: a100-sxm4-80gb, gpus: 4, gpus_per_node: 4, intra: nvswitch}
cases:
  - name: four
    plan: {zero: 2, micro_batch: 2}
  - name: staged
    plan: {pp: 2, micro_batch: 2}
)";

struct Question {
  Folder folder;
  std::string file = folder / "question.yaml";
  Question() { write_file(file, kSmall); }
};

inline double predicted_step(const Question& q, const std::string& name) {
  const Outcome o = run_program("run " + q.file + " --case " + name + " --json - --quiet");
  return nlohmann::json::parse(o.out)["cases"][0]["step_time_s"];
}

}  // namespace foretrain::testing
