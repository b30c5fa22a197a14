#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "tests/hardware/catalogue_support.h"

using namespace foretrain;
using namespace foretrain::test;

namespace {

Gpu catalogue_gpu(std::string_view name) {
  Diagnostics diagnostics;
  const auto gpu = load_gpu(data_folder(), name, {}, diagnostics);
  INFO(all_text(diagnostics));
  REQUIRE(gpu.has_value());
  return *gpu;
}

double tflops(const Gpu& gpu, Precision p) { return gpu.dense(p) ? gpu.dense(p)->value / 1e12 : 0.0; }

// A data folder of its own with one GPU and one file of achieved rates, to be spoilt.
class OwnFolder {
 public:
  OwnFolder() {
    const auto base = std::filesystem::temp_directory_path();
    path_ = base / ("foretrain-catalogue-" + std::to_string(std::random_device{}()));
    std::filesystem::create_directories(path_ / "hardware/gpus");
    std::filesystem::create_directories(path_ / "hardware/calibrated");
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  // Copies a catalogue file, with one text replaced by another.
  void take(const std::string& file, const std::string& what = "", const std::string& by = "") {
    std::ifstream in(std::filesystem::path(FORETRAIN_SOURCE_DIR) / "hardware" / file);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    REQUIRE(!text.empty());
    if (!what.empty()) {
      const std::size_t at = text.find(what);
      REQUIRE(at != std::string::npos);
      text.replace(at, what.size(), by);
    }
    std::ofstream(path_ / "hardware" / file) << text;
  }
  DataFolder data() const { return {path_.string()}; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("every GPU of the catalogue loads, with sane datasheet and achieved figures") {
  const std::vector<std::string> names = stems("gpus");
  REQUIRE(names.size() >= 53);
  for (const std::string& name : names) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const auto loaded = load_gpu(data_folder(), name, {}, diagnostics);
    INFO(all_text(diagnostics));
    REQUIRE(loaded.has_value());
    const Gpu& gpu = *loaded;
    CHECK(diagnostics.all().empty());
    CHECK(gpu.name == name);
    CHECK(!gpu.source.empty());
    CHECK(!gpu.achieved.source.empty());

    // Driver's MiB against the name's GB: the name means GB, GiB or something between, never much else.
    CHECK(gpu.memory.value / 1e9 == doctest::Approx(gpu.nominal_memory_gb).epsilon(0.12));
    CHECK(gpu.memory_bandwidth.value > 100e9);
    CHECK(gpu.memory_bandwidth.value < 10e12);
    CHECK(gpu.sm_count >= 10);
    CHECK(gpu.l2.value >= 1e6);
    CHECK(gpu.tdp_watts >= 50);
    CHECK(gpu.tdp_watts <= 1500);
    CHECK(gpu.pcie_generation >= 3);
    CHECK(gpu.pcie_lanes >= 8);

    REQUIRE(tflops(gpu, Precision::fp16) > 0);
    CHECK(tflops(gpu, Precision::fp32) > 0);
    if (gpu.dense(Precision::tf32)) {
      CHECK(tflops(gpu, Precision::fp16) >= tflops(gpu, Precision::tf32));
      CHECK(tflops(gpu, Precision::tf32) >= tflops(gpu, Precision::fp32));
    }
    CHECK(tflops(gpu, Precision::fp16) >= tflops(gpu, Precision::fp32));
    if (gpu.dense(Precision::fp8)) CHECK(tflops(gpu, Precision::fp8) >= 1.9 * tflops(gpu, Precision::fp16));

    for (int i = 0; i < kPrecisions; ++i) {
      const auto p = static_cast<Precision>(i);
      const double fraction = gpu.achieved.matmul[static_cast<std::size_t>(i)];
      CAPTURE(to_string(p));
      CHECK((fraction > 0) == gpu.dense(p).has_value());
      CHECK(fraction <= 1.1);
    }
    CHECK(gpu.achieved.memory > 0.5);
    CHECK(gpu.achieved.memory <= 1.0);
    CHECK(gpu.achieved.kernel_floor.value > 0);
    CHECK(gpu.achieved.elementwise_floor >= gpu.achieved.kernel_floor);
    CHECK(gpu.achieved.collective_sm_share > 0);
    CHECK(gpu.achieved.collective_sm_share < 0.35);
    for (const AchievedRates::Attention& kernel : gpu.achieved.flash) {
      CHECK((kernel.forward > 0) == (kernel.backward > 0));
      CHECK(kernel.backward <= kernel.forward);
      CHECK(kernel.forward <= 1.1);
    }
    if (gpu.nvlink) {
      // NVLink 2 to 4 carry 20-29 GB/s a direction and link, NVLink 5 and xGMI 46-64; A40-class bridges 14.
      const double per_link = gpu.nvlink->per_direction.value / 1e9 / gpu.nvlink->links;
      CHECK(per_link >= 14);
      CHECK(per_link <= 64);
      CHECK(!gpu.nvlink->layouts.empty());
    }
  }
}

TEST_CASE("every file of achieved rates is used by a GPU or stands for a family") {
  std::map<std::string, int> uses;
  for (const std::string& name : stems("gpus")) {
    Diagnostics diagnostics;
    const auto node = config::parse_yaml_file(data_folder().path + "/hardware/gpus/" + name + ".yaml", diagnostics);
    REQUIRE(node.has_value());
    ++uses[node->find("achieved")->scalar()];
  }
  for (const std::string& file : stems("calibrated")) {
    const std::set<std::string> others = {"collectives", "hosts", "leave-out", "links", "steps"};
    if (others.contains(file) || file.starts_with("family-")) continue;
    CAPTURE(file);
    CHECK(uses[file] > 0);
  }
}

TEST_CASE("names and aliases are unique across each catalogue") {
  for (const char* folder : {"gpus", "nodes", "fabrics"}) {
    std::map<std::string, std::string> owner;
    for (const std::string& name : stems(folder)) {
      Diagnostics diagnostics;
      const std::string path = data_folder().path + "/hardware/" + folder + "/" + name + ".yaml";
      const auto node = config::parse_yaml_file(path, diagnostics);
      REQUIRE(node.has_value());
      CHECK(node->find("name")->scalar() == name);
      std::vector<std::string> called = {name};
      for (const config::Node& alias : node->find("aliases")->sequence()) {
        called.push_back(config::Catalogue::normalised(alias.scalar()));
      }
      for (const std::string& other : called) {
        CAPTURE(other);
        CAPTURE(name);
        CAPTURE(owner[other]);
        CHECK(owner[other].empty());
        owner[other] = name;
      }
    }
  }
}

TEST_CASE("the GPU names of published runs and of everyday speech resolve") {
  // As the published runs write them.
  for (const char* name :
       {"a100-pcie-40gb",  "a100-sxm4-40gb", "a100-sxm4-80gb", "a10g-24gb",      "a800-sxm4-80gb",  "b200-sxm-180gb",
        "b300-sxm-288gb",  "gb200-186gb",    "gb300-288gb",    "h100-sxm5-80gb", "h100-sxm5-96gb",  "h200-sxm-141gb",
        "l40s-48gb",       "rtx3090-24gb",   "rtx4090-24gb",   "rtx5060ti-16gb", "rtx6000ada-48gb", "rtxa5000-24gb",
        "rtxpro6000-96gb", "titanrtx-24gb",  "v100-sxm2-16gb", "v100-sxm2-32gb", "v100-sxm3-32gb"}) {
    CHECK(catalogue_gpu(name).name == name);
  }
  CHECK(catalogue_gpu("4090").name == "rtx4090-24gb");
  CHECK(catalogue_gpu("RTX 4090").name == "rtx4090-24gb");
  CHECK(catalogue_gpu("RTX-4090-24GB").name == "rtx4090-24gb");
  CHECK(catalogue_gpu("a100-80g").name == "a100-sxm4-80gb");
  CHECK(catalogue_gpu("A100-SXM-80GB").name == "a100-sxm4-80gb");
  CHECK(catalogue_gpu("NVIDIA A100-SXM4-40GB").name == "a100-sxm4-40gb");
  CHECK(catalogue_gpu("a100-40g").name == "a100-sxm4-40gb");
  CHECK(catalogue_gpu("a800").name == "a800-sxm4-80gb");
  CHECK(catalogue_gpu("h100").name == "h100-sxm5-80gb");
  CHECK(catalogue_gpu("TITAN-RTX-24GB").name == "titanrtx-24gb");
  CHECK(catalogue_gpu("t4").name == "t4-16gb");
  CHECK(catalogue_gpu("mi300x").name == "mi300x-192gb");
}

TEST_CASE("a name that leaves the memory size open lists the cards instead of choosing one") {
  for (const auto& [name, one, other] :
       {std::tuple{"a100", "a100-sxm4-40gb", "a100-sxm4-80gb"}, std::tuple{"V100", "v100-sxm2-16gb", "v100-sxm2-32gb"},
        std::tuple{"gh200", "gh200-96gb", "gh200-144gb"},
        std::tuple{"A100_PCIe", "a100-pcie-40gb", "a100-pcie-80gb"}}) {
    Diagnostics diagnostics;
    CAPTURE(name);
    CHECK(!load_gpu(data_folder(), name, {std::make_shared<std::string>("s.yaml"), 3, 14}, diagnostics));
    CHECK(diagnostics.error_count() == 1);
    CHECK(mentions(diagnostics, "s.yaml:3:14: error: "));
    CHECK(mentions(diagnostics, one));
    CHECK(mentions(diagnostics, other));
  }
}

TEST_CASE("an unknown GPU is refused with a suggestion") {
  Diagnostics diagnostics;
  CHECK(!load_gpu(data_folder(), "rtx4091", {}, diagnostics));
  CHECK(diagnostics.error_count() == 1);
  CHECK(mentions(diagnostics, "did you mean 'rtx4090'"));

  Diagnostics nonsense;
  CHECK(!load_gpu(data_folder(), "../nodes/dgx-2", {}, nonsense));
  CHECK(!load_gpu(data_folder(), "", {}, nonsense));
  CHECK(nonsense.error_count() == 2);
}

TEST_CASE("spot checks against the datasheets") {
  const Gpu a100 = catalogue_gpu("a100-sxm4-80gb");
  CHECK(a100.memory.value == 81920 * kMiB);
  CHECK(a100.memory_bandwidth.value == 2039e9);
  CHECK(tflops(a100, Precision::bf16) == 312);
  CHECK(!a100.dense(Precision::fp8));
  CHECK(a100.nvlink->per_direction.value == 300e9);
  CHECK(a100.achieved.matmul[static_cast<std::size_t>(Precision::bf16)] == 0.82);
  CHECK(a100.achieved.collective_sm_share == doctest::Approx(24.0 / 108));
  CHECK(a100.achieved.inherited_from.empty());

  // GeForce: tensor cores accumulate in fp32 at half the rate the box advertises.
  const Gpu rtx4090 = catalogue_gpu("4090");
  CHECK(tflops(rtx4090, Precision::fp16) == 165.2);
  CHECK(!rtx4090.p2p_over_pcie);
  CHECK(!rtx4090.nvlink);
  // The same chip family on a professional card at full rate, and with P2P.
  CHECK(tflops(catalogue_gpu("rtx6000ada-48gb"), Precision::fp16) > 2 * tflops(rtx4090, Precision::fp16));
  CHECK(catalogue_gpu("rtx6000ada-48gb").p2p_over_pcie);

  const Gpu v100 = catalogue_gpu("v100-sxm2-16gb");
  CHECK(!v100.dense(Precision::bf16));
  for (const AchievedRates::Attention& kernel : v100.achieved.flash) CHECK(kernel.forward == 0);

  CHECK(catalogue_gpu("l20").achieved.inherited_from == "family-ada-workstation");
  CHECK(catalogue_gpu("gb300").achieved.inherited_from == "b300-at-1400w");
}

TEST_CASE("a power limit slows matmul and attention by the measured law and nothing else") {
  const Gpu full = catalogue_gpu("h100");
  const Gpu held = with_power_limit(full, 500);
  const double factor = std::pow(500.0 / 700.0, 0.67);
  for (std::size_t i = 0; i < kPrecisions; ++i) {
    CHECK(held.achieved.matmul[i] == doctest::Approx(full.achieved.matmul[i] * factor));
  }
  const auto flash3 = static_cast<std::size_t>(AttentionKernel::flash3);
  CHECK(held.achieved.flash[flash3].backward == doctest::Approx(full.achieved.flash[flash3].backward * factor));
  CHECK(held.achieved.memory == full.achieved.memory);
  CHECK(held.dense_rate == full.dense_rate);
  for (double none : {700.0, 2000.0, 0.0, -1.0}) {
    CHECK(with_power_limit(full, none).achieved.matmul == full.achieved.matmul);
  }
}

TEST_CASE("a card that reaches its datasheet's rate has power in hand") {
  const Gpu full = catalogue_gpu("rtx3090");
  const auto rate = [](const Gpu& gpu) { return gpu.achieved.matmul[static_cast<std::size_t>(Precision::fp16)]; };
  const auto kept = [&](double watts) { return rate(with_power_limit(full, watts)) / rate(full); };
  CHECK(kept(310) == 1.0);
  CHECK(kept(280) == doctest::Approx(0.95).epsilon(0.01));
  CHECK(kept(200) < 0.8);
}

TEST_CASE("element sizes and names") {
  CHECK(element_bytes(Precision::fp32) == 4);
  CHECK(element_bytes(Precision::tf32) == 4);
  CHECK(element_bytes(Precision::bf16) == 2);
  CHECK(element_bytes(Precision::fp8) == 2);
  CHECK(std::string(to_string(Precision::fp8)) == "fp8");
  CHECK(std::string(to_string(Precision::nvfp4)) == "nvfp4");
  CHECK(std::string(to_string(AttentionKernel::flash1)) == "flash");
  CHECK(std::string(to_string(AttentionKernel::flash3)) == "flash3");
}

TEST_CASE("a spoilt catalogue file is reported with its place") {
  struct Spoilt {
    const char *file, *what, *by, *expected;
  };
  const std::string gpu = "gpus/t4-16gb.yaml", rates = "calibrated/t4.yaml";
  for (const Spoilt& s : {
           Spoilt{"gpus/t4-16gb.yaml", "capacity_mib: 15360", "capacity_mib: -3", "capacity_mib"},
           Spoilt{"gpus/t4-16gb.yaml", "capacity_mib", "capasity_mib", "capacity_mib"},
           Spoilt{"gpus/t4-16gb.yaml", "architecture: turing", "architecture: tuning", "turing"},
           Spoilt{"gpus/t4-16gb.yaml", "sm_count: 40", "sm_count: 0", "sm_count"},
           Spoilt{"gpus/t4-16gb.yaml", "tdp_w: 70", "tdp_w: hot", "tdp_w"},
           Spoilt{"gpus/t4-16gb.yaml", "bf16: null", "bf16: 65", "matmul.bf16 is missing"},
           Spoilt{"gpus/t4-16gb.yaml", "achieved: t4", "achieved: t5", "unknown file of achieved rates 't5'"},
           Spoilt{"gpus/t4-16gb.yaml", "source:", "sauce:", "source"},
           Spoilt{"calibrated/t4.yaml", "value: 0.64", "value: 1.64", "value"},
           Spoilt{"calibrated/t4.yaml", "value: 0.64", "value: 0", "value"},
           Spoilt{"calibrated/t4.yaml",
                  "memory:\n  value: 0.9\n  source:", "memory:\n  value: 0.9\n  sauce:", "memory.source"},
           Spoilt{"calibrated/t4.yaml", "\nmeasured_on", "\nmeasured_at", "measured_on"},
           Spoilt{"calibrated/t4.yaml", "kernel_floor_us:\n  value: 2", "kernel_floor_us:\n  value: 2s",
                  "kernel_floor_us"},
       }) {
    const std::string change = std::string(s.what) + " -> " + s.by;
    CAPTURE(change);
    OwnFolder folder;
    folder.take(gpu);
    folder.take(rates);
    Diagnostics good;
    REQUIRE(load_gpu(folder.data(), "t4", {}, good).has_value());
    folder.take(s.file, s.what, s.by);
    Diagnostics diagnostics;
    CHECK(!load_gpu(folder.data(), "t4-16gb", {}, diagnostics));
    INFO(all_text(diagnostics));
    CHECK(diagnostics.error_count() >= 1);
    CHECK(mentions(diagnostics, s.expected));
    CHECK(mentions(diagnostics, ".yaml:"));
  }
}
