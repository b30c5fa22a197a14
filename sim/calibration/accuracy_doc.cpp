#include "sim/calibration/accuracy_doc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "sim/calibration/markdown_table.h"
#include "sim/calibration/validated_runs.h"

namespace foretrain {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string percent(const std::optional<double>& share) { return share ? percent(*share) : "-"; }
std::string signed_percent(const std::optional<double>& share) {
  return share ? fmt::format("{:+.1f} %", 100 * *share) : "-";
}

std::string seconds(double s) { return fmt::format("{:.4g} s", s); }

using Choice = std::function<bool(const ValidatedRun&)>;

Accuracy accuracy_of(const std::vector<ValidatedRun>& runs, const Choice& chosen) {
  std::vector<Comparison> comparisons;
  for (const ValidatedRun& run : runs) {
    if (chosen(run)) comparisons.push_back(*run.comparison);
  }
  return accuracy(comparisons);
}

const std::vector<std::string> kFigures = {"runs", "mean error", "median", "nine in ten within", "bias"};

std::vector<std::string> figures(const std::string& name, const Accuracy& a) {
  return {name,
          std::to_string(a.step_times),
          percent(a.mape),
          percent(a.median_ape),
          percent(a.p90_ape),
          signed_percent(a.bias)};
}

// A table over groups of the trusted runs; groups without a step time are left out.
std::string groups_table(const std::string& what, const std::vector<ValidatedRun>& runs,
                         const std::vector<std::pair<std::string, Choice>>& groups) {
  std::vector<std::string> header = {what};
  header.insert(header.end(), kFigures.begin(), kFigures.end());
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, chosen] : groups) {
    const Accuracy a = accuracy_of(runs, [&](const ValidatedRun& run) { return run.trusted && chosen(run); });
    if (a.step_times > 0) rows.push_back(figures(name, a));
  }
  return markdown_table(header, rows);
}

std::vector<std::pair<std::string, Choice>> groups_by(const std::vector<ValidatedRun>& runs,
                                                      std::string RunTraits::*trait) {
  std::set<std::string> names;
  for (const ValidatedRun& run : runs) names.insert(run.traits.*trait);
  std::vector<std::pair<std::string, Choice>> groups;
  for (const std::string& name : names) {
    groups.emplace_back(name, [name, trait](const ValidatedRun& run) { return run.traits.*trait == name; });
  }
  return groups;
}

std::vector<std::pair<std::string, Choice>> plan_kinds() {
  const auto by = [](const auto& holds) { return [holds](const ValidatedRun& run) { return holds(run.traits); }; };
  return {{"one GPU", by([](const RunTraits& r) { return r.gpus == 1; })},
          {"one node", by([](const RunTraits& r) { return r.gpus > 1 && r.nodes == 1; })},
          {"several nodes", by([](const RunTraits& r) { return r.nodes > 1; })},
          {"more than 256 GPUs", by([](const RunTraits& r) { return r.gpus > 256; })},
          {"tensor parallel", by([](const RunTraits& r) { return r.tp > 1; })},
          {"pipeline parallel", by([](const RunTraits& r) { return r.pp > 1; })},
          {"context parallel", by([](const RunTraits& r) { return r.cp > 1; })},
          {"data parallel alone", by([](const RunTraits& r) { return r.gpus > 1 && r.tp * r.pp * r.cp == 1; })},
          {"ZeRO-1", by([](const RunTraits& r) { return r.zero == 1; })},
          {"ZeRO-2", by([](const RunTraits& r) { return r.zero == 2; })},
          {"ZeRO-3 or FSDP", by([](const RunTraits& r) { return r.zero == 3; })},
          {"no recompute", by([](const RunTraits& r) { return r.recompute == "none"; })},
          {"selective recompute", by([](const RunTraits& r) { return r.recompute == "selective"; })},
          {"full recompute", by([](const RunTraits& r) { return r.recompute == "full"; })},
          {"some blocks recomputed", by([](const RunTraits& r) { return r.recompute == "blocks"; })},
          {"fp32 or tf32", by([](const RunTraits& r) { return r.precision == "fp32" || r.precision == "tf32"; })},
          {"fp16 or bf16", by([](const RunTraits& r) { return r.precision == "fp16" || r.precision == "bf16"; })},
          {"fp8", by([](const RunTraits& r) { return r.precision == "fp8"; })}};
}

std::string summary(const AccuracyPage& page, const std::vector<ValidatedRun>& runs) {
  const Accuracy all = accuracy_of(runs, [](const ValidatedRun& run) { return run.trusted; });
  const Accuracy kept = accuracy_of(
      runs, [&](const ValidatedRun& run) { return run.trusted && !page.notes.flags.contains(run.comparison->name); });
  std::size_t sources = 0;
  double mean = 0;
  for (const Validation::Source& s : page.validation.sources) {
    if (!is_trusted(std::filesystem::path(s.path).stem().string()) || !s.accuracy.mape) continue;
    mean += *s.accuracy.mape;
    ++sources;
  }
  std::vector<std::string> header = {"step time"};
  header.insert(header.end(), kFigures.begin(), kFigures.end());
  std::string text = markdown_table(header, {figures("all runs", all), figures("without runs that look wrong", kept)});
  if (sources > 0) {
    text += fmt::format("Each of the {} sources counted alike, the mean error of the step time is {}.\n", sources,
                        percent(mean / static_cast<double>(sources)));
  }
  if (all.memory_mape) {
    text +=
        fmt::format("Memory of the fullest GPU: mean error {} over {} runs.\n", percent(all.memory_mape), all.memories);
  }
  if (all.oom_accuracy) {
    text +=
        fmt::format("Whether a run fits is predicted right for {} of {} runs", percent(all.oom_accuracy), all.cases);
    if (all.oom_found)
      text += fmt::format("; of {} that ran out of memory {} are found", all.out_of_memory, percent(all.oom_found));
    text += ".\n";
  }
  if (all.pairwise_order_accuracy) {
    text += fmt::format("Which of two runs of a source with the same work is faster: right for {} of {} pairs",
                        percent(all.pairwise_order_accuracy), all.pairs);
    if (all.same_model_order_accuracy) {
      text += fmt::format(", and for {} of {} pairs with the same model", percent(all.same_model_order_accuracy),
                          all.same_model_pairs);
    }
    text += ".\n";
  }
  return text + "\n";
}

std::string sources_left_out(const AccuracyPage& page) {
  if (page.left_out.empty()) return "";
  std::vector<LeftOut> worst(page.left_out.begin(), page.left_out.end());
  const MeanLeftOut mean = mean_of(worst);
  std::string text = fmt::format(
      "## Sources that the fit has not seen\n\n"
      "The few factors of `hardware/calibrated/steps.yaml` are fitted to these runs. Fitted to all sources but one, "
      "they\n"
      "predict that one {} off on average, {} if it is seen (mean over {} sources): {:.2f} times.\n\n",
      percent(mean.error_out), percent(mean.error_in), worst.size(), mean.error_out / std::max(mean.error_in, 1e-9));
  std::stable_sort(worst.begin(), worst.end(), [](const LeftOut& a, const LeftOut& b) {
    return a.error_out - a.error_in > b.error_out - b.error_in;
  });
  worst.resize(std::min<std::size_t>(worst.size(), 8));
  std::vector<std::vector<std::string>> rows;
  for (const LeftOut& r : worst) {
    rows.push_back({r.source, std::to_string(r.rows), percent(r.error_in), percent(r.error_out)});
  }
  return text + "Those that lose most:\n\n" + markdown_table({"source", "runs", "seen", "not seen"}, rows);
}

std::string error_bars(const AccuracyPage& page, const Coverage& coverage) {
  std::string text = "## Error bars\n\n";
  text +=
      "`step_time_range_s` comes from the errors of the measured runs that are most like the case (same GPU, links,\n"
      "framework, scale, model size, plan), and grows with their distance. Left out a whole source at a time, ";
  text += fmt::format(
      "{} of\n{} runs are in their range; each source counted alike, {}. The mean range of a run left out is from\n"
      "{} to {} of the middle of its range. The same runs served to draw up the framework profiles and to fit a few\n"
      "factors of frameworks and GPUs, which is not redone for every source left out: expect somewhat more on "
      "machines\n"
      "and frameworks of your own.\n\n",
      percent(coverage.of_runs), page.bars.residuals.size(), percent(coverage.of_sources),
      signed_percent(std::expm1(-coverage.mean_width / 2)), signed_percent(std::expm1(coverage.mean_width / 2)));
  const auto reliability = order_reliability(page.files, page.validation, page.notes.flags, page.bars.model);
  std::vector<std::vector<std::string>> rows;
  for (const OrderReliability& r : reliability) {
    if (r.pairs == 0) continue;
    rows.push_back({fmt::format("{:.0f} to {:.0f} %", 100 * r.from, 100 * r.to), std::to_string(r.pairs),
                    percent(r.said), percent(r.right)});
  }
  text +=
      "How often the order of two runs of a source with the same work is right, by the likelihood it is given\n"
      "(each source counted alike):\n\n";
  return text + markdown_table({"likelihood", "pairs", "said", "right"}, rows);
}

std::string by_source(const AccuracyPage& page, const std::vector<ValidatedRun>& runs, const Coverage& coverage) {
  std::vector<std::vector<std::string>> trusted, others;
  for (const Validation::Source& s : page.validation.sources) {
    const std::string name = std::filesystem::path(s.path).stem().string();
    const Accuracy& a = s.accuracy;
    const auto of = std::find_if(coverage.sources.begin(), coverage.sources.end(),
                                 [&](const Coverage::OfSource& c) { return c.source == name; });
    const std::string inside = of == coverage.sources.end() ? "-" : fmt::format("{} of {}", of->inside, of->runs);
    const std::string linked = !s.url.starts_with("http") ? name : fmt::format("[{}]({})", name, s.url);
    (is_trusted(name) ? trusted : others)
        .push_back({linked, std::to_string(a.step_times), std::to_string(s.refused), percent(a.mape),
                    percent(a.median_ape), signed_percent(a.bias), inside, percent(a.memory_mape),
                    percent(a.oom_accuracy), percent(a.pairwise_order_accuracy)});
  }
  const std::vector<std::string> header = {
      "source", "runs", "refused", "mean error", "median", "bias", "in range left out", "memory", "fits", "order"};
  std::string text = "## By source\n\n" + markdown_table(header, trusted);
  if (!others.empty()) {
    const Accuracy low = accuracy_of(runs, [](const ValidatedRun& run) { return !run.trusted; });
    text += fmt::format(
        "Sources of low trust (-low) and those described with more than the base fields (-ext) are in no other figure\n"
        "of this page; the mean error of their {} runs with a step time is {}.\n\n",
        low.step_times, percent(low.mape));
    text += markdown_table(header, others);
  }
  return text;
}

std::string peers_table(const AccuracyPage& page, const std::vector<ValidatedRun>& runs) {
  if (page.peers.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const Peer& peer : page.peers) {
    const Accuracy ours = accuracy_of(runs, [&](const ValidatedRun& run) {
      return std::find(peer.sources.begin(), peer.sources.end(), run.source) != peer.sources.end();
    });
    rows.push_back({fmt::format("[{}]({}), {}", peer.predictor, peer.url, peer.claimed ? "claimed" : "run by us"),
                    percent(peer.error), percent(ours.mape), std::to_string(ours.step_times), peer.rows,
                    peer.settings});
  }
  return "## Other predictors on the same runs\n\n" +
         markdown_table({"predictor", "its mean error", "ours", "our runs", "its runs", "its settings"}, rows);
}

// Runs of trusted sources, the worst first.
std::vector<const ValidatedRun*> worst_first(const std::vector<ValidatedRun>& runs) {
  std::vector<const ValidatedRun*> worst;
  for (const ValidatedRun& run : runs) {
    if (run.trusted && run.comparison->error()) worst.push_back(&run);
  }
  std::stable_sort(worst.begin(), worst.end(), [](const ValidatedRun* a, const ValidatedRun* b) {
    return std::abs(std::log1p(*a->comparison->error())) > std::abs(std::log1p(*b->comparison->error()));
  });
  return worst;
}

std::string where_wrong(const AccuracyPage& page, const std::vector<ValidatedRun>& runs) {
  constexpr double kBiased = 0.10;
  constexpr std::size_t kWorst = 25;
  std::string text = "## Where we are wrong\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const Validation::Source& s : page.validation.sources) {
    const std::string name = std::filesystem::path(s.path).stem().string();
    if (!is_trusted(name) || !s.accuracy.bias || std::abs(*s.accuracy.bias) < kBiased) continue;
    rows.push_back({name, std::to_string(s.accuracy.step_times), signed_percent(s.accuracy.bias),
                    *s.accuracy.bias < 0 ? "predicted too fast" : "predicted too slow"});
  }
  if (!rows.empty()) {
    text +=
        fmt::format("Sources predicted {:.0f} % or more to one side, so that it is not scatter:\n\n", 100 * kBiased);
    text += markdown_table({"source", "runs", "bias", ""}, rows);
  }
  text += "The worst runs:\n\n";
  rows.clear();
  for (const ValidatedRun* run : worst_first(runs)) {
    if (rows.size() == kWorst) break;
    const Comparison& c = *run->comparison;
    const auto flag = page.notes.flags.find(c.name);
    rows.push_back({c.name, fmt::format("{} x {}", run->traits.gpus, run->traits.gpu), run->traits.software,
                    seconds(*c.measured_step_time_s), seconds(*c.predicted_step_time_s), signed_percent(c.error()),
                    flag == page.notes.flags.end() ? "" : flag->second});
  }
  text += markdown_table(
      {"run", "GPUs", "framework", "measured", "predicted", "error", "what looks wrong with the run"}, rows);

  text +=
      "Runs that look wrong when compared with others of their source. They are in the tables above, but neither is\n"
      "anything fitted to them nor do they count for error bars:\n\n";
  std::map<std::string, std::vector<const ValidatedRun*>> by_reason;
  for (const ValidatedRun& run : runs) {
    const auto flag = page.notes.flags.find(run.comparison->name);
    if (flag != page.notes.flags.end()) by_reason[flag->second].push_back(&run);
  }
  rows.clear();
  for (const auto& [reason, flagged] : by_reason) {
    std::string names;
    std::vector<Comparison> comparisons;
    for (const ValidatedRun* run : flagged) {
      names += (names.empty() ? "" : ", ") + run->comparison->name;
      comparisons.push_back(*run->comparison);
    }
    const Accuracy a = accuracy(comparisons);
    rows.push_back({reason, signed_percent(a.bias), names});
  }
  return text + markdown_table({"what looks wrong", "mean error", "runs"}, rows);
}

std::string words_of(const std::map<std::string, config::Node>& set) {
  std::vector<std::string> words;
  for (const auto& [field, value] : set) {
    words.push_back(fmt::format("`{}: {}`", field, value.is_scalar() ? value.scalar() : "..."));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string corrections(const AccuracyPage& page) {
  std::vector<std::vector<std::string>> rows;
  for (const Correction& correction : page.notes.corrections) {
    std::size_t runs = 0;
    for (const MeasuredFile& file : page.files) {
      runs += static_cast<std::size_t>(std::count_if(
          file.cases.begin(), file.cases.end(), [&](const MeasuredCase& c) { return correction.concerns(c.name); }));
    }
    if (runs > 0) {
      rows.push_back({fmt::format("{}", fmt::join(correction.runs, ", ")), std::to_string(runs),
                      words_of(correction.set), correction.why, correction.source});
    }
  }
  if (rows.empty()) return "";
  return "## Read with corrections\n\nFields of these runs were written down wrongly, or guessed where a source says "
         "more\n(tests/validation/flags.yaml).\n\n" +
         markdown_table({"runs", "how many", "read as", "why", "source"}, rows);
}

std::string refusals(const AccuracyPage& page) {
  std::map<std::string, std::size_t> counts;
  for (const Refusal& r : page.validation.refused) ++counts[r.why];
  if (counts.empty()) return "";
  std::vector<std::pair<std::string, std::size_t>> reasons(counts.begin(), counts.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::vector<std::string>> rows;
  for (const auto& [why, count] : reasons) rows.push_back({why, std::to_string(count)});
  return fmt::format(
             "## Refused\n\n{} runs need what is not simulated; they are refused by name, not predicted without "
             "it.\n\n",
             page.validation.refused.size()) +
         markdown_table({"feature", "runs"}, rows);
}

}  // namespace

std::string accuracy_markdown(const AccuracyPage& page) {
  const std::vector<ValidatedRun> runs = validated_runs(page.files, page.validation);
  const Coverage coverage = leave_sources_out(page.bars);
  std::string text =
      "# Accuracy\n\n"
      "Written by `foretrain validate --markdown`; do not edit. Predictions beside published runs of training\n"
      "(tests/validation/measured). An error is predicted / measured - 1: negative is predicted too fast.\n\n";
  text += summary(page, runs);
  text += sources_left_out(page);
  text += error_bars(page, coverage);
  text += by_source(page, runs, coverage);
  text += "## By GPU\n\n" + groups_table("GPU", runs, groups_by(runs, &RunTraits::gpu));
  text += "## By framework\n\n" + groups_table("framework", runs, groups_by(runs, &RunTraits::software));
  text += "## By kind of plan\n\n" + groups_table("plan", runs, plan_kinds());
  text += peers_table(page, runs);
  text += where_wrong(page, runs);
  text += corrections(page);
  text += refusals(page);
  text.pop_back();  // the blank line after the last table
  return text;
}

}  // namespace foretrain
