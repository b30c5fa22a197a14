#include "sim/report/validation_names.h"

#include <filesystem>

namespace foretrain::report {

std::string source_name(const std::string& path) { return std::filesystem::path(path).stem().string(); }

const char* name_of(Measured::MemoryKind kind) {
  switch (kind) {
    case Measured::MemoryKind::allocated:
      return "allocated";
    case Measured::MemoryKind::reserved:
      return "reserved";
    case Measured::MemoryKind::device:
      return "device";
  }
  return "allocated";
}

}  // namespace foretrain::report
