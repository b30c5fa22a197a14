// Parameter counts, and every model of the catalogue against its published count.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "sim/model/operators.h"
#include "tests/model/support.h"

namespace foretrain {
namespace {

std::optional<Model> read_catalogue(const std::string& yaml, Diagnostics& diagnostics) {
  const std::optional<config::Node> node = config::parse_yaml(yaml, "scenario.yaml", diagnostics);
  if (!node) return std::nullopt;
  return read_model(*node, kModels, diagnostics);
}

Model named(const std::string& name) {
  Diagnostics diagnostics;
  const std::optional<Model> model = read_catalogue("\"" + name + "\"", diagnostics);
  for (const Diagnostic& d : diagnostics.all()) {
    if (d.severity != Severity::note) FAIL_CHECK(to_string(d));
  }
  REQUIRE_MESSAGE(model.has_value(), name);
  return *model;
}

TEST_CASE("counts equal those of released weights to the last parameter") {
  struct Released {
    const char* name;
    std::int64_t parameters;
  };
  // Sizes of the published checkpoints; every kind of layer is among them.
  const Released released[] = {
      {"gpt2", 124'439'808},
      {"gpt2-xl", 1'557'611'200},
      {"bloom-176b", 176'247'271'424},
      {"pythia-12b", 11'846'072'320},
      {"gpt-neox-20b", 20'554'567'680},
      {"falcon-7b", 6'921'720'704},
      {"falcon-180b", 179'522'565'120},
      {"llama-1-65b", 65'285'660'672},
      {"llama-2-7b", 6'738'415'616},
      {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},
      {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496},
      {"llama-3.1-405b", 405'853'388'800},
      {"llama-3.2-1b", 1'235'814'400},
      {"mistral-7b-v0.3", 7'248'023'552},
      {"gemma-7b", 8'537'680'896},
      {"qwen-7b", 7'721'324'544},
      {"qwen-2.5-0.5b", 494'032'768},
      {"qwen-2.5-7b", 7'615'616'512},
      {"qwen-2.5-72b", 72'706'203'648},
      {"mpt-7b", 6'649'286'656},
  };
  for (const Released& r : released) CHECK_MESSAGE(named(r.name).parameters() == r.parameters, r.name);
}

// Published totals and active parameters, in 1e9 as they are printed.
TEST_CASE("mixtures of experts count as published") {
  struct Published {
    const char* name;
    double total, active, rounding;
  };
  // Active parameters count the embedding where the source does: DeepSeek, Qwen and Mixtral do, gpt-oss does not.
  const Published all[] = {
      {"mixtral-8x7b", 46.7, 12.9, 0.05},    {"mixtral-8x22b", 141, 39, 0.5},
      {"deepseek-v2", 236, 21, 0.5},         {"deepseek-v3", 671, 37.5, 0.5},
      {"deepseek-moe-16b", 16.4, 2.8, 0.05}, {"qwen-1.5-moe-a2.7b", 14.3, 2.7, 0.05},
      {"qwen-3-30b-a3b", 30.5, 3.3, 0.06},   {"qwen-3-235b-a22b", 235, 22, 0.5},
      {"llama-4-maverick", 400, 17, 1},      {"llama-4-scout", 108, 17, 0.5},
      {"moonlight-16b-a3b", 16, 3, 0.2},     {"kimi-k2", 1026, 32.5, 0.5},
      {"deepseek-v2-lite", 15.7, 2.7, 0.06},
  };
  for (const Published& p : all) {
    CAPTURE(p.name);
    const Model m = named(p.name);
    CHECK(std::abs(static_cast<double>(m.parameters()) / 1e9 - p.total) <= p.rounding);
    CHECK(std::abs(static_cast<double>(m.active_parameters()) / 1e9 - p.active) <= p.rounding);
  }
  CHECK(named("mixtral-8x7b").parameters() == 46'702'792'704);
  const Model oss = named("gpt-oss-120b");
  CHECK(static_cast<double>(oss.parameters()) / 1e9 == doctest::Approx(116.8).epsilon(0.001));
  CHECK(static_cast<double>(oss.active_parameters() - oss.embedding_parameters()) / 1e9 ==
        doctest::Approx(5.1).epsilon(0.01));
  // A prediction module of DeepSeek-V3 has 14B beside the embedding and head it shares.
  Model predicting = named("deepseek-v3");
  predicting.mtp = 1;
  CHECK(static_cast<double>(predicting.predictor_parameters()) / 1e9 == doctest::Approx(11.6).epsilon(0.01));
  CHECK(predicting.parameters() - named("deepseek-v3").parameters() == predicting.predictor_parameters());
}

TEST_CASE("a token costs twice its active matrices, and windows only what they leave") {
  Model m = named("qwen-3-30b-a3b");
  const double tokens = 4096;
  // All parameters that a token meets but the embedding (looked up) and norms (not products).
  const ForwardFlops flops = forward_flops(m, tokens, 4096);
  const double matrices = static_cast<double>(m.active_parameters() - m.embedding_parameters());
  CHECK((flops.layers + flops.head).value / (2 * tokens * matrices) == doctest::Approx(1.0).epsilon(0.001));
  CHECK(flops.attention_core.value == doctest::Approx(4.0 * 4096 * 4096 * 48 * tokens));
  m.window = 128;
  m.window_every = 2;
  // Half of the layers keep all; the others 128 keys a token, twice over, less the first tokens that see fewer.
  double pairs = 0;
  for (int token = 1; token <= 4096; ++token) pairs += std::min(token, 128);
  const double left = forward_flops(m, tokens, 4096).attention_core / flops.attention_core;
  CHECK(left == doctest::Approx(0.5 + 0.5 * 2 * pairs / (4096.0 * 4096.0)).epsilon(0.0005));
  m.window = 4096;
  CHECK(forward_flops(m, tokens, 4096).attention_core == flops.attention_core);
}

TEST_CASE("the parts of a count add up") {
  for (const char* name : {"gpt2", "llama-2-7b", "bloom-7b1"}) {
    const Model m = named(name);
    const std::int64_t head = m.tied_embeddings ? 0 : m.head_parameters();
    CHECK(m.parameters() ==
          m.layers * m.layer_parameters() + m.embedding_parameters() + m.final_norm_parameters() + head);
    CHECK(m.layer_parameters() > m.attention_matrix_parameters() + m.mlp_matrix_parameters());
  }
}

TEST_CASE("a gpt layer has 12 h^2 + 13 h parameters, a llama layer of the same shape 4 h^2 + 3 h f + 2 h") {
  Model m{.name = "m", .layers = 2, .hidden = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 256, .vocab = 100};
  m.gated = false;
  m.linear_biases = m.norm_biases = true;
  CHECK(m.layer_parameters() == 12 * 64 * 64 + 13 * 64);
  m.gated = true;
  m.linear_biases = m.norm_biases = false;
  CHECK(m.layer_parameters() == 4 * 64 * 64 + 3 * 64 * 256 + 2 * 64);
  const std::int64_t multi_head = m.layer_parameters();
  m.kv_heads = 1;  // three heads of K and V fewer
  CHECK(multi_head - m.layer_parameters() == 2 * 3 * 16 * 64);
}

TEST_CASE("every model of the catalogue loads, agrees with its published count and is named like its file") {
  const config::Catalogue catalogue(kModels, "model");
  CHECK(catalogue.names().size() > 70);
  std::set<std::string> every_name(catalogue.names().begin(), catalogue.names().end());
  for (const std::string& name : catalogue.names()) {
    CAPTURE(name);
    const Model model = named(name);
    CHECK(model.name == name);
    Diagnostics diagnostics;
    const auto found = catalogue.find(name, {}, diagnostics);
    REQUIRE(found);
    config::MapReader file(*found->node, diagnostics, "model");
    CHECK(file.required_text("name") == name);
    CHECK(file.required_text("source").size() > 10);
    CHECK(file.required_text("checked").size() > 5);
    const double published = file.required_number("params_b") * 1e9;
    const double counted = static_cast<double>(model.parameters());
    if (file.required_text("checked").starts_with("the parameter count equals")) {
      CHECK(std::abs(counted - published) < 0.5);
    } else {  // published with two digits, so 3 %
      CHECK(std::abs(counted / published - 1.0) < 0.03);
    }
    for (const std::string& alias : file.text_list("aliases").value_or(std::vector<std::string>{})) {
      CHECK_MESSAGE(every_name.insert(alias).second, alias << " is used twice");
      CHECK(config::Catalogue::normalised(alias) == alias);
      CHECK(named(alias).name == name);
    }
    CHECK(diagnostics.all().empty());
  }
}

}  // namespace
}  // namespace foretrain
