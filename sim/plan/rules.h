#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/plan/plan.h"

// The rules of resolve_plan, one file a subject. Each reports what breaks it and what would be legal, and where a plan
// is handed to it fills in what it decides.
namespace foretrain {

// Everything the rules look at. The wide integers cannot overflow where the plan's own ints could.
struct Question {
  const PlanRequest& request;
  const Model& model;
  const Train& train;
  const ClusterDescription& cluster;
  Diagnostics& diagnostics;
  std::int64_t tp = 1, pp = 1, vpp = 1, dp = 1, cp = 1, micro_batch = 1;

  std::int64_t data_ranks() const { return dp * cp; }

  void error(std::string_view key, Message message) const {
    diagnostics.error(request.position_of(key), std::move(message));
  }
  void warning(std::string_view key, Message message) const {
    diagnostics.warning(request.position_of(key), std::move(message));
  }
  void note(std::string_view key, Message message) const {
    diagnostics.note(request.position_of(key), std::move(message));
  }
};

// Ascending.
std::vector<std::int64_t> divisors(std::int64_t n);
std::vector<std::int64_t> only(std::vector<std::int64_t> values, const std::function<bool(std::int64_t)>& legal);
// "1, 2, 4": the values a rule allows, cut where nobody reads on.
std::string listed(const std::vector<std::int64_t>& values);

// parallel_rules.cpp: how the model, the sequences and the state are split over the GPUs.
void check_tensor_parallel(const Question& q);
void resolve_sequence_parallel(const Question& q, Plan& plan);
void resolve_context_parallel(const Question& q, Plan& plan);
// tp * cp * pp * dp = GPUs. Gives dp its value where it was not written; false if there is none.
bool divide_gpus(Question& q);
void resolve_sharding(const Question& q, const Software& software, Plan& plan);
void resolve_zeropp(const Question& q, const Software& software, Plan& plan);
void warn_about_placement(const Question& q, const Plan& plan);

// pipeline_rules.cpp
// Chunks a stage has if the scenario is silent.
std::int64_t natural_chunks(const PlanRequest& request);
PipelineSchedule choose_schedule(const Question& q);
void check_pipeline(const Question& q);
// The global batch is cut into micro-batches: the same number on every data-parallel rank.
void check_batch(const Question& q, const Plan& plan);

// share_rules.cpp: data-parallel ranks with unlike shares of the batch. Needs to know where the ranks lie.
void resolve_shares(const Question& q, const Software& software, Plan& plan);

// expert_rules.cpp
void resolve_experts(const Question& q, const Software& software, Plan& plan);

// training_rules.cpp: what is computed, and whether it goes with the rest.
void check_fp8_recipe(const Question& q, const Plan& plan);
void check_precision(const Question& q, const Gpu& gpu);
void check_attention(const Question& q, const Gpu& gpu);
void resolve_recompute(const Question& q, Plan& plan);
void check_peft(const Question& q, const Software& software, const Plan& plan);
void check_optimizer(const Question& q, const Plan& plan);

}  // namespace foretrain
