#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

using namespace foretrain::testing;
using nlohmann::json;

TEST_CASE("lessons are listed, by name and title") {
  const Outcome o = run_program("lesson");
  CHECK(o.status == 0);
  CHECK(o.err == "");
  CHECK(contains(o.out, "nvlink"));
  CHECK(contains(o.out, "Where does a pipeline's bubble come from?"));
  CHECK(json::parse(run_program("lesson --json -").out)["lessons"].size() >= 8);
  CHECK(contains(run_program("lesson --help").out, "Examples:\n  foretrain "));
}

TEST_CASE("a lesson ends with what was measured; the same bytes from any number of threads") {
  const Outcome o = run_program("lesson recompute");
  CHECK(o.status == 0);
  CHECK(o.err == "");
  CHECK(contains(o.out, "1. None, part or all of a layer"));
  CHECK(contains(o.out, "seqsel-t5-22b-full"));
  CHECK(contains(o.out, "https://arxiv.org/abs/2205.05198"));
  CHECK_FALSE(contains(o.out, "does not hold"));
  const std::string one = run_program("lesson recompute --threads 1 --json -").out;
  CHECK(json::parse(one)["measured"].size() == 4);
  CHECK(one == run_program("lesson recompute --threads 4 --json -").out);
}

TEST_CASE("there is no such lesson: status 2, what there is, and nothing on standard output") {
  const Outcome o = run_program("lesson nvlnk");
  CHECK(o.status == 2);
  CHECK(o.out == "");
  CHECK(contains(o.err, "did you mean 'nvlink'"));
  CHECK(contains(o.err, "bubble"));
  const Folder folder;
  CHECK(run_program("lesson " + (folder / "missing.yaml")).status == 2);
  write_file(folder / "mine.yaml", "title: T\ntext: U\nsteps: [{title: S}]\n");
  const Outcome wrong = run_program("lesson " + (folder / "mine.yaml"));
  CHECK(wrong.status == 2);
  CHECK(wrong.out == "");
  CHECK(contains(wrong.err, (folder / "mine.yaml") + ":3:"));
  CHECK(contains(wrong.err, "text"));
}
