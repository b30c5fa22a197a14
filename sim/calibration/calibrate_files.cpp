#include <fmt/format.h>

#include "sim/calibration/calibrate.h"
#include "sim/calibration/yaml_text.h"

namespace foretrain {
namespace {

constexpr const char* kHeader =
    R"(# What kernels reach in sustained training: {}
#
# Written by `foretrain calibrate` from the rows and rules in hardware/measurements: change those, not this file.
#
# matmul: fraction of the dense datasheet rate of each precision (null: not supported). memory: fraction of the
# datasheet bandwidth of a fused streaming kernel. attention: fraction of the dense bf16 (fp16) rate on causal FLOPs at
# head dim 128, prologue_tokens the sequence lost to masked diagonal blocks; null: the kernel does not run here.
# kernel_floor_us: device time of an empty kernel in a stream; elementwise_floor_us: the same for elementwise kernels of
# a training step. collective_channels: thread blocks a collective holds, one SM each. measured_on: the cards these
# figures were taken on; for any other card they stand in, and answers say so.
# kernels: what measured kernels alone say; sustained: what the value makes of it; source: why.
)";

// At most three decimals, without trailing zeros.
std::string number(double value) {
  std::string text = fmt::format("{:.3f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string figure_text(const CalibratedFigure& figure, const std::string& key, std::size_t indent) {
  const std::string pad(indent, ' '), inner(indent + 2, ' ');
  if (figure.values.empty()) return fmt::format("{}{}: null\n", pad, key);
  std::string text = fmt::format("{}{}:\n", pad, key);
  const std::vector<const char*> names =
      figure.values.size() == 3 ? std::vector{"forward", "backward", "prologue_tokens"} : std::vector{"value"};
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}: {}\n", inner, names[i], number(figure.values[i]));
  const auto line = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    const std::string start = fmt::format("{}{}: ", inner, name);
    text += start + quoted_scalar(value, start.size(), indent + 4) + "\n";
  };
  line("kernels", figure.kernels);
  line("sustained", figure.sustained);
  line("source", figure.source);
  return text;
}

}  // namespace

std::string file_text(const CalibratedFile& file) {
  std::string text = fmt::format(kHeader, file.title);
  text += fmt::format("name: {}\nmeasured_on: [{}]\n", file.name, fmt::join(file.measured_on, ", "));
  std::string section;
  for (const CalibratedFigure& figure : file.figures) {
    const std::size_t dot = figure.name.find('.');
    const std::string in = dot == std::string::npos ? "" : figure.name.substr(0, dot);
    if (in != section && !in.empty()) text += in + ":\n";
    section = in;
    text += figure_text(figure, in.empty() ? figure.name : figure.name.substr(dot + 1), in.empty() ? 0 : 2);
  }
  return text;
}

}  // namespace foretrain
