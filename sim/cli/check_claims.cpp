#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/report/case_figures.h"
#include "sim/report/claims_report.h"

namespace foretrain::cli {
namespace {

struct ClaimsOptions : CommonOptions {
  std::vector<std::string> files;
  bool every_claim = false;
};

// The files of scenarios/claims, where the user named none.
std::vector<std::string> files_of(const ClaimsOptions& options, const DataFolder& data, Diagnostics& diagnostics) {
  if (!options.files.empty()) return options.files;
  std::vector<std::string> paths;
  std::error_code unreadable;
  const std::string folder = data.path + "/scenarios/claims";
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) diagnostics.error({}, message("there are no claims in {}; name a file", folder));
  return paths;
}

std::vector<ClaimFile> load_files(const ClaimsOptions& options, const DataFolder& data, Diagnostics& diagnostics) {
  std::vector<ClaimFile> files;
  for (const std::string& path : files_of(options, data, diagnostics)) {
    if (std::optional<ClaimFile> file = load_claims(path, data, diagnostics)) files.push_back(std::move(*file));
  }
  return files;
}

int check_claims(const ClaimsOptions& options) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  const std::vector<ClaimFile> files = data ? load_files(options, *data, diagnostics) : std::vector<ClaimFile>{};
  const auto environment = data ? load_environment(*data, diagnostics) : std::nullopt;
  print(diagnostics, options.words, options.quiet);
  if (diagnostics.has_errors() || !environment) return kBadInput;

  const SimulateFigures simulate = [&](const Case& c) {
    return report::case_figures(simulate_case(c, *environment, {.with_advice = false}));
  };
  Diagnostics unknown_metrics;
  const std::vector<JudgedClaim> claims = judge_claims(files, simulate, threads_of(options), unknown_metrics);
  print(unknown_metrics, options.words);
  if (unknown_metrics.has_errors()) return kBadInput;
  const int delivered =
      deliver(options, [&] { return report::claims_table(claims, standard_output(options), options.every_claim); },
              {{options.json, [&] { return report::claims_json(claims); }}});
  int failures = 0;
  for (const JudgedClaim& claim : claims) {
    if (claim.failure.empty()) continue;
    ++failures;
    fmt::print(stderr, "foretrain: internal error in {}: {}\n", claim.claim->id, claim.failure);
  }
  return delivered == kAnswered && failures > 0 ? kOwnFault : delivered;
}

}  // namespace

Command check_claims_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("check-claims", words("judge what is said about training by simulating it"));
  const auto options = starting_from<ClaimsOptions>(common);
  parser.add_option("FILE", options->files, words("claims (YAML); default: all of scenarios/claims"));
  parser.add_flag("--all", options->every_claim, words("show claims that cannot be judged in full, too"));
  add_output_options(parser, *options, false);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain check-claims"}, {"foretrain check-claims my-claims.yaml --json - | jq '.claims[] | {id, verdict}'"}},
      words("A claim is confirmed if it holds under every condition it is tested under, depends if it holds under "
            "some, wrong\nif under none. One that needs something that is not simulated yet says so."));
  return {&parser, [options] { return check_claims(*options); }};
}

}  // namespace foretrain::cli
