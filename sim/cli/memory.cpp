#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/report/memory_report.h"

namespace foretrain::cli {
namespace {

struct MemoryOptions : CommonOptions {
  LadderQuestion question;
};

int show_memory(const MemoryOptions& options) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  const auto environment = data ? load_environment(*data, diagnostics) : std::nullopt;
  const auto ladder = environment ? memory_ladder(options.question, *environment, diagnostics) : std::nullopt;
  print(diagnostics, options.words, options.quiet);
  if (!ladder || diagnostics.has_errors()) return kBadInput;
  return deliver(options, [&] { return report::memory_table(*ladder, standard_output(options)); },
                 {{options.json, [&] { return report::memory_json(*ladder); }}});
}

}  // namespace

Command memory_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("memory", words("what it takes to serve, adapt or train a model: a ladder of memory"));
  const auto options = starting_from<MemoryOptions>(common);
  LadderQuestion& q = options->question;
  parser.add_option("MODEL,--model", q.model, words("a model of the catalogue, or a path of a model file"))->required();
  parser.add_option("--streams", q.streams, words("answered at a time"))
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  parser.add_option("--context", q.context, words("tokens of each stream"))
      ->check(CLI::Range(1, 16'777'216))
      ->capture_default_str();
  parser
      .add_option("--cache-bytes", q.cache_bytes,
                  words("of an element of the key-value cache: 2 for fp16, 1 for fp8 or int8"))
      ->check(CLI::Range(0.25, 4.0))
      ->capture_default_str();
  parser.add_option("--seq-len", q.seq_len, words("tokens of a training sequence"))
      ->check(CLI::Range(1, 16'777'216))
      ->capture_default_str();
  parser.add_option("--micro-batch", q.micro_batch, words("sequences at a time"))
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  parser.add_option("--recompute", q.recompute, words("none, selective or full"))
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->capture_default_str();
  parser.add_option("--rank", q.rank, words("of adapters"))->check(CLI::Range(1, 65536))->capture_default_str();
  parser.add_option("--cards", q.cards, words("GPUs that ZeRO shards over"))
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  parser.add_option("--software", q.software,
                    words("framework profile of the training rows (default: by what they ask for)"));
  add_output_options(parser, *options, false);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain memory 7b"},
                {"foretrain memory deepseek-v3 --streams 64 --context 32768 --cache-bytes 1"},
                {"foretrain memory qwen2.5-14b --cards 4 --json -"}});
  return {&parser, [options] { return show_memory(*options); }};
}

}  // namespace foretrain::cli
