// The commands that the documents show give the answers that they show. To refresh them: tools/update-golden.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/effort.h"

using namespace foretrain::testing;

namespace {

// A fenced block of a document, by its lines without the fences.
struct Block {
  std::vector<std::string> lines;
  bool is_command() const { return !lines.empty() && lines.front().starts_with("$ "); }
  // "# my-runs.yaml" heads a file that commands name; what stands behind the name is for people.
  std::string file_name() const {
    if (lines.empty() || !lines.front().starts_with("# ")) return "";
    const std::string name = lines.front().substr(2, lines.front().find(".yaml") - 2);
    return name.find(' ') == std::string::npos ? name + ".yaml" : "";
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// What the command prints, run from the source folder with `files` in their place.
std::string printed(std::string command, const Folder& files, const std::map<std::string, std::string>& paths) {
  for (const auto& [name, path] : paths) {
    if (const std::size_t at = command.find(name); at != std::string::npos) command.replace(at, name.size(), path);
  }
  const std::string script = files / "command.sh", output = files / "output";
  write_file(script, "set -e\ncd '" FORETRAIN_SOURCE_DIR
                     "'\nexport LC_ALL=C.UTF-8\nfunction tools/run {\n"
                     "  (($#)) || set -- run scenarios/8x40g-vs-4x80g.yaml\n  '" FORETRAIN_BINARY "' \"$@\"\n}\n" +
                         command + "\n");
  const int status = std::system(("bash '" + script + "' >'" + output + "' 2>/dev/null </dev/null").c_str());
  CHECK(status == 0);
  return read_file(output);
}

// The document with every answer as it is now.
std::string refreshed(const std::string& document) {
  const Folder files;
  std::map<std::string, std::string> paths;
  std::vector<std::string> result;
  Block block;
  bool inside = false;
  for (const std::string& line : lines_of(document)) {
    const bool fence = line.starts_with("```");
    if (inside && !fence) block.lines.push_back(line);
    if (fence && inside) {
      if (const std::string name = block.file_name(); !name.empty()) {
        paths[name] = files / name;
        write_file(paths[name], joined(block.lines));
      }
      if (block.is_command()) {
        CAPTURE(block.lines.front());
        const std::vector<std::string> now = lines_of(printed(block.lines.front().substr(2), files, paths));
        block.lines.resize(1);
        block.lines.insert(block.lines.end(), now.begin(), now.end());
        while (block.lines.back().empty()) block.lines.pop_back();
      }
      result.insert(result.end(), block.lines.begin(), block.lines.end());
      block = {};
    }
    if (fence) inside = !inside;
    if (!inside || fence) result.push_back(line);
  }
  return joined(result);
}

}  // namespace

TEST_CASE("documents show what their commands print" * doctest::skip(kSanitized)) {
  for (const std::string name : {"README.md", "docs/README.zh.md"}) {
    CAPTURE(name);
    const std::string path = std::string(FORETRAIN_SOURCE_DIR "/") + name, shown = read_file(path);
    const std::string now = refreshed(shown);
    CHECK(now.find("\n$ tools/run") != std::string::npos);
    if (std::getenv("FORETRAIN_UPDATE_DOCS") != nullptr) {
      write_file(path, now);
    } else {
      CHECK(now == shown);
    }
  }
}
