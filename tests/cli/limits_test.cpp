#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/scenario/fields.h"
#include "tests/cli/program.h"
#include "tests/support/effort.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

// A value of the base unit as one writes it in the field's own.
std::string written(const Field& field, double value) {
  if (field.kind == Field::Kind::integer) return fmt::format("{:.0f}", value);
  Message ignored;
  return fmt::format("{}", value / config::parse_number("1", field.unit, ignored).value());
}

// "cluster.overrides=[{node: 1, factor: 0.5}]" of a field of a list, "train.seq_len=1" of any other.
std::string assignment(const Field& field, const std::string& value) {
  const std::string path(field.path);
  const std::size_t item = path.find("[].");
  if (item == std::string::npos) return path + "=" + value;
  const std::string key(field.key());
  std::string entry = key + ": " + value;
  if (key != "node") entry += ", node: 0";
  if (key != "factor") entry += ", factor: 0.5";
  return path.substr(0, item) + "=[{" + entry + "}]";
}

}  // namespace

TEST_CASE("a number at a bound of the scenario is answered or refused, one beyond it is refused, neither is a fault") {
  const Folder folder;
  // On cards with no usual network, so that a million of them are refused: simulating them takes long.
  const std::string dense = folder / "dense.yaml", experts = folder / "experts.yaml";
  write_file(dense, R"(base:
  model: {arch: llama, layers: 4, hidden: 512, heads: 8, ffn: 2048, vocab: 1000}
  cluster: {gpu: a100-pcie-80gb, gpus: 8}
  train: {seq_len: 512}
)");
  write_file(experts, R"(base:
  model: {arch: moe, layers: 4, hidden: 512, heads: 8, ffn: 2048, vocab: 1000, experts: 8, top_k: 2, expert_ffn: 64,
    mla: {q_lora: 64, kv_lora: 64, qk_nope: 32, qk_rope: 16, v: 32}}
  cluster: {gpu: a100-pcie-80gb, gpus: 8}
  train: {seq_len: 512, peft: {kind: lora}}
  plan: {ep: 2, micro_batch: 1}
)");
  int fields = 0, tried = 0;
  for (const Field& field : scenario_fields()) {
    const bool number = field.kind == Field::Kind::integer || field.kind == Field::Kind::number;
    if (!number || field.place != Field::Place::in_case) continue;
    if (fields++ % (kSanitized ? 7 : 1) != 0) continue;
    const double beyond = field.kind == Field::Kind::integer ? field.range.max + 1 : field.range.max * 1.001;
    for (const std::string& file : {dense, experts}) {
      for (const double value : {field.range.min, field.range.max, beyond}) {
        const std::string arguments =
            fmt::format("run '{}' --quiet --json /dev/null --set '{}'", file, assignment(field, written(field, value)));
        CAPTURE(arguments);
        const Outcome o = run_program(arguments);
        CAPTURE(o.err);
        CHECK((o.status == 2 || (o.status == 0 && value <= field.range.max)));
      }
    }
    ++tried;
  }
  CHECK(fields > 70);
  CHECK(tried >= fields / 7);
}
