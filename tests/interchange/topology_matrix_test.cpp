#include "sim/interchange/topology_matrix.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;

struct Outcome {
  std::optional<TopologyMatrix> matrix;
  std::string said;
};

Outcome read(const std::string& text) {
  Diagnostics diagnostics;
  Outcome outcome;
  outcome.matrix = read_topology_matrix(text, "topo.txt", diagnostics);
  outcome.said = testing::shown(diagnostics);
  CHECK(outcome.matrix.has_value() != diagnostics.has_errors());
  return outcome;
}

const std::string kTwo =
    "$ nvidia-smi topo -m\n"
    "\t\x1b[4mGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\t0-23\t0\n"
    "GPU1\tNV12\t X \tSYS\t0-23\t0\n"
    "mlx5_0\tPXB\tSYS\t X \n"
    "\nLegend:\n  X    = Self\n";

TEST_CASE("a pasted matrix is read with its colours, legend and NICs") {
  const Outcome o = read(kTwo);
  REQUIRE(o.matrix);
  CHECK(o.matrix->gpus == 2);
  CHECK(o.matrix->nics == 1);
  CHECK(o.matrix->between(0, 1).nvlinks == 12);
  CHECK(o.matrix->between(1, 0).link == TopologyLink::nvlink);
  CHECK(o.matrix->between(1, 1).link == TopologyLink::self);
  CHECK(o.matrix->to_nic(0, 0).link == TopologyLink::pxb);
  CHECK(o.matrix->to_nic(1, 0).link == TopologyLink::sys);
}

TEST_CASE("what is wrong is said with its line") {
  CHECK(contains(read("hello\n").said, "there is no table of GPUs here; paste what 'nvidia-smi topo -m' prints"));
  CHECK(contains(read("").said, "there is no table of GPUs here"));
  CHECK(contains(read("  GPU0 GPU1\nGPU0 X NV4\n").said, "the table ends after 1 of 2 GPUs; paste all of it"));
  CHECK(contains(read("  GPU0 GPU1\nGPU0 X NVX\nGPU1 NV4 X\n").said, "topo.txt:2:1: error: GPU0: 'NVX' is no link"));
  CHECK(contains(read("  GPU0 GPU1\nGPU0 X\nGPU1 NV4 X\n").said, "topo.txt:2:1: error: GPU0: the row ends early"));
  CHECK(contains(read("  GPU0 GPU1\nGPU0 X NV4\nGPU1 NV2 X\n").said,
                 "topo.txt:3:1: error: GPU0 and GPU1 have two different"));
  CHECK(contains(read("  GPU0 GPU1\nGPU0 NV4 X\nGPU1 NV4 X\n").said, "X stands on the diagonal and only there"));
  CHECK(contains(read("  GPU0 GPU1\nGPU1 NV4 X\nGPU0 X NV4\n").said,
                 "the row of 'GPU1' stands where that of GPU0 is expected"));
  CHECK(contains(read("  GPU0 GPU1 NIC0\nGPU0 X NV4 PIX\nGPU1 NV4 X\n").said, "GPU1 has 2 links and GPU0 3"));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "GPU" + std::to_string(i) + " ";
  CHECK(contains(read(many + "\n").said, "100 GPUs in one host; at most 64 are read"));
}

TEST_CASE("no damage to a text makes more than an error") {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string text = kTwo;
    for (int n = 0; n < 3; ++n) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text.erase(at, 1 + random() % 9);
      } else {
        text.insert(at, 1, static_cast<char>(random() % 128));
      }
    }
    read(text);
  }
}

}  // namespace
}  // namespace foretrain
