#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/scenario/price.h"

namespace foretrain {

// One fully described question: everything a simulation needs, by value.
struct Case {
  std::string name;
  Model model;
  Train train;
  ClusterDescription cluster;
  Plan plan;
  Software software;
  bool micro_batch_auto = false;         // the largest micro-batch that fits is still to be found
  std::optional<PlanRequest> open_plan;  // the plan is still to be found, and this much of it is fixed
  std::vector<Message> assumptions;      // what was filled in on the user's behalf, a sentence each
  std::vector<Message> warnings;         // what is legal but odd; also in the loader's diagnostics
  SourcePosition position;

  using Price = foretrain::Price;
  std::optional<Price> price;  // of the whole cluster
};

// The case as if every data-parallel rank had this share of the batch.
Case with_share(Case subject, Plan::Share share);

// What somebody measured on such a case (files of measured runs only).
struct Measured {
  std::optional<double> step_time_s;
  std::optional<Bytes> memory_per_gpu;
  enum class MemoryKind { allocated, reserved, device } memory_kind = MemoryKind::allocated;
  bool out_of_memory = false;
};

// What becomes of plans that are not complete.
enum class OpenPlans {
  refused,    // `plan: auto` is reported as unsupported; other plans are completed by defaults
  automatic,  // `plan: auto` is left open (Case::open_plan); other plans are completed by defaults
  all,        // every plan is left open: what is written is fixed
};

struct Scenario {
  std::string title;
  enum class Ask { faster, cheaper, fits } ask = Ask::faster;
  std::vector<Case> cases;
};

// Loads a scenario file (design: section 6): `base` merged into every case, names resolved through the catalogues,
// plans checked. nullopt if anything is wrong; all of it is in `diagnostics`, warnings too. What was assumed is in the
// cases. Files of measured runs load as well; what was measured is then left aside.
//
// Cases without a name are called "case N". At most 10,000 cases, and a base of at most 1,000 values.
std::optional<Scenario> load_scenario(const std::string& path, const DataFolder& data, Diagnostics& diagnostics,
                                      OpenPlans open_plans = OpenPlans::refused);
// The same from a parsed document, for scenarios made of command line flags. A document without `cases` whose `base`
// describes a run is one case.
std::optional<Scenario> read_scenario(const config::Node& document, const DataFolder& data, Diagnostics& diagnostics,
                                      OpenPlans open_plans = OpenPlans::refused);

// A file of measured runs. A case that needs a feature that is not built is kept aside with the reason, and so is one
// that is faulty; neither is an error of the file.
struct MeasuredCase {
  std::string name;
  std::optional<Case> subject;  // absent if refused
  Measured measured;
  std::vector<std::string> refusals;  // why it cannot be simulated: features by name, errors as text
  bool faulty = false;                // refused for errors, not (only) for features that are not built
  std::string trust;                  // high | medium | low, as the file says; empty if it does not
};
struct MeasuredFile {
  std::string path, source_title, source_url;
  std::vector<MeasuredCase> cases;
};
// nullopt if the file cannot be read, or says wrongly what was measured. Cases are read as the notes correct them.
struct RunNotes;
std::optional<MeasuredFile> load_measured(const std::string& path, const DataFolder& data, const RunNotes& notes,
                                          Diagnostics& diagnostics);

}  // namespace foretrain
