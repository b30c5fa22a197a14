#include "sim/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/report/terminal.h"

namespace foretrain::cli {
namespace {

// CLI11's own counts bytes, where wide characters take three of them and two columns.
class ByDisplayWidth : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string left = make_option_name(option, is_positional) + make_option_opts(option);
    const auto shown = static_cast<std::size_t>(report::display_width(left));
    CLI::Formatter same = *this;
    if (shown + 2 < column_width_) same.column_width(column_width_ + left.size() - shown);
    return same.make_option(option, is_positional);
  }
};

}  // namespace

void speak(CLI::App& program, const report::Words& words) {
  const auto formatter = std::make_shared<ByDisplayWidth>();
  formatter->label("Usage", words("Usage"));
  formatter->label("OPTIONS", words("OPTIONS"));
  formatter->label("SUBCOMMAND", words("SUBCOMMAND"));
  formatter->label("Positionals", words("Positionals"));
  formatter->label("REQUIRED", words("REQUIRED"));
  formatter->label("Needs", words("Needs"));
  formatter->label("Excludes", words("Excludes"));
  program.formatter(formatter);
  program.group(words("Subcommands"));
  program.option_defaults()->group(words("Options"));
  program.set_help_flag("-h,--help", words("Print this help message and exit"));
}

void add_examples(CLI::App& parser, const report::Words& words, const std::vector<Example>& examples,
                  const std::string& closing) {
  std::size_t widest = 0;
  for (const Example& e : examples) {
    if (!e.purpose.empty()) widest = std::max(widest, std::string_view(e.command).size());
  }
  std::string text = words("Examples") + ":";
  for (const Example& e : examples) {
    text += e.purpose.empty() ? fmt::format("\n  {}", e.command)
                              : fmt::format("\n  {:<{}}   {}", e.command, widest, e.purpose);
  }
  parser.footer(closing.empty() ? text : text + "\n" + closing);
}

}  // namespace foretrain::cli
