#include <doctest/doctest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

using namespace foretrain::testing;
using nlohmann::json;

namespace {

const char* const kPipeline = R"(title: A pipeline
base:
  model: {arch: gpt, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}
  train: {seq_len: 1024, global_batch: 16, precision: bf16}
  software: megatron-lm
  cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}
cases:
  - name: plain
    plan: {pp: 4, micro_batch: 1}
  - name: in "turns"
    plan: {pp: 4, vpp: 2, micro_batch: 1}
)";

struct TracedScenario {
  Folder folder;
  std::string file = folder / "question.yaml";
  TracedScenario() { write_file(file, kPipeline); }
  std::string run(const std::string& arguments) const { return "run " + file + " " + arguments; }
};

std::string inflated(const std::string& path) {
  std::string text;
  const gzFile file = gzopen(path.c_str(), "rb");
  char buffer[4096];
  for (int got = 0; (got = gzread(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  CHECK(gzclose(file) == Z_OK);
  return text;
}

}  // namespace

TEST_CASE("a trace is written beside the table; what it leaves out is a note") {
  const TracedScenario s;
  const Outcome o = run_program(s.run("--case plain --trace " + (s.folder / "step.json")));
  CHECK(o.status == 0);
  CHECK(contains(o.out, "step time"));
  CHECK(o.err == "foretrain: note: the trace shows 4 of 8 ranks; each stands for ranks that cannot differ from it\n");
  CHECK(json::accept(read_file(s.folder / "step.json")));
  CHECK(run_program(s.run("--quiet --trace " + (s.folder / "quiet.json"))).err == "");
}

TEST_CASE("compressed it is the same, and on standard output too; the same bytes each time") {
  const TracedScenario s;
  CHECK(run_program(s.run("--trace " + (s.folder / "step.json"))).status == 0);
  CHECK(run_program(s.run("--threads 1 --trace " + (s.folder / "step.json.gz"))).status == 0);
  const std::string plain = read_file(s.folder / "step.json"), packed = read_file(s.folder / "step.json.gz");
  CHECK(packed.size() < plain.size() / 4);
  CHECK(inflated(s.folder / "step.json.gz") == plain);
  CHECK(run_program(s.run("--trace -")).out == plain);
  CHECK(run_program(s.run("--threads 4 --trace " + (s.folder / "again.json.gz"))).status == 0);
  CHECK(read_file(s.folder / "again.json.gz") == packed);
}

TEST_CASE("kernels are shown if they are asked for") {
  const TracedScenario s;
  const std::string plain = run_program(s.run("--trace -")).out;
  const std::string expanded = run_program(s.run("--trace-kernels --trace -")).out;
  CHECK_FALSE(contains(plain, "qkv gemm"));
  CHECK(contains(expanded, "qkv gemm"));
  CHECK(run_program(s.run("--trace-kernels")).status == 2);
}

TEST_CASE("a trace that cannot be written: status 2, why, and nothing else is written") {
  const TracedScenario s;
  const std::string bad = s.folder / "no-such-folder/step.json";
  const Outcome o = run_program(s.run("--json " + (s.folder / "a.json") + " --trace " + bad));
  CHECK(o.status == 2);
  CHECK(o.out == "");
  CHECK(contains(o.err, "cannot write " + bad + ": No such file or directory"));
  CHECK_FALSE(std::filesystem::exists(s.folder / "a.json"));
  const Outcome full = run_program(s.run("--trace /dev/full"));
  CHECK(full.status == 2);
  CHECK(contains(full.err, "cannot write /dev/full: No space left on device"));
  CHECK(run_program(s.run("--trace - --json -")).status == 2);
  CHECK(run_program(s.run("--trace " + (s.folder / "a") + " --json " + (s.folder / "a"))).status == 2);
}
