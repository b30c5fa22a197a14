// Models as scenarios write them: names, files, inline maps, and what is refused.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "sim/model/model.h"
#include "tests/model/support.h"
#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;

struct Outcome {
  std::optional<Model> model;
  Diagnostics diagnostics;
};

Outcome read(const std::string& yaml, const std::string& file = "scenario.yaml") {
  Outcome outcome;
  const std::optional<config::Node> node = config::parse_yaml(yaml, file, outcome.diagnostics);
  if (node) outcome.model = read_model(*node, kModels, outcome.diagnostics);
  return outcome;
}

// The only error of a wrong model, with its position.
std::string error_of(const std::string& yaml) {
  const Outcome outcome = read(yaml);
  CHECK_FALSE(outcome.model.has_value());
  const std::string text = testing::shown(outcome.diagnostics);
  CHECK_MESSAGE(outcome.diagnostics.error_count() == 1, text);
  return text;
}

std::vector<std::string> refusals(const std::string& yaml) {
  const Outcome outcome = read(yaml);
  CHECK_FALSE(outcome.model.has_value());
  std::vector<std::string> features;
  for (const Diagnostic& d : outcome.diagnostics.all()) {
    CHECK_MESSAGE(d.severity == Severity::unsupported, to_string(d));
    features.push_back(d.message.english());
  }
  return features;
}

TEST_CASE("an inline model fills in the defaults of its family") {
  const Outcome gpt = read("{arch: gpt, layers: 12, hidden: 768, heads: 12, vocab: 50257}");
  REQUIRE(gpt.model);
  CHECK(gpt.diagnostics.all().empty());
  CHECK(gpt.model->name == "inline");
  CHECK(gpt.model->family == Model::Family::gpt);
  CHECK(gpt.model->ffn == 3072);
  CHECK(gpt.model->kv_heads == 12);
  CHECK(gpt.model->head_dim == 64);
  CHECK_FALSE(gpt.model->gated);
  CHECK(gpt.model->tied_embeddings);
  CHECK(gpt.model->max_positions == 0);

  const Outcome llama = read("{arch: llama, layers: 32, hidden: 4096, heads: 32, ffn: 11008, vocab: 32000}");
  REQUIRE(llama.model);
  CHECK(llama.model->gated);
  CHECK_FALSE(llama.model->tied_embeddings);
  CHECK(llama.model->parameters() == 6'738'415'616);
}

TEST_CASE("learned positions count only where they are given") {
  const std::string shape = "{arch: gpt, layers: 12, hidden: 768, heads: 12, vocab: 50257";
  const Outcome without = read(shape + "}"), with = read(shape + ", max_positions: 1024}");
  REQUIRE(without.model);
  REQUIRE(with.model);
  CHECK(with.model->parameters() - without.model->parameters() == 1024 * 768);
}

TEST_CASE("heads may be wider than hidden / heads") {
  const Outcome outcome = read("{arch: llama, layers: 2, hidden: 100, heads: 3, head_dim: 128, ffn: 256, vocab: 10}");
  REQUIRE(outcome.model);
  CHECK(outcome.model->query_width() == 384);
}

TEST_CASE("a published count that does not fit is a warning that says both") {
  const std::string shape = "{arch: llama, layers: 32, hidden: 4096, heads: 32, ffn: 11008, vocab: 32000, params_b: ";
  CHECK(read(shape + "6.7}").diagnostics.all().empty());
  CHECK(read(shape + "7}").diagnostics.all().empty());  // 3.7 % off
  const Outcome wrong = read(shape + "13}");
  REQUIRE(wrong.model);
  REQUIRE(wrong.diagnostics.all().size() == 1);
  CHECK(wrong.diagnostics.all()[0].severity == Severity::warning);
  CHECK(contains(wrong.diagnostics.all()[0].message.english(), "13"));
  CHECK(contains(wrong.diagnostics.all()[0].message.english(), "6.738"));
}

TEST_CASE("wrong inline models say what would be right") {
  CHECK(contains(error_of("{layers: 2, hidden: 64, heads: 4, ffn: 256, vocab: 100}"), "arch is missing"));
  CHECK(contains(error_of("{arch: lama, layers: 2, hidden: 64, heads: 4, ffn: 256, vocab: 100}"), "llama"));
  CHECK(contains(error_of("{arch: llama, layers: 2, hidden: 64, heads: 4, vocab: 100}"), "ffn is missing"));
  CHECK(contains(error_of("{arch: gpt, hidden: 64, heads: 4, vocab: 100}"), "layers is missing"));
  CHECK(contains(error_of("{arch: gpt, layers: 0, hidden: 64, heads: 4, vocab: 100}"), "layers=0 is out of range"));
  CHECK(contains(error_of("{arch: gpt, layers: 2, hidden: 64, heads: 5, vocab: 100}"),
                 "scenario.yaml:1:43: error: heads=5 does not divide hidden=64"));
  CHECK(contains(error_of("{arch: gpt, layers: 2, hidden: 64, heads: 4, kv_heads: 3, vocab: 100}"), "kv_heads=3"));
  CHECK(contains(error_of("{arch: gpt, layers: 2, hidden: 64, heads: 4, kv_heads: 8, vocab: 100}"), "kv_heads=8"));
  CHECK(contains(error_of("{arch: gpt, layers: 2, hidden: 64, heads: 4, vocab: 100, hiden: 3}"), "unknown key"));
  CHECK(contains(error_of("{arch: gpt, layers: 2, hidden: 64, heads: 4, vocab: 100, top_k: 2}"), "experts"));
  CHECK(contains(error_of("[1, 2]"), "model must be"));
  CHECK(contains(error_of("\"\""), "model must be"));
}

TEST_CASE("all mistakes of a model are reported at once") {
  const Outcome outcome = read("{arch: gpt, layers: -1, hidden: x, heads: 4, vocab: 1e30}");
  CHECK_FALSE(outcome.model.has_value());
  CHECK(outcome.diagnostics.error_count() >= 3);
}

TEST_CASE("the largest dimensions neither overflow nor pass") {
  const std::string largest =
      "{arch: llama, layers: 10000, hidden: 1000000, heads: 100000, head_dim: 16384, "
      "ffn: 10000000, vocab: 100000000, max_positions: 100000000}";
  CHECK(contains(error_of(largest), "parameters; the most"));
}

TEST_CASE("features that are not simulated are named, all of them and nothing else") {
  using Features = std::vector<std::string>;
  CHECK(refusals("{arch: bert, layers: 2, hidden: 64, heads: 4, vocab: 9}") == Features{"model.arch=bert"});
}

TEST_CASE("experts, latent attention and windows are read") {
  const Outcome outcome = read(
      "{arch: moe, layers: 6, hidden: 64, heads: 4, ffn: 256, vocab: 100, experts: 8, top_k: 2, expert_ffn: 32, "
      "shared_expert_ffn: 16, first_dense_layers: 1, moe_every: 2, mtp: 1, window: 128, window_every: 3, "
      "mla: {q_lora: 24, kv_lora: 16, qk_nope: 8, qk_rope: 4, v: 6}}");
  REQUIRE(outcome.model);
  CHECK(outcome.diagnostics.all().empty());
  const Model& m = *outcome.model;
  CHECK(m.head_dim == 12);
  CHECK(m.value_width() == 24);
  CHECK(m.kv_heads == 4);
  std::string kinds;
  for (int layer = 0; layer < 6; ++layer) {
    const LayerKind kind = m.layer_kind(layer);
    kinds += kind.experts ? (kind.windowed ? 'E' : 'e') : (kind.windowed ? 'D' : 'd');
  }
  CHECK(kinds == "DedEde");
  CHECK(m.predictor_kind().experts);
  CHECK(m.expert_groups == 1);
  CHECK(m.top_k_groups == 1);
}

TEST_CASE("a token visits all groups of experts unless the model says how many") {
  const std::string shape =
      "{arch: moe, layers: 2, hidden: 64, heads: 4, ffn: 64, vocab: 100, experts: 8, top_k: 2, expert_ffn: 32, "
      "expert_groups: 4";
  CHECK(read(shape + "}").model->top_k_groups == 4);
  CHECK(read(shape + ", top_k_groups: 2}").model->top_k_groups == 2);
}

TEST_CASE("wrong experts, latent attention and windows say what would be right") {
  const std::string shape = "{arch: moe, layers: 2, hidden: 64, heads: 4, vocab: 100, ";
  CHECK(contains(error_of(shape + "ffn: 64}"), "arch moe needs 'experts'"));
  CHECK(contains(error_of(shape + "experts: 8, top_k: 9, expert_ffn: 64}"), "top_k"));
  CHECK(contains(error_of(shape + "experts: 8, expert_ffn: 64}"), "top_k is missing"));
  const std::string groups = shape + "experts: 8, top_k: 4, expert_ffn: 64, ffn: 64, ";
  CHECK(contains(error_of(groups + "expert_groups: 3}"), "expert_groups=3 does not divide experts=8"));
  CHECK(contains(error_of(groups + "expert_groups: 4, top_k_groups: 5}"), "more than the expert_groups=4"));
  CHECK(contains(error_of(groups + "expert_groups: 4, top_k_groups: 1}"), "more than the 2 of top_k_groups=1"));
  CHECK(contains(error_of("{arch: llama, layers: 2, hidden: 64, heads: 4, ffn: 64, vocab: 9, expert_groups: 2}"),
                 "no 'experts'"));
  CHECK(contains(error_of(shape + "experts: 8, top_k: 2}"), "expert_ffn is missing"));
  CHECK(contains(error_of(shape + "experts: 8, top_k: 2, expert_ffn: 64, ffn: 64, moe_every: 3}"),
                 "none of the 2 layers"));
  CHECK(contains(error_of(shape + "experts: 8, top_k: 2, expert_ffn: 64, first_dense_layers: 1}"), "ffn is missing"));
  CHECK(contains(error_of(shape + "experts: 8, top_k: 2, expert_ffn: 64, mla: {kv_lora: 8, qk_rope: 4, v: 8}}"),
                 "qk_nope"));
  CHECK(contains(error_of("{arch: llama, layers: 2, hidden: 64, heads: 4, ffn: 64, vocab: 9, window_every: 2}"),
                 "no 'window'"));
}

TEST_CASE("a feature switched off is no feature") {
  const Outcome outcome =
      read("{arch: gpt, layers: 2, hidden: 64, heads: 4, vocab: 100, experts: 0, mla: false, mtp: 0, window: null}");
  CHECK(outcome.model.has_value());
  CHECK(outcome.diagnostics.all().empty());
}

TEST_CASE("a bare size is an assumption that is said") {
  const Outcome outcome = read("7B");
  REQUIRE(outcome.model);
  CHECK(outcome.model->name == "llama-2-7b");
  REQUIRE(outcome.diagnostics.all().size() == 1);
  CHECK(outcome.diagnostics.all()[0].severity == Severity::note);
  CHECK(outcome.diagnostics.all()[0].message.english() ==
        "'7B' is taken as llama-2-7b; name the model to choose another");
  CHECK(read("13b").model->name == "llama-2-13b");
  CHECK(read("70b").model->name == "llama-2-70b");
  CHECK(read("175b").model->name == "gpt-3-175b");
}

TEST_CASE("a name or alias is not an assumption") {
  for (const char* name : {"llama-2-7b", "Llama2_7B", "meta-llama/Llama-2-7b-hf", "llama 2 7b"}) {
    const Outcome outcome = read(name);
    REQUIRE_MESSAGE(outcome.model, name);
    CHECK(outcome.model->name == "llama-2-7b");
    CHECK(outcome.diagnostics.all().empty());
  }
}

TEST_CASE("an unknown name suggests the nearest, and never stands for another model") {
  CHECK(contains(error_of("lama-2-7b"), "did you mean 'llama-2-7b'"));
  CHECK(contains(error_of("9b"), "unknown model"));
  CHECK(contains(error_of("../models/llama-2-7b"), "unknown model"));
}

TEST_CASE("a path names a model file beside the scenario") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "foretrain-model-test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "mine.yaml") << "arch: gpt\nlayers: 2\nhidden: 64\nheads: 4\nvocab: 100\nsource: me\n";
  const Outcome outcome = read("mine.yaml", (folder / "scenario.yaml").string());
  REQUIRE(outcome.model);
  CHECK(outcome.model->name == "mine");
  CHECK(outcome.model->layers == 2);
  CHECK_FALSE(read("absent.yaml", (folder / "scenario.yaml").string()).model.has_value());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace foretrain
