#include "sim/calibration/validate.h"

#include <fmt/format.h>

#include <exception>

#include "sim/base/parallel.h"

namespace foretrain {
namespace {

std::string fingerprint_of(const Model& m) {
  return fmt::format("{}/{}/{}/{}/{}/{}", m.layers, m.hidden, m.heads, m.ffn, m.vocab, m.parameters());
}

Comparison measured_side(const MeasuredCase& subject, std::size_t file) {
  const Case& c = *subject.subject;
  Comparison result;
  result.name = subject.name;
  result.file = file;
  result.trust = subject.trust;
  result.model = fingerprint_of(c.model);
  result.tokens_per_step = static_cast<double>(c.train.global_batch) * static_cast<double>(c.train.seq_len);
  result.measured_step_time_s = subject.measured.step_time_s;
  result.memory_kind = subject.measured.memory_kind;
  result.measured_memory = subject.measured.memory_per_gpu;
  result.measured_oom = subject.measured.out_of_memory;
  return result;
}

Bytes of_kind(const MemoryFigures& figures, Measured::MemoryKind kind) {
  switch (kind) {
    case Measured::MemoryKind::allocated:
      return figures.allocated;
    case Measured::MemoryKind::reserved:
      return figures.reserved;
    case Measured::MemoryKind::device:
      return figures.device;
  }
  return figures.allocated;
}

void add_prediction(Comparison& comparison, const CaseReport& report) {
  comparison.predicted_step_time_s = report.step_time.seconds();
  comparison.predicted_oom = !report.fits;
  if (report.fullest < report.memory.size()) {
    comparison.predicted_memory = of_kind(report.memory[report.fullest].figures, comparison.memory_kind);
  }
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, "; ")); }

std::optional<double> mape_of_sources(const std::vector<Validation::Source>& sources) {
  double sum = 0;
  int count = 0;
  for (const Validation::Source& source : sources) {
    if (!source.accuracy.mape) continue;
    sum += *source.accuracy.mape;
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

}  // namespace

Validation validate(std::span<const MeasuredFile> files, const Simulate& simulate, int threads) {
  Validation result;
  std::vector<const Case*> subjects;
  for (std::size_t f = 0; f < files.size(); ++f) {
    result.sources.push_back({files[f].path, files[f].source_title, files[f].source_url, {}, 0});
    for (const MeasuredCase& measured : files[f].cases) {
      if (measured.subject) {
        result.cases.push_back(measured_side(measured, f));
        subjects.push_back(&*measured.subject);
      } else {
        result.refused.push_back({measured.name, f, joined(measured.refusals), measured.faulty});
        ++result.sources[f].refused;
      }
    }
  }
  parallel_for(subjects.size(), threads, [&](std::size_t i) {
    try {
      add_prediction(result.cases[i], simulate(*subjects[i]));
    } catch (const std::exception& e) {
      result.cases[i].failure = *e.what() != '\0' ? e.what() : "unknown exception";
    }
  });

  // Cases are in the order of their files, so each file's are a span.
  const std::span<const Comparison> all = result.cases;
  for (std::size_t f = 0, begin = 0; f < files.size(); ++f) {
    std::size_t end = begin;
    while (end < all.size() && all[end].file == f) ++end;
    result.sources[f].accuracy = accuracy(all.subspan(begin, end - begin));
    begin = end;
  }
  result.summary = accuracy(all);
  result.mape_of_sources = mape_of_sources(result.sources);
  return result;
}

}  // namespace foretrain
