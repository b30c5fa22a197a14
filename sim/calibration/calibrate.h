#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/calibration/calibrate_rules.h"
#include "sim/calibration/constant_files.h"
#include "sim/calibration/fit_collectives.h"
#include "sim/calibration/fit_hosts.h"
#include "sim/calibration/fit_kernels.h"

namespace foretrain {

// One figure of a file of achieved rates and where it comes from.
struct CalibratedFigure {
  std::string name;            // "matmul.bf16", "memory", "attention.flash2", "kernel_floor_us" ...
  std::vector<double> values;  // one; attention: forward, backward, prologue; none: the card does not have it
  CalibrationRule::Kind origin = CalibrationRule::Kind::absent;
  std::vector<double> fitted;         // what the kernels' rows alone say, in the order of `values`; none without rows
  std::optional<FitQuality> quality;  // of that fit
  std::string kernels, sustained, source;  // as the file says it
};

struct CalibratedFile {
  std::string name, title;
  std::vector<std::string> measured_on;
  std::vector<CalibratedFigure> figures;  // in the order of the file
};

// A whole file of hardware/calibrated.
struct FileText {
  std::string name, text;  // without ".yaml"
};

struct Calibration {
  std::vector<CalibratedFile> files;
  std::size_t rows = 0, cards = 0;  // of the measurements
  CollectiveFit collectives;
  std::vector<ConstantFit> constants;  // what measurements say of collectives.yaml, hosts.yaml and links.yaml
  std::vector<ConstantRule> given;     // and what the rules do
  std::vector<FileText> constant_files;
  std::vector<std::string> inherited;  // cards without a file of their own: "l20-48gb as family-ada-workstation"
};

// Fits every curve and applies the rules. Fractions are rounded to 0.005 (0.01 if a single shape or another card stands
// for them), the prologue to 50 tokens, floors to half a microsecond: no figure is known better.
// nullopt after reporting: a figure that has to be measured and has no rows, rules that refer to each other in a
// circle, rows of a card whose file the rules do not have.
std::optional<Calibration> calibrate(const CalibrationRules& rules, const Measurements& measurements,
                                     const DataFolder& data, Diagnostics& diagnostics);

// Fits the constants of collectives, hosts and links and writes their files' texts. nullopt after reporting that the
// rules do not make files that can be read.
struct ConstantsCalibration {
  CollectiveFit collectives;
  std::vector<ConstantFit> constants;
  std::vector<FileText> files;
};
std::optional<ConstantsCalibration> calibrate_constants(const ConstantRules& rules,
                                                        std::span<const std::string> measurements,
                                                        const DataFolder& data, Diagnostics& diagnostics);

// The text of hardware/calibrated/<name>.yaml, always the same for the same calibration.
std::string file_text(const CalibratedFile& file);

}  // namespace foretrain
