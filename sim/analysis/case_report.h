#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/analysis/breakdown.h"
#include "sim/analysis/elasticity.h"
#include "sim/analysis/step_factors.h"
#include "sim/base/message.h"
#include "sim/memory/host_ledger.h"
#include "sim/memory/ledger.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

// The constants that all cases of a run share, loaded once.
struct Environment {
  DataFolder data;
  LinkRates link_rates;
  CollectiveConstants collectives;
  StepFactors factors;
  HostRates hosts;
};
std::optional<Environment> load_environment(const DataFolder& data, Diagnostics& diagnostics);

// The memory of one pipeline stage's GPU at the worst moment of the step: of that which has least left.
struct StagePeak {
  int stage = 0;
  Plan::Share share;  // of the batch, where data-parallel ranks differ
  MemoryParts parts;  // at the moment of the peak
  MemoryFigures figures;
  Bytes needed;    // what must fit
  Bytes capacity;  // of that GPU
};

// A change that would make a case fit, and what is then needed.
struct FittingChange {
  std::string what;  // "micro_batch: 2", "recompute: full", "zero: 3"
  Bytes needed;
  std::optional<Time> step_time;
};

// How far a prediction may be off: what the errors of published runs that resemble the case say.
struct ErrorBar {
  double low_s = 0, high_s = 0;  // nine in ten such runs take a step time in between
  enum class Confidence { high, medium, low } confidence = Confidence::low;
  // The measured run that resembles the case most.
  struct Nearest {
    std::string name, source, gpu, software;
    int gpus = 0;
    double error = 0;     // of its prediction: predicted / measured - 1
    double distance = 0;  // how unlike it is: 0 alike, about 1 another GPU generation or framework
  } nearest;
};

// The answer for one case.
struct CaseReport {
  std::string name;
  Case subject;  // as simulated (micro-batch found)
  Step step;
  engine::Schedule schedule;
  Time step_time;
  double tokens_per_second = 0, samples_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  double model_tflops_per_gpu = 0;  // FLOPs the mathematics needs
  double mfu = 0;                   // of the dense peak of the run's precision
  double hfu = 0;                   // with the recomputed forward passes
  Breakdown breakdown;              // mean over all GPUs; adds up to step_time
  std::vector<Breakdown> per_class;
  double bubble_fraction = 0;
  std::optional<Elasticity> elasticity;  // absent if it was not asked for, or kMostForElasticity is exceeded
  std::vector<StagePeak> memory;         // per stage
  std::size_t fullest = 0;               // index into memory
  Bytes capacity;
  bool fits = true;  // GPUs and hosts
  // Of the host that holds most, where a plan offloads; `host_capacity` where the cluster says it.
  std::optional<HostMemory> host;
  std::optional<Bytes> host_capacity;
  bool host_fits() const { return !host || !host_capacity || host->parts.total() <= *host_capacity; }
  std::vector<FittingChange> changes;  // if it does not fit, smallest first
  // Speed per GPU against the smallest number of GPUs on which the model fits with the same node type.
  std::optional<double> scaling_efficiency;
  int scaling_baseline_gpus = 0;
  std::optional<double> hours, cost, cost_per_billion_tokens;
  std::optional<ErrorBar> error_bar;  // absent if it was not looked up
  std::vector<Message> warnings;
};

// The case with what calibration and its power limit make of its software and GPU.
Case as_simulated(const Case& subject, const Environment& environment);

// Elasticities take some twenty simulations. Of steps of more layer passes than this they would take minutes and are
// left out.
inline constexpr std::int64_t kMostForElasticity = 200'000;

struct SimulationOptions {
  Communicators::Folding folding = Communicators::Folding::symmetric;
  bool with_advice = true;      // look for fitting changes and the scaling baseline (more simulations)
  bool with_elasticity = true;  // likewise
  bool with_pieces = false;     // keep what tasks are made of (Step::pieces)
};

// Measured runs slow down by 1.2 to 2.2 when the allocator works at the limit, from about this share of a GPU's memory
// on (study of whole steps).
inline constexpr double kTightMemory = 0.93;

// Simulates one step of a case. Throws std::logic_error if the schedule deadlocks (a fault of ours), naming the tasks,
// and std::overflow_error for a step of more than kMostLayerPasses or longer than weeks.
CaseReport simulate_case(const Case& subject, const Environment& environment, const SimulationOptions& options = {});

// The step time of such a report alone: the same simulation without the account of it. `folded`: of this job, if known.
Time step_time(const Case& subject, const Environment& environment, std::shared_ptr<const FoldedJob> folded = nullptr);

// Peak memory over a simulated step, per stage.
std::vector<StagePeak> memory_peaks(const Case& subject, const Step& step);

// What a rank class's GPU holds from a moment on. The order of what happens within a pass is known, not when: such
// moments are a nanosecond apart, so that none hides another.
struct MemoryMoment {
  Time at;
  MemoryParts parts;
};
std::vector<MemoryMoment> memory_timeline(const Case& subject, const Step& step, const engine::Schedule& schedule,
                                          std::size_t rank_class);

// Most bytes of activations that a rank of each stage has in host memory at a time.
std::vector<Bytes> host_activation_peaks(const Case& subject, const Step& step);

// What a rank class still holds when the step has ended: its static parts, if the books balance.
MemoryParts bytes_left(const StageMemory& memory, const Step& step, std::size_t rank_class);

// Something that came out, in a sentence with a number, and why: each reason is a clause of its own.
struct Finding {
  Message said;
  std::vector<Message> reasons = {};
};

// Which case wins and why.
struct Verdict {
  std::string winner;                // empty if no case fits
  double ratio = 1.0;                // the runner-up's time (or cost) over the winner's
  std::vector<Finding> findings;     // of the first case's work, then of the other cases' works
  std::optional<double> likelihood;  // that winner and runner-up are in the right order

  std::string because() const;  // the findings as one text, in English
};
// How likely the order of two cases is right, given the ratio (>= 1) that is predicted; nullopt if that is not known.
using OrderLikelihood =
    std::function<std::optional<double>(const CaseReport& winner, const CaseReport& second, double ratio)>;
Verdict judge(const Scenario& scenario, const std::vector<CaseReport>& reports, const OrderLikelihood& likelihood = {});

}  // namespace foretrain
