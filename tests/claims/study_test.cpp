// The claims of scenarios/claims against what a study of public reports made of them (study.yaml). The study's verdicts
// are used here only: the program's come from simulated figures.

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/support/claims.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

std::vector<ClaimFile> claim_files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(FORETRAIN_SOURCE_DIR "/scenarios/claims")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<ClaimFile> files;
  for (const std::string& path : paths) files.push_back(claim_file(path));
  return files;
}

struct Study {
  std::string verdict;  // right, mostly-right, depends, wrong, unsupported, out-of-scope
  std::string ours;     // where ours is another, and known to be
};

std::map<std::string, Study> studies() {
  Diagnostics diagnostics;
  const auto document = config::parse_yaml_file(FORETRAIN_SOURCE_DIR "/tests/claims/study.yaml", diagnostics);
  REQUIRE(document);
  std::map<std::string, Study> result;
  for (const auto& entry : document->find("study")->map()) {
    config::MapReader reader(entry.value, diagnostics, entry.key);
    Study& study = result[entry.key];
    study.verdict = reader.required_text("verdict");
    study.ours = reader.text("ours").value_or("");
    CHECK(reader.has("why") == !study.ours.empty());  // a difference has a reason
    reader.finish();
  }
  REQUIRE_FALSE(diagnostics.has_errors());
  return result;
}

bool agree(const std::string& study, ClaimVerdict ours) {
  if (study == "right") return ours == ClaimVerdict::confirmed;
  if (study == "mostly-right") return ours == ClaimVerdict::confirmed || ours == ClaimVerdict::depends;
  if (study == "depends") return ours == ClaimVerdict::depends;
  if (study == "wrong") return ours == ClaimVerdict::wrong;
  if (study == "unsupported") return ours == ClaimVerdict::wrong || ours == ClaimVerdict::depends;
  return ours == ClaimVerdict::out_of_scope;
}

}  // namespace

TEST_CASE("verdicts agree with a study of public reports, or say why not") {
  const std::vector<ClaimFile> files = claim_files();
  std::map<std::string, Study> study = studies();
  for (const JudgedClaim& claim : simulated_claims(files)) {
    const std::string& id = claim.claim->id;
    CAPTURE(id);
    CHECK(claim.failure.empty());
    REQUIRE_MESSAGE(study.contains(id), "add it to tests/claims/study.yaml");
    const Study found = study.at(id);
    study.erase(id);
    // Prices and the like can be judged by no simulated step whatever the study says.
    if (!claim.waits_for.empty() || claim.verdict == ClaimVerdict::out_of_scope) continue;
    CAPTURE(found.verdict);
    CAPTURE(to_string(claim.verdict));
    if (found.ours.empty()) {
      CHECK_MESSAGE(agree(found.verdict, claim.verdict), "explain it with `ours` and `why` in tests/claims/study.yaml");
    } else {
      CHECK(found.ours == to_string(claim.verdict));
    }
  }
  for (const auto& [id, left] : study) FAIL_CHECK(id << " is in study.yaml and not in scenarios/claims");
}

TEST_CASE("claims have evidence or a reason, and conditions where they have several checks") {
  for (const ClaimFile& file : claim_files()) {
    CAPTURE(file.path);
    CHECK_FALSE(file.title.empty());
    for (const Claim& claim : file.claims) {
      CAPTURE(claim.id);
      CHECK((!claim.checks.empty() || !claim.needs.empty() || !claim.out_of_scope.empty()));
      for (const Check& check : claim.checks) CHECK_FALSE(check.when.empty());
    }
  }
}
