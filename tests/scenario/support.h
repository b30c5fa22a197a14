#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/scenario/scenario.h"

namespace foretrain::testing {

inline const DataFolder kData{FORETRAIN_SOURCE_DIR};

// Every diagnostic as the user sees it, one a line.
inline std::string shown(const Diagnostics& diagnostics) {
  std::string lines;
  for (const Diagnostic& d : diagnostics.all()) lines += to_string(d) + "\n";
  return lines;
}

// A file with this text, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "foretrain-XXXXXX").string();
    const int handle = ::mkstemp(pattern.data());
    if (handle < 0) std::abort();
    ::close(handle);
    path_ = pattern;
    std::ofstream(path_, std::ios::binary) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace foretrain::testing
