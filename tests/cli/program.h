#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace foretrain::testing {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A folder of a test's own, removed at its end.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "foretrain-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Outcome {
  int status = -1;  // 128 + signal if it was killed
  std::string out, err;
};

// Runs the built program from the source folder through the shell: `arguments` are quoted by the caller, `before` may
// set variables of the environment. It speaks English whatever the locale of whoever runs the tests.
inline Outcome run_program(const std::string& arguments, const std::string& before = "") {
  const Folder folder;
  const std::string command = "cd '" FORETRAIN_SOURCE_DIR "' && LC_ALL=C.UTF-8 " + before + " '" FORETRAIN_BINARY "' " + arguments +
                              " >'" + (folder / "out") + "' 2>'" + (folder / "err") + "' </dev/null";
  const int result = std::system(command.c_str());
  Outcome outcome;
  outcome.status = WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
  outcome.out = read_file(folder / "out");
  outcome.err = read_file(folder / "err");
  return outcome;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace foretrain::testing
