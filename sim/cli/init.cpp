#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/scenario/understood.h"

namespace foretrain::cli {
namespace {

struct InitOptions : CommonOptions {
  std::string file;  // empty: standard output
  ScenarioSource source;
};

bool gives(const ScenarioSource& source, std::string_view path) {
  const std::string_view key = path.substr(path.rfind('.') + 1);
  const auto is_given = [&](const FlagValue& value) { return value.path == path; };
  const auto is_varied = [&](const Variation& variation) {
    const std::string name = variation.substr(0, variation.find('='));
    return name == path || name == key;
  };
  return std::any_of(source.values.begin(), source.values.end(), is_given) ||
         std::any_of(source.variations.begin(), source.variations.end(), is_varied);
}

// A question to start from, where the flags leave it open.
void add_example(ScenarioSource& source) {
  const auto add = [&](const char* path, const char* text) {
    if (!gives(source, path)) source.values.push_back({"init", path, text});
  };
  add("title", "My question");
  add("ask", "faster");
  add("model", "llama-2-7b");
  if (!gives(source, "cluster.node") && !gives(source, "cluster.gpu")) {
    source.values.push_back({"init", "cluster.gpu", "a100-80g"});
    add("cluster.gpus", "8");
  }
}

// A file that exists is never replaced.
int write_new_file(const std::string& path, const std::string& text, const report::Words& words) {
  std::FILE* file = std::fopen(path.c_str(), "wx");
  if (file == nullptr && errno == EEXIST) return fail(words, message("{} exists already; name a new file", path));
  if (file == nullptr) return fail(words, message("cannot write {}: {}", path, system_error(errno)));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) return fail(words, message("cannot write {}: {}", path, system_error(errno)));
  return kAnswered;
}

int init(InitOptions& options) {
  add_example(options.source);
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  const auto document = data ? load_document(options.source, diagnostics) : std::nullopt;
  const auto scenario = document ? read_scenario(*document, *data, diagnostics, OpenPlans::automatic) : std::nullopt;
  print(diagnostics, options.words, options.quiet);
  if (!scenario) return kBadInput;
  const std::string text =
      "# A scenario of foretrain; 'foretrain run FILE' answers it, docs/scenario.md explains every key.\n"
      "# For completion in an editor: 'foretrain schema > scenario.schema.json', and as the first line\n"
      "# 'yaml-language-server: $schema=scenario.schema.json' as a comment.\n" +
      commented_text(*document, *scenario);
  if (!options.file.empty() && options.file != "-") return write_new_file(options.file, text, options.words);
  return print_text(text, options.words);
}

}  // namespace

Command init_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser = *program.add_subcommand("init", words("write a scenario to start from, with comments"));
  const auto options = starting_from<InitOptions>(common);
  parser.add_option("FILE", options->file, words("file to write, which must not exist (default: standard output)"));
  parser.add_flag("-q,--quiet", options->quiet, words("no warnings"));
  add_field_flags(parser, words, options->source);
  add_language_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain init my-question.yaml"},
                {"foretrain init --model qwen-2.5-7b --vary gpu=a100-40g:8,a100-80g:4 --zero 2 > my-question.yaml"}});
  return {&parser, [options] { return init(*options); }};
}

}  // namespace foretrain::cli
