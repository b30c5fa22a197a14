// Framework profiles: every file loads, inheritance, variants, and the rules in Software.
#include "sim/software/software.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;

const std::string kProfiles = std::string(FORETRAIN_SOURCE_DIR) + "/configs/software";

Software loaded(std::string_view name, std::string_view version = {}) {
  Diagnostics diagnostics;
  std::optional<Software> profile = load_software(kProfiles, name, {}, diagnostics, version);
  for (const Diagnostic& d : diagnostics.all()) FAIL_CHECK(to_string(d));
  REQUIRE_MESSAGE(profile.has_value(), std::string(name));
  return *profile;
}

// A folder of profiles for one test.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "foretrain-software-test") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / (name + ".yaml")) << text;
  }
  std::optional<Software> load(std::string_view name, Diagnostics& diagnostics, std::string_view version = {}) const {
    return load_software(path_.string(), name, {}, diagnostics, version);
  }
  std::string error_of(std::string_view name, std::string_view version = {}) const {
    Diagnostics diagnostics;
    CHECK_FALSE(load(name, diagnostics, version).has_value());
    CHECK(diagnostics.has_errors());
    return testing::shown(diagnostics);
  }

 private:
  std::filesystem::path path_;
};

TEST_CASE("every profile loads, is named like its file, says its source, and its variants exist") {
  const config::Catalogue catalogue(kProfiles, "software profile");
  CHECK(catalogue.names().size() >= 16);
  for (const std::string& name : catalogue.names()) {
    CAPTURE(name);
    const Software profile = loaded(name);
    CHECK(profile.name == name);
    Diagnostics diagnostics;
    const auto found = catalogue.find(name, {}, diagnostics);
    REQUIRE(found);
    REQUIRE(found->node->find("name") != nullptr);
    CHECK(found->node->find("name")->scalar() == name);
    REQUIRE(found->node->find("source") != nullptr);  // its own, not inherited
    CHECK(contains(profile.source, "http"));
    CHECK(profile.backward.hidden >= profile.forward.hidden);
    // Autograd issues more kernels than the forward pass, but from C++.
    CHECK(profile.host_backward_ms >= 0.4 * profile.host_forward_ms);
    CHECK(profile.zero3_gathers_with_recompute >= 2);
    const config::Node* variants = found->node->find("variants");
    if (variants == nullptr) continue;
    for (const config::Node& variant : variants->sequence()) {
      CHECK(loaded(name, variant.find("mentions")->scalar()).name == variant.find("profile")->scalar());
    }
  }
}

TEST_CASE("the frameworks of the published runs are all there") {
  for (const char* name :
       {"megatron-deepspeed", "megatron-lm", "megatron-core", "nemo", "llm-foundry", "hf-trainer", "torch-fsdp",
        "torchtitan", "deepspeed", "internevo", "gpt-neox", "llama-factory", "llmq", "litgpt", "torch-ddp", "other"}) {
    CHECK(loaded(name).name == name);
  }
  CHECK(loaded("NeMo").name == "nemo");
  CHECK(loaded("nanoGPT").name == "torch-ddp");
}

TEST_CASE("profiles differ where frameworks do") {
  CHECK(loaded("hf-trainer").forward.hidden > loaded("megatron-core").forward.hidden);
  CHECK(loaded("hf-trainer-liger").loss_live_bytes_per_logit == 0);
  CHECK(loaded("deepspeed").zero3_gathers_with_recompute == 3);
  CHECK_FALSE(loaded("deepspeed").zero3_overlap);
  CHECK(loaded("torch-fsdp").zero3_gathers_with_recompute == 2);
  CHECK(loaded("torch-fsdp").zero3_overlap);
  CHECK(loaded("megatron-deepspeed").zero1_all_reduce);
  CHECK_FALSE(loaded("megatron-core").zero1_all_reduce);
  // Gradients come and go where PyTorch's zero_grad sets them to none; Megatron and DeepSpeed keep buffers.
  CHECK(loaded("torchtitan").gradients_on_demand);
  CHECK(loaded("hf-trainer").gradients_on_demand);
  CHECK_FALSE(loaded("hf-deepspeed").gradients_on_demand);
  CHECK_FALSE(loaded("megatron-core").gradients_on_demand);
  // Unfused kernels keep more than fused ones, and those more than a compiler does.
  CHECK(loaded("hf-trainer").rmsnorm_kept_bytes > loaded("hf-trainer-fused").rmsnorm_kept_bytes);
  CHECK(loaded("megatron-core").keeps_activation_output);
  CHECK_FALSE(loaded("torchtitan").keeps_activation_output);
  CHECK(loaded("torchtitan-eager").keeps_activation_output);
}

TEST_CASE("a version text picks a variant; case is ignored and the first match wins") {
  const char* liger = "HF SFT trainer + accelerate FSDP, fms-acceleration (foak-fast-kernels-liger)";
  CHECK(loaded("hf-trainer", liger).name == "hf-trainer-liger");
  CHECK(loaded("hf-trainer", "fms-acceleration (FOAK)").name == "hf-trainer-fused");
  CHECK(loaded("hf-trainer", "CUDA 11.8, PyTorch 2.0, flash-attn 2, DeepSpeed").name == "hf-deepspeed-2023");
  CHECK(loaded("hf-trainer", "CUDA 11.8, PyTorch 2.0, flash-attn 2").name == "hf-trainer");
  CHECK(loaded("torchtitan", "torchtitan 2024-12 eager").name == "torchtitan-eager");
  CHECK(loaded("torchtitan", "torchtitan 2025-03 + torch.compile").name == "torchtitan");
  CHECK(loaded("nemo", "Megatron-LM / NeMo-Megatron, 2022-05").name == "megatron-lm-2022");
}

TEST_CASE("what a framework offers is inherited; what it offered at another time is not") {
  CHECK_FALSE(loaded("deepspeed").offers.tensor);
  CHECK(loaded("megatron-deepspeed").offers.tensor);
  CHECK_FALSE(loaded("llama-factory").offers.pipeline);
  CHECK(loaded("megatron-lm").offers.zero == std::array{true, true, false, false});
  CHECK(loaded("megatron-lm", "Megatron-LM, 2021-04..08").offers.zero == std::array{true, false, false, false});
  CHECK_FALSE(loaded("megatron-lm", "Megatron-LM PTD-P").offers.sequence);
  CHECK(loaded("megatron-lm", "Megatron-LM fork (Zero Bubble), 2023-11").offers.zero_bubble);
  CHECK(loaded("megatron-deepspeed", "Megatron-DeepSpeed, 2021").offers.zero == std::array{true, true, true, true});

  const Folder folder;
  folder.write("a",
               "name: a\noffers: {zero: [0, 4], tensors: false}\noffer_variants: [{mentions: x, offers: {zero: [0, "
               "1]}}]\nsource: s\n");
  const std::string errors = folder.error_of("a");
  CHECK(contains(errors, "stages from 0 to 3"));
  CHECK(contains(errors, "tensors"));
  folder.write("b", "name: b\noffer_variants: {mentions: x}\nsource: s\n");
  CHECK(contains(folder.error_of("b"), "must be a list"));
}

TEST_CASE("state bytes are 16 a parameter for mixed-precision Adam, and follow the code path of the stage") {
  const auto sum = [](const Software::StateBytes& s) { return s.weights + s.gradients + s.optimizer + s.step_extra; };
  const Software nemo = loaded("nemo");
  for (int zero = 0; zero <= 3; ++zero) CHECK(sum(nemo.state_bytes(zero, true)) == 16);
  // Measured on one GPU: 10.0 bytes a parameter; fully sharded: 20.0.
  const Software hf = loaded("hf-trainer");
  CHECK(sum(hf.state_bytes(0, true)) == 10);
  CHECK(sum(hf.state_bytes(3, true)) == 20);
  CHECK(hf.state_bytes(2, true) == Software::StateBytes{2, 2, 12, 4});
  CHECK(loaded("hf-deepspeed").state_bytes(3, true) == Software::StateBytes{2, 2, 12, 4});
  // fp16 is autocast over fp32 weights in Hugging Face, pure bf16 is not.
  CHECK(hf.state_bytes(0, false, true) == Software::StateBytes{6, 4, 8, 0});
  CHECK(hf.state_bytes(3, false, true) == hf.state_bytes(3, true));
  // llm.q: weights, gradients and both moments in bf16.
  CHECK(sum(loaded("llmq").state_bytes(0, true)) == 8);
  const Software megatron = loaded("megatron-deepspeed");
  CHECK(megatron.state_bytes(1, false).gradients == 2);
  CHECK(megatron.state_bytes(1, true).gradients == 6);
}

TEST_CASE("gradient buckets") {
  const Software core = loaded("megatron-core");
  CHECK(core.gradient_bucket_bytes(8, true) == 160e6);
  CHECK(core.gradient_bucket_bytes(100, true) == 400e6);
  CHECK(std::isinf(core.gradient_bucket_bytes(8, false)));
  CHECK(std::isinf(loaded("megatron-lm").gradient_bucket_bytes(8, true)));
  CHECK(loaded("megatron-deepspeed").gradient_bucket_bytes(8, false) == 1e9);
  CHECK(loaded("torch-ddp").gradient_bucket_bytes(8, true) == 25 * 1024 * 1024);
}

TEST_CASE("a profile keeps what it does not change") {
  Folder folder;
  folder.write("base", "forward: {hidden: 5, kernels: 7}\nhost_forward_ms: 9\nsource: a\n");
  folder.write("child", "inherits: base\nforward: {hidden: 6}\ngradient_bytes: 4\n");
  folder.write("grandchild",
               "inherits: child\nhost_forward_ms: 1\nstate_zero0: {weights: 1, gradients: 1, optimizer: 1}\n");
  Diagnostics diagnostics;
  const auto profile = folder.load("grandchild", diagnostics);
  REQUIRE(profile);
  CHECK(diagnostics.all().empty());
  CHECK(profile->name == "grandchild");
  CHECK(profile->forward.hidden == 6);
  CHECK(profile->forward.kernels == 7);
  CHECK(profile->host_forward_ms == 1);
  CHECK(profile->gradient_bytes == 4);
  CHECK(profile->source == "a");
  CHECK(profile->state_bytes(0, true) == Software::StateBytes{1, 1, 1, 0});
}

TEST_CASE("versions of a framework differ in what changed, and share what was fitted to its runs") {
  const Software now = loaded("hf-deepspeed"), before = loaded("hf-deepspeed", "DeepSpeed 0.14.2");
  const Software long_ago = loaded("hf-deepspeed", "deepspeed 0.9.5");
  CHECK(now.reduces_whole_gradients(2));
  CHECK(before.reduces_whole_gradients(2));
  CHECK_FALSE(long_ago.reduces_whole_gradients(2));  // slices went to their owners until 0.12.4
  CHECK_FALSE(now.zeropp_rewrites_second_copy);
  CHECK(before.zeropp_rewrites_second_copy);
  for (const Software& version : {now, before, long_ago}) CHECK(version.fitted_as == "hf-deepspeed");
  CHECK(loaded("megatron-core").fitted_as == "megatron-core");
}

TEST_CASE("circles of inheritance are errors, not hangs") {
  Folder folder;
  folder.write("self", "inherits: self\n");
  folder.write("a", "inherits: b\n");
  folder.write("b", "inherits: c\n");
  folder.write("c", "inherits: a\n");
  CHECK(contains(folder.error_of("self"), "inherits from itself"));
  CHECK(contains(folder.error_of("a"), "'a' inherits from itself"));
  folder.write("ping", "variants: [{mentions: x, profile: pong}]\n");
  folder.write("pong", "variants: [{mentions: x, profile: ping}]\n");
  Diagnostics diagnostics;
  const auto chosen = folder.load("ping", diagnostics, "x");
  REQUIRE(chosen);
  CHECK(chosen->name == "pong");
}

TEST_CASE("an unknown profile suggests the nearest") {
  Diagnostics diagnostics;
  CHECK_FALSE(load_software(kProfiles, "megatron-cor", {}, diagnostics).has_value());
  REQUIRE(diagnostics.error_count() == 1);
  CHECK(contains(diagnostics.all()[0].message.english(), "unknown software profile"));
  CHECK(contains(diagnostics.all()[0].message.english(), "megatron-core"));
}

TEST_CASE("mistakes in a profile are reported where they are") {
  Folder folder;
  folder.write("orphan", "inherits: nobody\n");
  CHECK(contains(folder.error_of("orphan"), "orphan.yaml:1:11"));
  folder.write("typo", "host_foward_ms: 1\n");
  CHECK(contains(folder.error_of("typo"), "did you mean 'host_forward_ms'"));
  folder.write("nested", "forward: {hiden: 1}\n");
  CHECK(contains(folder.error_of("nested"), "did you mean 'hidden'"));
  folder.write("range", "host_forward_ms: -1\ntp_overlap_hidden: 2\ndevice_over_allocated: 0.5\n");
  const std::string ranges = folder.error_of("range");
  for (const char* key : {"host_forward_ms=-1", "tp_overlap_hidden=2", "device_over_allocated=0.5"}) {
    CHECK(contains(ranges, key));
  }
  folder.write("half", "state_zero3: {weights: 2}\n");
  CHECK(contains(folder.error_of("half"), "gradients is missing"));
  folder.write("variants", "variants: {mentions: x, profile: y}\n");
  CHECK(contains(folder.error_of("variants"), "variants must be a list"));
  folder.write("lost", "variants: [{mentions: x, profile: nobody}]\n");
  CHECK(contains(folder.error_of("lost", "with X"), "unknown software profile"));
  folder.write("listed", "- 1\n");
  CHECK(contains(folder.error_of("listed"), "must be a map"));
}

}  // namespace
}  // namespace foretrain
