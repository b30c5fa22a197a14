#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/scenario/scenario.h"
#include "tests/support/text.h"

namespace foretrain::testing {

inline const DataFolder kData{FORETRAIN_SOURCE_DIR};
inline const std::string kFolder = std::string(FORETRAIN_SOURCE_DIR) + "/tests/scenario/data/";

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
