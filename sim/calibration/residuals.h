#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibration/validate.h"

namespace foretrain {

// What two runs have in common or not, as far as it bears on how well they are predicted. Words are those of scenarios.
struct RunTraits {
  std::string gpu, architecture;
  std::string software, family;  // framework profile, and the profile its line of `inherits` ends at
  std::string intra = "none";    // links between the GPUs of a node; "none" with one GPU a node
  std::string network = "none";  // between nodes; "none" on one node
  std::string precision, attention;
  std::string recompute = "none";
  int gpus = 1, nodes = 1;
  std::int64_t parameters = 0, seq_len = 0;
  int tp = 1, pp = 1, zero = 0, cp = 1;
};
RunTraits traits_of(const Case& subject);

// A published run with a step time, beside its prediction.
struct Residual {
  std::string name;
  std::string source;  // its measured file, without folder and extension
  RunTraits run;
  double log_error = 0;  // ln(predicted / measured)
};

// Whether the runs of a source count: not those of low trust ("NAME-low"), nor those that are described with more than
// the base fields of a scenario ("NAME-ext").
bool is_trusted(std::string_view source);

// The measured runs of validated files that count and have a step time, sorted by source and name; those named in
// `left_out` (runs that look wrong) are not among them. `files` are those that were validated. Errors are rounded to
// what the file of residuals holds, so that writing and reading changes nothing.
std::vector<Residual> residuals_of(std::span<const MeasuredFile> files, const Validation& validation,
                                   const std::map<std::string, std::string>& left_out);

// Residuals as comma-separated values, one a line below the names of the columns. `head` lines come first, each behind
// "#: "; those of the form "KEY: NUMBER" are settings, the others for people.
std::string residuals_csv(std::span<const Residual> residuals, std::span<const std::string> head);

// The same read back. Everything wrong is reported with its place; nullopt then. At most 100,000 rows.
struct ResidualFile {
  std::vector<Residual> rows;
  std::map<std::string, double> settings;  // the numbers of the head
};
std::optional<ResidualFile> read_residuals(std::string_view text, const std::string& file_name,
                                           Diagnostics& diagnostics);

}  // namespace foretrain
