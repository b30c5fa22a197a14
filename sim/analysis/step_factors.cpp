#include "sim/analysis/step_factors.h"

#include <filesystem>

#include "sim/config/reader.h"

namespace foretrain {
namespace {

// Bounds of what is physical; the fit stays well inside.
constexpr config::Range kFactor{0.2, 5.0};

void read_factor(config::MapReader& map, const char* key, double& factor) {
  factor = map.number(key, config::Unit::count, kFactor).value_or(factor);
}

// Reads every entry of a section {owner: {factors, rows}}.
template <class Read>
void for_each_entry(config::MapReader& file, const char* section, Diagnostics& diagnostics, const Read& read) {
  const config::Node* list = file.node(section);
  if (present(list) == nullptr) return;
  if (!list->is_map()) {
    file.error(section,
               message("{} must be a map from names to factors, such as {{torch-fsdp: {{host: 1.1}}}}", section));
    return;
  }
  for (const auto& entry : list->map()) {
    config::MapReader map(entry.value, diagnostics, entry.key);
    read(entry.key, map);
    map.integer("rows");
    map.finish();
  }
}

void scale(Software::ElementwisePasses& passes, double factor) {
  passes.hidden *= factor;
  passes.attention *= factor;
  passes.ffn *= factor;
}

}  // namespace

std::optional<StepFactors> load_step_factors(const DataFolder& data, Diagnostics& diagnostics) {
  StepFactors factors;
  const std::string path = data.path + "/hardware/calibrated/steps.yaml";
  if (!std::filesystem::exists(path)) return factors;
  const int errors_before = diagnostics.error_count();
  const auto document = config::parse_yaml_file(path, diagnostics);
  if (!document) return std::nullopt;
  config::MapReader file(*document, diagnostics, "step factors");
  file.text("source");
  for_each_entry(file, "software", diagnostics, [&](const std::string& profile, config::MapReader& map) {
    StepFactors::OfSoftware& of = factors.software[profile];
    read_factor(map, "elementwise", of.elementwise);
    read_factor(map, "host", of.host);
    read_factor(map, "step_overhead", of.step_overhead);
  });
  for_each_entry(file, "gpus", diagnostics, [&](const std::string& gpu, config::MapReader& map) {
    StepFactors::OfGpu& of = factors.gpus[gpu];
    read_factor(map, "matmul_16", of.matmul_16);
    read_factor(map, "matmul_8", of.matmul_8);
    for (const AttentionKernel kernel : kFlashKernels) {
      read_factor(map, to_string(kernel), of.attention[static_cast<std::size_t>(kernel)]);
    }
  });
  file.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return factors;
}

Case with_step_factors(Case subject, const StepFactors& factors) {
  if (const auto of = factors.software.find(subject.software.fitted_as); of != factors.software.end()) {
    Software& s = subject.software;
    scale(s.forward, of->second.elementwise);
    scale(s.backward, of->second.elementwise);
    for (double* ms : {&s.host_forward_ms, &s.host_backward_ms, &s.host_tensor_parallel_ms, &s.host_zero3_hook_ms,
                       &s.unfused_softmax_forward_ms, &s.unfused_softmax_backward_ms, &s.micro_batch_overhead_ms}) {
      *ms *= of->second.host;
    }
    s.step_overhead_ms *= of->second.step_overhead;
  }
  const auto apply = [&](Gpu& gpu) {
    const auto of = factors.gpus.find(gpu.name);
    if (of == factors.gpus.end()) return;
    AchievedRates& rates = gpu.achieved;
    rates.matmul[static_cast<std::size_t>(Precision::fp16)] *= of->second.matmul_16;
    rates.matmul[static_cast<std::size_t>(Precision::bf16)] *= of->second.matmul_16;
    for (const Precision quantised : {Precision::fp8, Precision::nvfp4}) {
      rates.matmul[static_cast<std::size_t>(quantised)] *= of->second.matmul_8;
    }
    for (const AttentionKernel kernel : kFlashKernels) {
      const auto index = static_cast<std::size_t>(kernel);
      rates.flash[index].forward *= of->second.attention[index];
      rates.flash[index].backward *= of->second.attention[index];
    }
  };
  apply(subject.cluster.gpu);
  for (Gpu& gpu : subject.cluster.other_gpus) apply(gpu);
  return subject;
}

}  // namespace foretrain
