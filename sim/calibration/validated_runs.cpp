#include "sim/calibration/validated_runs.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace foretrain {

std::string source_name(const MeasuredFile& file) { return std::filesystem::path(file.path).stem().string(); }

std::vector<ValidatedRun> validated_runs(std::span<const MeasuredFile> files, const Validation& validation) {
  std::vector<ValidatedRun> runs;
  for (const MeasuredFile& file : files) {
    const std::string source = source_name(file);
    for (const MeasuredCase& measured : file.cases) {
      if (!measured.subject) continue;
      runs.push_back({&validation.cases.at(runs.size()), &*measured.subject, source, is_trusted(source),
                      traits_of(*measured.subject)});
    }
  }
  return runs;
}

std::vector<OrderReliability> order_reliability(std::span<const MeasuredFile> files, const Validation& validation,
                                                const std::map<std::string, std::string>& flags,
                                                const ErrorModel& model) {
  std::vector<OrderReliability> bins;
  for (const auto& [from, to] : {std::pair{0.5, 0.6}, {0.6, 0.7}, {0.7, 0.8}, {0.8, 0.9}, {0.9, 0.95}, {0.95, 1.0}}) {
    bins.push_back({from, to, 0, 0, 0});
  }
  struct Sums {
    double pairs = 0, said = 0, right = 0;
  };
  std::vector<std::map<std::size_t, Sums>> by_source(bins.size());
  std::map<std::pair<std::size_t, double>, std::vector<const ValidatedRun*>> same_work;
  const std::vector<ValidatedRun> runs = validated_runs(files, validation);
  for (const ValidatedRun& run : runs) {
    if (!run.trusted || !run.comparison->error() || flags.contains(run.comparison->name)) continue;
    same_work[{run.comparison->file, run.comparison->tokens_per_step}].push_back(&run);
  }
  for (const auto& [key, group] : same_work) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = i + 1; j < group.size(); ++j) {
        const Comparison &a = *group[i]->comparison, &b = *group[j]->comparison;
        if (*a.measured_step_time_s == *b.measured_step_time_s || a.model != b.model) continue;
        const double ratio = *a.predicted_step_time_s / *b.predicted_step_time_s;
        const double said = order_likelihood(std::max(ratio, 1 / ratio), group[i]->traits, group[j]->traits, model);
        const bool right = (ratio > 1) == (*a.measured_step_time_s > *b.measured_step_time_s);
        std::size_t bin = 0;
        while (bin + 1 < bins.size() && said >= bins[bin].to) ++bin;
        ++bins[bin].pairs;
        Sums& sums = by_source[bin][key.first];
        sums.pairs += 1;
        sums.said += said;
        sums.right += right;
      }
    }
  }
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    for (const auto& [source, sums] : by_source[bin]) {
      bins[bin].said += sums.said / sums.pairs;
      bins[bin].right += sums.right / sums.pairs;
    }
    const double sources = static_cast<double>(std::max<std::size_t>(by_source[bin].size(), 1));
    bins[bin].said /= sources;
    bins[bin].right /= sources;
  }
  return bins;
}

}  // namespace foretrain
