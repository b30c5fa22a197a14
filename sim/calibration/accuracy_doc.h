#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/calibration/confidence.h"
#include "sim/calibration/step_fit.h"
#include "sim/scenario/run_notes.h"

namespace foretrain {

// What another predictor reaches on measured runs that are here too.
struct Peer {
  std::string predictor, rows, settings, url;
  bool claimed = true;               // by its authors; else run by us
  double error = 0;                  // mean of |predicted / measured - 1|
  std::vector<std::string> sources;  // files of measured runs to compare with, without folder and extension
};
// Reads `peers:`, a list of {predictor, kind: claimed | run, error (per cent), rows, settings, sources, url}.
std::optional<std::vector<Peer>> load_peers(const std::string& path, Diagnostics& diagnostics);

// The page about how good the predictions are (docs/accuracy.md): every figure is computed from the validation.
struct AccuracyPage {
  std::span<const MeasuredFile> files;  // those that were validated
  const Validation& validation;
  const RunNotes& notes;
  const ErrorBars& bars;  // of these very runs
  std::span<const Peer> peers;
  std::span<const LeftOut> left_out = {};  // of the fit of step factors; nothing is said without
};
std::string accuracy_markdown(const AccuracyPage& page);

}  // namespace foretrain
