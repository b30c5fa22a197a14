#include "sim/memory/serving.h"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

Model catalogue_model(const char* name) {
  Diagnostics diagnostics;
  const config::Node node{{}, std::string(name)};
  const auto model = read_model(node, std::string(FORETRAIN_SOURCE_DIR) + "/configs/models", diagnostics);
  REQUIRE(model);
  return *model;
}

double cache_per_token(const char* name) { return 2 * cache_elements(catalogue_model(name), 1); }

}  // namespace

TEST_CASE("the cache holds keys and values of the key-value heads") {
  CHECK(cache_per_token("llama-2-7b") == 32 * 2 * 4096 * 2);
  CHECK(cache_per_token("llama-3-8b") == 32 * 2 * 1024 * 2);  // 8 of 32 heads
  CHECK(cache_per_token("deepseek-v3") == 61 * (512 + 64) * 2);
}

TEST_CASE("windowed layers cache no more than the window") {
  Model m = catalogue_model("llama-2-7b");
  const double whole = cache_elements(m, 8192);
  m.window = 1024;
  CHECK(cache_elements(m, 8192) == whole / 8);
  CHECK(cache_elements(m, 512) == whole / 16);
  m.window_every = 2;  // every second layer sees all
  CHECK(cache_elements(m, 8192) == whole / 2 + whole / 16);
}

TEST_CASE("weights take two bytes, or what their format takes inside layers") {
  const Model m = catalogue_model("llama-2-7b");
  const double all = static_cast<double>(m.parameters());
  CHECK(serving_memory(m, {}).weights.value == 2 * all);
  const double matrices = 32.0 * (4 * 4096 * 4096 + 3 * 4096 * 11008);
  CHECK(serving_memory(m, {.format = weight_format("gptq")}).weights.value ==
        doctest::Approx(2 * (all - matrices) + (0.5 + 2.5 / 128) * matrices));
  CHECK(serving_memory(m, {.format = weight_format("int8")}).weights < serving_memory(m, {}).weights * 0.6);
}

TEST_CASE("streams, context and the cache's type multiply") {
  const Model m = catalogue_model("llama-3-8b");
  const double one = serving_memory(m, {.streams = 1, .context = 1024}).cache.value;
  CHECK(serving_memory(m, {.streams = 32, .context = 1024}).cache.value == 32 * one);
  CHECK(serving_memory(m, {.streams = 1, .context = 8192}).cache.value == 8 * one);
  CHECK(serving_memory(m, {.streams = 1, .context = 1024, .cache_bytes = 1}).cache.value == one / 2);
}

TEST_CASE("prediction modules are not served") {
  Model m = catalogue_model("deepseek-v3");
  m.mtp = 1;
  const Bytes with = serving_memory(m, {}).weights;
  m.mtp = 0;
  CHECK(serving_memory(m, {}).weights.value == with.value);
}
