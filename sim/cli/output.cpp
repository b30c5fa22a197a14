#include "sim/cli/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace foretrain::cli {
namespace {

// A file opened for writing whose contents are still as they were.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path) {
    created_ = ::access(path.c_str(), F_OK) != 0;
    handle_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (handle_ < 0) error_ = errno;
  }
  OpenFile(OpenFile&& other) noexcept
      : path_(std::move(other.path_)),
        handle_(std::exchange(other.handle_, -1)),
        created_(other.created_),
        error_(other.error_) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile() {
    if (handle_ >= 0) ::close(handle_);
  }

  bool is_open() const { return handle_ >= 0; }
  Message problem() const { return message("cannot write {}: {}", path_, system_error(error_)); }
  void undo() const {
    if (is_open() && created_) ::unlink(path_.c_str());
  }

  // What goes wrong from here on is told by close().
  void clear() {
    if (::ftruncate(handle_, 0) != 0 && errno != EINVAL) error_ = errno;  // EINVAL: a pipe or device
  }
  void write(std::string_view text) {
    while (error_ == 0 && !text.empty()) {
      const ssize_t written = ::write(handle_, text.data(), text.size());
      if (written < 0 && errno != EINTR) error_ = errno;
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  bool close() {
    if (::close(std::exchange(handle_, -1)) != 0 && error_ == 0) error_ = errno;
    return error_ == 0;
  }

 private:
  std::string path_;
  int handle_ = -1;
  bool created_ = false;
  int error_ = 0;
};

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string whole_text(const Output& output) {
  if (!output.stream) return output.text();
  std::string text;
  output.stream([&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace

int print_text(const std::string& text, const report::Words& words) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kAnswered;
  return fail(words, message("cannot write to standard output: {}", system_error(errno)));
}

int deliver(const CommonOptions& options, const std::function<std::string()>& table, std::vector<Output> outputs) {
  std::erase_if(outputs, [](const Output& output) { return output.path.empty(); });
  for (const Output& output : outputs) {
    const auto same = [&](const Output& other) { return other.path == output.path; };
    if (std::count_if(outputs.begin(), outputs.end(), same) > 1) {
      return fail(options.words, message("two outputs cannot both be written to {}", output.path));
    }
  }
  std::string to_terminal;
  const auto on_terminal = [](const Output& output) { return output.path == "-"; };
  if (std::none_of(outputs.begin(), outputs.end(), on_terminal) && !options.quiet) to_terminal = table();

  struct Pending {
    const Output* output;
    std::string text;
    OpenFile file;
  };
  std::vector<Pending> files;
  for (const Output& output : outputs) {
    if (on_terminal(output)) {
      to_terminal = whole_text(output);
      continue;
    }
    std::string text = output.stream ? "" : output.text();
    files.push_back({&output, std::move(text), OpenFile(output.path)});
    if (!files.back().file.is_open()) {
      for (const Pending& other : files) other.file.undo();
      return fail(options.words, files.back().file.problem());
    }
  }
  for (auto& [output, text, file] : files) {
    file.clear();
    file.write(text);
    if (output->stream) output->stream([&file = file](std::string_view piece) { file.write(piece); });
    if (!file.close()) return fail(options.words, file.problem());
  }
  return print_text(to_terminal, options.words);
}

std::optional<page::Template> page_template(const CommonOptions& options, const DataFolder& data,
                                            Diagnostics& diagnostics) {
  return options.html.empty() ? std::nullopt : page::load_template(data, diagnostics);
}

page::Origin origin_of(const CommonOptions& options) { return {options.command, FORETRAIN_VERSION, options.language}; }

report::Terminal standard_output(const CommonOptions& options) {
  report::Terminal terminal;
  terminal.words = options.words;
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  terminal.colour = is_terminal && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  int columns = 0;
  const std::string_view wanted = variable("COLUMNS");
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), columns);
  winsize window{};
  if (error != std::errc() || end != wanted.data() + wanted.size()) columns = 0;
  if (columns == 0 && is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) columns = window.ws_col;
  if (columns > 0) terminal.width = std::clamp(columns, 40, 400);
  return terminal;
}

}  // namespace foretrain::cli
