#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/stage_layout.h"

namespace foretrain {
namespace {

std::vector<std::int64_t> chunks(std::int64_t layers, int pp, int vpp = 1, std::int64_t modules = 0) {
  Plan plan;
  plan.pp = pp;
  plan.vpp = vpp;
  Model model;
  model.layers = layers;
  model.mtp = modules;
  return layers_of_chunks(plan, model);
}

TEST_CASE("layers that divide are spread evenly") {
  CHECK(chunks(32, 4) == std::vector<std::int64_t>{8, 8, 8, 8});
  CHECK(chunks(8, 2, 2) == std::vector<std::int64_t>{2, 2, 2, 2});
}

TEST_CASE("the ends get fewer layers, the last chunk first") {
  CHECK(chunks(15, 4) == std::vector<std::int64_t>{4, 4, 4, 3});
  CHECK(chunks(14, 4) == std::vector<std::int64_t>{3, 4, 4, 3});
  CHECK(chunks(13, 4) == std::vector<std::int64_t>{3, 4, 3, 3});
  // Bloom: 70 layers over 12 stages, the embedding and the head counted as a layer each.
  const std::vector<std::int64_t> bloom = chunks(70, 12);
  CHECK(bloom.front() == 5);
  CHECK(bloom.back() == 5);
  CHECK(std::count(bloom.begin(), bloom.end(), 6) == 10);
}

TEST_CASE("a prediction module counts as a layer and a loss, and the loss beside it as one") {
  CHECK(chunks(61, 4, 1, 1) == std::vector<std::int64_t>{16, 16, 16, 13});
  const std::vector<std::int64_t> deepseek = chunks(61, 16, 1, 1);
  CHECK(std::count(deepseek.begin(), deepseek.end(), 4) == 15);
  CHECK(deepseek.back() == 1);
  // As far as there are layers to take away.
  for (std::int64_t layers = 1; layers <= 70; ++layers) {
    for (const int pp : {1, 2, 3, 7, 16}) {
      for (const std::int64_t modules : {1, 2, 3}) {
        if (layers < pp) continue;
        const std::vector<std::int64_t> cut = chunks(layers, pp, 1, modules);
        CHECK(std::accumulate(cut.begin(), cut.end(), std::int64_t{0}) == layers);
        CHECK(*std::min_element(cut.begin(), cut.end()) >= 0);
        CHECK(*std::max_element(cut.begin(), cut.end()) - cut.back() <= 1 + 2 * modules + 1);
      }
    }
  }
}

TEST_CASE("recomputed blocks are the first layers of every chunk, as evenly as they divide") {
  Model model;
  model.layers = 24;
  model.hidden = 64;
  model.heads = 4;
  model.ffn = 256;
  model.vocab = 128;
  Plan plan;
  plan.pp = 2;
  plan.vpp = 3;
  plan.schedule = PipelineSchedule::interleaved;
  for (std::int64_t blocks = 0; blocks <= 12; ++blocks) {
    CAPTURE(blocks);
    plan.recompute = {Recompute::Mode::blocks, blocks};
    for (const StageLayout& stage : stage_layouts(model, plan, Software{})) {
      std::int64_t in_all = 0, fewest = 4, most = 0;
      for (const Chunk& chunk : stage.chunks) {
        std::vector<bool> recomputed;
        for (const Block& block : chunk.blocks) {
          if (block.kind == Block::Kind::layer) recomputed.push_back(block.recomputed);
        }
        CHECK(std::is_sorted(recomputed.rbegin(), recomputed.rend()));
        const std::int64_t count = std::count(recomputed.begin(), recomputed.end(), true);
        in_all += count, fewest = std::min(fewest, count), most = std::max(most, count);
      }
      CHECK(in_all == blocks);
      CHECK(most - fewest <= 1);
    }
  }
}

TEST_CASE("chunks hold every layer, and differ by one at most") {
  for (std::int64_t layers = 1; layers <= 130; ++layers) {
    for (const int pp : {1, 2, 3, 4, 8, 12, 35}) {
      for (const int vpp : {1, 2, 3, 8}) {
        if (layers < pp * vpp) continue;
        const std::vector<std::int64_t> cut = chunks(layers, pp, vpp);
        REQUIRE(cut.size() == static_cast<std::size_t>(pp * vpp));
        CHECK(std::accumulate(cut.begin(), cut.end(), std::int64_t{0}) == layers);
        const auto [fewest, most] = std::minmax_element(cut.begin(), cut.end());
        CHECK(*fewest >= 1);
        CHECK(*most - *fewest <= 1);
        // Rises to the middle, then falls: no chunk in the middle has fewer than both ends.
        CHECK(std::is_sorted(cut.begin(), std::max_element(cut.begin(), cut.end())));
        CHECK(cut.back() <= cut.front());
      }
    }
  }
}

TEST_CASE("ranks and coordinates are each other's inverse in every order") {
  Plan plan;
  plan.tp = 3;
  plan.dp = 4;
  plan.pp = 5;
  RankOrder order = kUsualOrder;
  do {
    plan.order = order;
    std::set<std::tuple<int, int, int>> seen;
    for (int rank = 0; rank < plan.gpus(); ++rank) {
      const RankCoordinates c = coordinates(plan, rank);
      CHECK(c.tp < plan.tp);
      CHECK(c.dp < plan.dp);
      CHECK(c.pp < plan.pp);
      CHECK(rank_of(plan, c) == rank);
      seen.emplace(c.tp, c.dp, c.pp);
    }
    CHECK(seen.size() == static_cast<std::size_t>(plan.gpus()));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("the first name of the order varies fastest") {
  Plan plan;
  plan.tp = 2;
  plan.dp = 2;
  plan.pp = 2;
  CHECK(coordinates(plan, 1) == RankCoordinates{1, 0, 0});
  CHECK(coordinates(plan, 2) == RankCoordinates{0, 1, 0});
  CHECK(coordinates(plan, 4) == RankCoordinates{0, 0, 1});
  plan.order = {Dimension::pp, Dimension::dp, Dimension::tp, Dimension::cp, Dimension::ep};
  CHECK(coordinates(plan, 1) == RankCoordinates{0, 0, 1});
  CHECK(coordinates(plan, 4) == RankCoordinates{1, 0, 0});
}

TEST_CASE("experts deal the ranks of a stage anew, every place once") {
  Plan plan;
  plan.tp = 2, plan.cp = 2, plan.dp = 4, plan.pp = 2;
  plan.ep = 4, plan.etp = 2;
  CHECK(plan.expert_data_ranks() == 2);
  constexpr auto tp = Dimension::tp, cp = Dimension::cp, ep = Dimension::ep, dp = Dimension::dp, pp = Dimension::pp;
  for (const RankOrder& order : {kUsualOrder, RankOrder{tp, cp, ep, pp, dp}, RankOrder{dp, pp, ep, cp, tp}}) {
    plan.order = order;
    std::set<std::tuple<int, int, int, int>> places;
    for (int rank = 0; rank < plan.gpus(); ++rank) {
      const ExpertCoordinates e = expert_coordinates(plan, rank);
      CHECK(e.etp < 2);
      CHECK(e.ep < 4);
      CHECK(e.data < 2);
      CHECK(e.pp == coordinates(plan, rank).pp);
      CHECK(rank_of_experts(plan, e) == rank);
      places.insert({e.etp, e.ep, e.data, e.pp});
    }
    CHECK(places.size() == 32);
  }
  // Megatron-Core's order: an expert's halves are neighbours, then come other experts, then those that hold the same.
  plan.order = kUsualOrder;
  CHECK(expert_coordinates(plan, 1) == ExpertCoordinates{1, 0, 0, 0});
  CHECK(expert_coordinates(plan, 2) == ExpertCoordinates{0, 1, 0, 0});
  CHECK(expert_coordinates(plan, 8) == ExpertCoordinates{0, 0, 1, 0});
  CHECK(expert_coordinates(plan, 16) == ExpertCoordinates{0, 0, 0, 1});
  // Without experts of their own they lie where everything else does.
  plan.ep = 1;
  CHECK(plan.experts_as_rest());
  for (int rank = 0; rank < plan.gpus(); ++rank)
    CHECK(expert_coordinates(plan, rank).etp == coordinates(plan, rank).tp);
}

TEST_CASE("the batch is cut into micro-batches") {
  Plan plan;
  plan.dp = 4;
  plan.pp = 2;
  plan.micro_batch = 3;
  Train train;
  train.global_batch = 96;
  CHECK(micro_batches(plan, train) == 8);
  CHECK(default_global_batch(plan) == 24);
}

TEST_CASE("sharded state is spread over the group, or over all replicas") {
  Plan plan;
  plan.dp = 8;
  CHECK(plan.shard_ranks() == 1);
  plan.zero = 1;
  CHECK(plan.shard_ranks() == 8);
  plan.shard_group = 4;
  CHECK(plan.shard_ranks() == 4);
}

}  // namespace
}  // namespace foretrain
