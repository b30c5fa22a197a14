#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/config/tree.h"

namespace foretrain {

struct DataFolder;

// Fields of published runs that their file has wrong, as a source says that is nearer to the run.
struct Correction {
  std::vector<std::string> runs;            // patterns of names, in which * is any text
  std::map<std::string, config::Node> set;  // fields of a case ("cluster.net"), and what they are
  std::string why, source;

  bool concerns(std::string_view run) const;
};

// What is known of published runs beside the files they stand in.
struct RunNotes {
  std::map<std::string, std::string> flags;  // runs that look wrong, and why: nothing is fitted to them
  std::vector<Correction> corrections;
};

// Reads `flags:`, a map from names of runs to what is wrong with them, and `corrections:`, a list of {runs, set:
// {FIELD: VALUE}, why, source}; either may be absent. nullopt after reporting what is wrong.
std::optional<RunNotes> load_run_notes(const std::string& path, Diagnostics& diagnostics);
// Those on the runs of tests/validation/measured; none where the data came without these.
std::optional<RunNotes> load_run_notes(const DataFolder& data, Diagnostics& diagnostics);

// The case with what the notes on the run of this name say of its fields.
config::Node corrected(const config::Node& run_case, std::string_view run, const RunNotes& notes);

}  // namespace foretrain
