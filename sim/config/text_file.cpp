#include "sim/config/text_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace foretrain::config {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// nullopt with errno set if it cannot be read.
std::optional<std::string> read_bytes(const std::string& path, std::size_t most) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) return std::nullopt;
  std::string text;
  char chunk[1 << 16];
  while (text.size() <= most) {
    const std::size_t got = std::fread(chunk, 1, sizeof chunk, file.get());
    text.append(chunk, got);
    if (got < sizeof chunk) break;
  }
  if (std::ferror(file.get()) != 0) return std::nullopt;
  return text;
}

}  // namespace

std::optional<std::string> read_text_file(const std::string& path, std::size_t most, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_bytes(path, most);
  if (!text) {
    const Message reason = system_error(errno);
    diagnostics.error({std::make_shared<const std::string>(path), 0, 0}, message("cannot be read: {}", reason));
  }
  return text;
}

std::string path_named_by(const Node& value) {
  const std::filesystem::path path(value.scalar());
  const bool in_a_file = value.position.file && value.position.line > 0;
  if (path.is_absolute() || !in_a_file) return path.string();
  return (std::filesystem::path(*value.position.file).parent_path() / path).string();
}

}  // namespace foretrain::config
