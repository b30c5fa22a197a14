#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/tree.h"
#include "sim/hardware/gpu.h"

namespace foretrain {

// What cases ask of a framework, as far as it decides which one is taken where none is named.
struct SoftwareNeeds {
  enum class Need { model_parallel, sharding_group, zero, offload, adapters, optimizer_8bit };
  static constexpr std::size_t kNeeds = 6;
  std::array<bool, kNeeds> asked{};

  // What a case map asks for that names no software, beside what was asked for before. One that names its software
  // asks for nothing. Faults of the map are for whoever reads it to report.
  void add(const config::Node& described);
};

// The framework that is taken where a question names none: configs/software-defaults.yaml.
class SoftwareDefaults {
 public:
  struct Choice {
    std::string name;
    Message because;  // of what is asked for; empty if nothing decided
  };

  // nullopt after reporting what is wrong with the file.
  static std::optional<SoftwareDefaults> load(const DataFolder& data, Diagnostics& diagnostics);
  // By the first rule whose needs are all there.
  Choice choose(const SoftwareNeeds& needs) const;

 private:
  struct Rule {
    std::vector<SoftwareNeeds::Need> asks;
    std::string software;
  };
  std::vector<Rule> rules_;  // the last one asks for nothing
};

}  // namespace foretrain
