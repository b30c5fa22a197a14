#include "sim/analysis/step_factors.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace foretrain;

TEST_CASE("step factors: a section that is no map is an error, an empty one is not") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "foretrain-step-factors-test";
  std::filesystem::create_directories(folder / "hardware/calibrated");
  const auto load = [&](const std::string& text, Diagnostics& diagnostics) {
    std::ofstream(folder / "hardware/calibrated/steps.yaml") << text;
    return load_step_factors({folder.string()}, diagnostics);
  };
  Diagnostics good;
  const auto factors = load("source: s\nsoftware:\ngpus: {h100: {matmul_16: 0.9, rows: 3}}\n", good);
  CHECK(good.all().empty());
  REQUIRE(factors);
  CHECK(factors->gpus.at("h100").matmul_16 == 0.9);
  for (const char* wrong : {"software: [megatron-lm]\n", "gpus: none\n"}) {
    CAPTURE(wrong);
    Diagnostics diagnostics;
    CHECK_FALSE(load(wrong, diagnostics));
    REQUIRE(diagnostics.error_count() == 1);
    CHECK(to_string(diagnostics.all().front()).find("must be a map from names to factors") != std::string::npos);
  }
  std::filesystem::remove_all(folder);
}
