#include <algorithm>
#include <numeric>
#include <set>

#include "sim/plan/rules.h"

// How the global batch is split between data-parallel ranks that do not have the same share of it.

namespace foretrain {
namespace {

using Counts = std::vector<std::int64_t>;
using Key = const char*;

std::set<std::string> gpus_of_rank(const Question& q, const Plan& plan, int data_rank) {
  std::set<std::string> names;
  for (int pp = 0; pp < plan.pp; ++pp) {
    for (int cp = 0; cp < plan.cp; ++cp) {
      for (int tp = 0; tp < plan.tp; ++tp) {
        names.insert(q.cluster.gpu_at(rank_of(plan, {tp, data_rank, pp, cp})).full_name());
      }
    }
  }
  return names;
}

std::vector<std::string> gpus_of_job(const Question& q) {
  std::vector<std::string> names;
  for (const Gpu* gpu : q.cluster.unlike_gpus()) names.push_back(gpu->full_name());
  return names;
}

// The numbers of a map by GPU, rank by rank; nullopt, and why, where one is missing or not clear.
std::optional<Counts> by_gpu(const Question& q, const Plan& plan, Key key, const PlanRequest::PerRank& said) {
  const std::vector<std::string> there = gpus_of_job(q);
  bool known = true;
  for (const auto& [name, number] : said.of_gpu) {
    if (std::find(there.begin(), there.end(), name) != there.end()) continue;
    q.error(key,
            message("plan.{} names {}, which is no GPU of this job; legal: {}", key, name, fmt::join(there, ", ")));
    known = false;
  }
  if (!known) return std::nullopt;
  Counts numbers;
  for (int data_rank = 0; data_rank < plan.dp; ++data_rank) {
    const std::set<std::string> gpus = gpus_of_rank(q, plan, data_rank);
    if (gpus.size() > 1) {
      q.error(key, message("plan.{}: data-parallel rank {} has GPUs of several kinds ({}); legal: a list with a number "
                           "for each of dp={} ranks",
                           key, data_rank, fmt::join(gpus, ", "), plan.dp));
      return std::nullopt;
    }
    const auto said_of = said.of_gpu.find(*gpus.begin());
    if (said_of == said.of_gpu.end()) {
      q.error(key, message("plan.{} says nothing of {}; legal: a number for each of {}", key, *gpus.begin(),
                           fmt::join(there, ", ")));
      return std::nullopt;
    }
    numbers.push_back(said_of->second);
  }
  return numbers;
}

std::optional<Counts> numbers_of(const Question& q, const Plan& plan, Key key, const PlanRequest::PerRank& said) {
  if (said.of_rank.empty()) return by_gpu(q, plan, key, said);
  const auto ranks = static_cast<std::size_t>(plan.dp);
  if (said.of_rank.size() == 1) return Counts(ranks, said.of_rank.front());
  if (said.of_rank.size() == ranks) return said.of_rank;
  q.error(key, message("plan.{} lists {} numbers; legal: one for each of dp={} data-parallel ranks", key,
                       said.of_rank.size(), plan.dp));
  return std::nullopt;
}

std::int64_t sum(const Counts& numbers) { return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}); }

Message nearest_multiples(std::int64_t batch, std::int64_t of) {
  const std::int64_t below = batch / of * of;
  return below == 0 ? message("{}", of) : message("{} or {}", below, below + of);
}

// Micro-batches of every rank where only their sizes are written: the same number.
std::optional<Counts> equal_counts(const Question& q, const Plan& plan, const Counts& sizes) {
  const std::int64_t batch = q.train.global_batch, at_once = sum(sizes);
  if (batch == 0) return Counts(sizes.size(), default_micro_batches(plan));
  if (batch % at_once == 0) return Counts(sizes.size(), batch / at_once);
  q.error("micro_batch", message("global_batch={} is no multiple of the {} sequences that a micro-batch of every rank "
                                 "has together; legal global_batch: {}",
                                 batch, at_once, nearest_multiples(batch, at_once)));
  return std::nullopt;
}

// The size of micro-batches where only their numbers are written.
std::optional<Counts> equal_sizes(const Question& q, const Counts& counts) {
  const std::int64_t batch = q.train.global_batch, all = sum(counts);
  if (q.request.micro_batch || batch == 0) return Counts(counts.size(), q.micro_batch);
  if (batch % all == 0) return Counts(counts.size(), batch / all);
  q.error("micro_batches", message("global_batch={} does not divide into the {} micro-batches of all ranks; legal "
                                   "global_batch: {}",
                                   batch, all, nearest_multiples(batch, all)));
  return std::nullopt;
}

// Ranks that exchange tokens with each other's experts do so in every micro-batch.
bool experts_join_ranks(const Question& q, const Plan& plan) {
  if (q.model.experts == 0 || plan.ep * plan.etp == 1) return false;
  std::vector<int> data_rank_of(static_cast<std::size_t>(plan.expert_data_ranks()), -1);
  for (int rank = 0; rank < plan.gpus(); ++rank) {
    const RankCoordinates c = coordinates(plan, rank);
    if (c.pp > 0) continue;
    int& known = data_rank_of[static_cast<std::size_t>(expert_coordinates(plan, rank).data)];
    if (known >= 0 && known != c.dp) return true;
    known = c.dp;
  }
  return false;
}

void refuse_too_few(const Question& q, const Plan& plan, std::int64_t micro_batches) {
  const bool even = plan.schedule == PipelineSchedule::dualpipe;
  q.error("micro_batches",
          even
              ? message("schedule {} needs an even number of micro-batches on every data-parallel rank, 2 x pp={} or "
                        "more, and one has {}",
                        to_string(plan.schedule), 2 * plan.pp, micro_batches)
              : message("schedule {} needs 2 x pp={} micro-batches or more on every data-parallel rank, and one has {}",
                        to_string(plan.schedule), 2 * plan.pp, micro_batches));
}

// Whether every rank can run its share.
void check_shares(const Question& q, const Software& software, const Plan& plan) {
  const std::int64_t batch = q.train.global_batch, dealt = default_global_batch(plan);
  if (batch > 0 && dealt != batch) {
    q.error("micro_batches",
            message("micro_batches x micro_batch are {} sequences a step over all data-parallel ranks, "
                    "and global_batch={}; legal: numbers that add up to it",
                    dealt, batch));
  }
  const auto share_less = [](const Plan::Share& a, const Plan::Share& b) { return a.micro_batches < b.micro_batches; };
  const auto [fewest, most] = std::minmax_element(plan.shares.begin(), plan.shares.end(), share_less);
  if (fewest->micro_batches != most->micro_batches && meets_every_micro_batch(plan, software)) {
    q.error("micro_batches",
            message("with zero={} all ranks communicate in every micro-batch, so that all need the same number of them "
                    "(here {} to {}); legal: a micro_batch for each rank instead",
                    plan.zero, fewest->micro_batches, most->micro_batches));
  }
  if (q.train.optimizer_in_backward && most->micro_batches > 1) {
    q.error("micro_batches", message("train.optimizer_in_backward updates weights after every micro-batch, and a rank "
                                     "has {} of them; legal: one on every rank",
                                     most->micro_batches));
  }
  if (most->micro_batches > kMostLayerPasses / q.model.layers) {
    q.error("micro_batches", message("a rank has {} micro-batches a step; at most {} of {} layers are simulated; use a "
                                     "larger micro_batch, or a smaller global_batch",
                                     most->micro_batches, kMostLayerPasses / q.model.layers, q.model.layers));
  }
  for (const Plan::Share& share : plan.shares) {
    if (feeds_schedule(plan, share.micro_batches)) continue;
    return refuse_too_few(q, plan, share.micro_batches);
  }
}

}  // namespace

void resolve_shares(const Question& q, const Software& software, Plan& plan) {
  const PlanRequest& request = q.request;
  if (!request.splits_unevenly()) return;
  if (experts_join_ranks(q, plan)) {
    return q.error(request.micro_batches_auto || request.micro_batches_of_rank ? "micro_batches" : "micro_batch",
                   message("data-parallel ranks exchange tokens for experts in every micro-batch, so that all need the "
                           "same share of the batch; legal: an even split, or ep=1"));
  }
  if (request.micro_batches_auto) {
    if (q.train.optimizer_in_backward) {
      return q.error("micro_batches",
                     message("micro_batches auto does not go with train.optimizer_in_backward; legal: a "
                             "micro_batch for each rank"));
    }
    plan.to_balance.batch = plan.dp > 1;
    if (plan.dp == 1 || q.train.global_batch == 0 || request.micro_batch_auto) return;
    const std::int64_t batch = q.train.global_batch, one_each = plan.dp * plan.micro_batch;
    const std::int64_t whole = meets_every_micro_batch(plan, software) ? one_each : plan.micro_batch;
    if (request.micro_batch_of_rank) {
      q.error("micro_batches",
              message("micro_batches auto deals out micro-batches of one size; legal: one micro_batch, "
                      "or numbers in micro_batches"));
    } else if (batch % whole != 0 || batch < one_each) {
      q.error("micro_batch",
              message("global_batch={} cannot be dealt out to dp={} ranks in micro-batches of {}; legal "
                      "global_batch: {}",
                      batch, plan.dp, plan.micro_batch, nearest_multiples(std::max(batch, one_each), whole)));
    } else if (!feeds_schedule(plan, batch / one_each)) {
      refuse_too_few(q, plan, batch / one_each);
    }
    return;
  }
  std::optional<Counts> sizes, counts;
  if (request.micro_batch_of_rank) {
    sizes = numbers_of(q, plan, "micro_batch", *request.micro_batch_of_rank);
    if (!sizes) return;
  }
  if (request.micro_batches_of_rank) {
    counts = numbers_of(q, plan, "micro_batches", *request.micro_batches_of_rank);
    if (!counts) return;
  }
  if (!counts) counts = equal_counts(q, plan, *sizes);
  if (counts && !sizes) sizes = equal_sizes(q, *counts);
  if (!counts || !sizes) return;
  for (std::size_t i = 0; i < sizes->size(); ++i) plan.shares.push_back({(*sizes)[i], (*counts)[i]});
  check_shares(q, software, plan);
  plan = with_shares(plan, plan.shares);
}

}  // namespace foretrain
