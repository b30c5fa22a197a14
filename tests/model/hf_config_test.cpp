#include "sim/interchange/hf_config.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sim/model/model.h"
#include "sim/model/write_model.h"
#include "tests/model/support.h"
#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;

struct Imported {
  std::optional<Model> model;
  std::string said;
};

Imported import_model(const config::Node& node) {
  Diagnostics diagnostics;
  Imported outcome;
  outcome.model = read_model(node, kModels, diagnostics);
  outcome.said = testing::shown(diagnostics);
  return outcome;
}

Imported read_config(const std::string& json, const std::string& more = "") {
  std::string pattern = (std::filesystem::temp_directory_path() / "foretrain-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  std::ofstream(pattern + "/config.json") << json;
  Diagnostics diagnostics;
  const auto node = config::parse_yaml("{hf: " + pattern + more + "}", "t.yaml", diagnostics);
  REQUIRE(node);
  Imported outcome = import_model(*node);
  std::filesystem::remove_all(pattern);
  return outcome;
}

Model catalogue(const std::string& name) {
  const Imported outcome = import_model(config::Node{{}, name, false});
  REQUIRE(outcome.model);
  return *outcome.model;
}

// Every dimension, as the map that describes the model; its name aside.
std::string shape_of(Model model) {
  model.name = "x";
  const config::Node map = write_model(model);
  std::string text;
  for (const auto& entry : map.map()) {
    text += entry.key + "=" + (entry.value.is_scalar() ? entry.value.scalar() : "...") + " ";
  }
  if (model.mla) text += std::to_string(model.mla->q_lora) + " " + std::to_string(model.mla->kv_lora);
  return text;
}

// The published configurations, without the keys that shape nothing.
TEST_CASE("configurations of Hugging Face describe the models of the catalogue") {
  struct Published {
    const char *name, *json;
  };
  for (const Published& p : {
           Published{"llama-2-7b",
                     R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
             "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "num_hidden_layers": 32,
             "num_key_value_heads": 32, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
             "torch_dtype": "float16", "vocab_size": 32000})"},
           Published{"llama-3.2-1b",
                     R"({"model_type": "llama", "attention_bias": false, "head_dim": 64, "hidden_size": 2048,
             "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
             "tie_word_embeddings": true, "vocab_size": 128256})"},
           Published{"mistral-7b", R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
             "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": null,
             "tie_word_embeddings": false, "vocab_size": 32000})"},
           Published{"qwen-2.5-7b", R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
             "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 131072,
             "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 152064})"},
           Published{"qwen-3-30b-a3b", R"({"model_type": "qwen3_moe", "attention_bias": false, "decoder_sparse_step": 1,
             "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "mlp_only_layers": [],
             "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
             "num_hidden_layers": 48, "num_key_value_heads": 4, "tie_word_embeddings": false, "vocab_size": 151936})"},
           Published{"qwen-1.5-moe-a2.7b", R"({"model_type": "qwen2_moe", "decoder_sparse_step": 1, "hidden_size": 2048,
             "intermediate_size": 5632, "moe_intermediate_size": 1408, "num_attention_heads": 16, "num_experts": 60,
             "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 16,
             "shared_expert_intermediate_size": 5632, "tie_word_embeddings": false, "vocab_size": 151936})"},
           Published{"mixtral-8x7b", R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
             "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
             "num_local_experts": 8, "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000})"},
           Published{"deepseek-v2-lite",
                     R"({"model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 2048,
             "intermediate_size": 10944, "kv_lora_rank": 512, "moe_intermediate_size": 1408, "moe_layer_freq": 1,
             "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6,
             "num_hidden_layers": 27, "num_key_value_heads": 16, "q_lora_rank": null, "qk_nope_head_dim": 128,
             "qk_rope_head_dim": 64, "tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 128,
             "vocab_size": 102400})"},
           Published{"deepseek-v3", R"({"model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168,
             "intermediate_size": 18432, "kv_lora_rank": 512, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
             "n_group": 8, "topk_group": 4, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8,
             "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
             "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": false, "v_head_dim": 128,
             "vocab_size": 129280})"},
           Published{"gpt2", R"({"model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
             "n_positions": 1024, "vocab_size": 50257})"},
           Published{"pythia-6.9b", R"({"model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384,
             "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 32,
             "tie_word_embeddings": false, "use_parallel_residual": true, "vocab_size": 50432})"},
           Published{"bloom-7b1", R"({"model_type": "bloom", "n_embed": 4096, "n_layer": 30, "num_attention_heads": 32,
             "vocab_size": 250880})"},
           Published{"opt-6.7b", R"({"model_type": "opt", "do_layer_norm_before": true, "ffn_dim": 16384,
             "hidden_size": 4096, "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 32,
             "vocab_size": 50272, "word_embed_proj_dim": 4096})"},
           Published{"falcon-7b", R"({"model_type": "falcon", "alibi": false, "bias": false, "hidden_size": 4544,
             "multi_query": true, "new_decoder_architecture": false, "num_attention_heads": 71, "num_hidden_layers": 32,
             "parallel_attn": true, "vocab_size": 65024})"},
           Published{"falcon-40b", R"({"model_type": "falcon", "bias": false, "hidden_size": 8192,
             "new_decoder_architecture": true, "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8,
             "parallel_attn": true, "vocab_size": 65024})"},
       }) {
    CAPTURE(p.name);
    const Imported outcome = read_config(p.json);
    CAPTURE(outcome.said);
    REQUIRE(outcome.model);
    CHECK(shape_of(*outcome.model) == shape_of(catalogue(p.name)));
    CHECK(outcome.model->parameters() == catalogue(p.name).parameters());
  }
}

const char* const kSmall = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100})";

TEST_CASE("keys beside hf win, and the model is named after its folder") {
  const Imported outcome = read_config(kSmall, ", layers: 3, name: mine");
  REQUIRE(outcome.model);
  CHECK(outcome.model->layers == 3);
  CHECK(outcome.model->name == "mine");
  CHECK(read_config(kSmall).model->name.starts_with("foretrain-"));
}

TEST_CASE("what cannot be read is said at its place in the file") {
  CHECK(contains(read_config("{}").said, "config.model_type is missing"));
  CHECK(contains(read_config(R"({"model_type": "lama"})").said,
                 "config.json:1:16: error: model_type 'lama' is not known; did you mean 'llama'"));
  CHECK(contains(read_config(R"({"model_type": "gpt2", "n_embd": 64})").said,
                 "num_hidden_layers is missing; is this a whole config.json?"));
  CHECK(contains(read_config(R"({"model_type": "bert"})").said, "describe others by a model map"));
  CHECK(contains(read_config("[1, 2]").said, "config must be a map"));
  CHECK(contains(read_config("not json: [").said, "config.json:"));
  CHECK(contains(read_config(R"({"model_type": "opt", "hidden_size": 1024, "word_embed_proj_dim": 512, "ffn_dim": 4096,
    "num_attention_heads": 16, "num_hidden_layers": 24, "vocab_size": 50272})")
                     .said,
                 "a token table of another width is not simulated yet"));
  std::string wrong = kSmall;
  wrong.replace(wrong.find("64,"), 3, "\"x\",");
  CHECK(contains(read_config(wrong).said, "config.json:1:"));
  Diagnostics diagnostics;
  CHECK_FALSE(read_model(config::Node{{}, "/nowhere/config.json", false}, kModels, diagnostics));
  CHECK(contains(to_string(diagnostics.all().front()), "/nowhere/config.json: error: cannot be read"));
}

TEST_CASE("a written model reads as the same model") {
  for (const char* name : {"llama-2-7b", "gpt2", "pythia-6.9b", "falcon-7b", "bloom-7b1", "deepseek-v3", "mixtral-8x7b",
                           "gpt-oss-20b", "qwen-3-30b-a3b", "llama-4-scout", "gemma-7b", "kimi-k2", "mpt-7b"}) {
    CAPTURE(name);
    const Model model = catalogue(name);
    const Imported again = import_model(write_model(model));
    CAPTURE(again.said);
    REQUIRE(again.model);
    CHECK(again.model->parameters() == model.parameters());
    CHECK(shape_of(*again.model) == shape_of(model));
    CHECK(again.model->name == model.name);
  }
}

}  // namespace
}  // namespace foretrain
