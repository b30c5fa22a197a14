#include <doctest/doctest.h>

#include "tests/cli/question.h"

using namespace foretrain::testing;
using nlohmann::json;

TEST_CASE("diagnose: normal, slow, out of memory") {
  const Question q;
  const double step = predicted_step(q, "four");
  const auto line = [](double seconds) {
    return " --line '5/3527 [04:17<63:50:18, " + std::to_string(seconds) + "s/it]'";
  };
  Outcome o = run_program("diagnose " + q.file + " --case four" + line(step));
  CHECK(o.status == 0);
  CHECK(contains(o.out, "Normal"));
  o = run_program("diagnose " + q.file + " --case four" + line(step * 6) + " --json -");
  CHECK(o.status == 0);
  json answer = json::parse(o.out);
  CHECK(answer["finding"] == "slow");
  CHECK_FALSE(answer["causes"].empty());
  write_file(q.folder / "log",
             "noise\nCUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity; 76.60 GiB "
             "already allocated; 1.18 GiB free; 77.40 GiB reserved in total by PyTorch)\n");
  o = run_program("diagnose " + q.file + " --case four --log " + (q.folder / "log") + " --json -");
  answer = json::parse(o.out);
  CHECK(answer["finding"] == "should-fit");
  CHECK(answer["out_of_memory"]["tried_bytes"] == 2147483648);
}

TEST_CASE("diagnose: wrong use is told") {
  const Question q;
  for (const std::string& wrong :
       {std::string(" --case four"), std::string(" --line '3s/it'"), std::string(" --case four --line 'no speed'"),
        std::string(" --case four --log /nowhere"), std::string(" --case four --log /"),
        std::string(" --case fuor --line '3s/it'")}) {
    CAPTURE(wrong);
    const Outcome o = run_program("diagnose " + q.file + wrong + " --json -");
    CHECK(o.status == 2);
    CHECK(o.out == "");
    CHECK(o.err != "");
  }
}
