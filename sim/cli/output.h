#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cli/command.h"
#include "sim/page/page.h"
#include "sim/report/terminal.h"

namespace foretrain::cli {

// A place for text: a path, or "-" for standard output. The text is made only if it is wanted.
struct Output {
  std::string path;
  std::function<std::string()> text;
  // Instead of `text`, for what is long: hands the text over piece by piece, while it is written.
  using Sink = std::function<void(std::string_view)>;
  std::function<void(const Sink&)> stream = {};
};

// Writes the files that were asked for, and the table to standard output unless another text goes there or the user
// wants quiet. Every text that is not streamed is made and every file opened before anything is written, so that a path
// that cannot be written leaves nothing behind. Returns the exit status.
int deliver(const CommonOptions& options, const std::function<std::string()>& table, std::vector<Output> outputs);

// Writes it to standard output. Returns the exit status.
int print_text(const std::string& text, const report::Words& words);

// The template for --html if a page is asked for. What is wrong with it is reported.
std::optional<page::Template> page_template(const CommonOptions& options, const DataFolder& data,
                                            Diagnostics& diagnostics);
page::Origin origin_of(const CommonOptions& options);

// Standard output as it is: colour only on a terminal without NO_COLOR, width of COLUMNS or of the terminal.
report::Terminal standard_output(const CommonOptions& options);

}  // namespace foretrain::cli
