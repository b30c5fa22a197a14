#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/files.h"

namespace foretrain::testing {

struct Outcome {
  int status = -1;  // 128 + signal if it was killed
  std::string out, err;
};

// Runs the built program from the source folder through the shell: `arguments` are quoted by the caller, `before` may
// set variables of the environment. It speaks English whatever the locale of whoever runs the tests.
inline Outcome run_program(const std::string& arguments, const std::string& before = "") {
  const Folder folder;
  const std::string command = "cd '" FORETRAIN_SOURCE_DIR "' && LC_ALL=C.UTF-8 " + before + " '" FORETRAIN_BINARY "' " +
                              arguments + " >'" + (folder / "out") + "' 2>'" + (folder / "err") + "' </dev/null";
  const int result = std::system(command.c_str());
  Outcome outcome;
  outcome.status = WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
  outcome.out = read_file(folder / "out");
  outcome.err = read_file(folder / "err");
  return outcome;
}

}  // namespace foretrain::testing
