// Every command that a document or a --help shows can be given, and is answered.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/effort.h"

using namespace foretrain::testing;

namespace {

const std::string kRoot = FORETRAIN_SOURCE_DIR;

// Where examples leave something out, what stands there.
const std::vector<std::pair<std::string, std::string>> kFilledIn = {
    {"torchrun ... pretrain_gpt.py", "torchrun --nproc_per_node 8 pretrain_gpt.py"},
    {"pretrain_gpt.py ...",
     "pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
     "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 16 --vocab-size 50257"},
    {"validate --markdown", "validate measured/*.yaml --markdown docs/accuracy.md"},
    {"rent FILE", "rent my-job.yaml"},
    {"diagnose FILE --case NAME", "diagnose my-run.yaml --case 'two nodes'"},
    {"FILE", "my-question.yaml"},
};

// Takes a hundred seconds to fit whole published steps; its parts are tested in tests/calibration.
const std::set<std::string> kTooLong = {"foretrain calibrate --software"};

// The files that examples name, as somebody might have them.
void prepare(const Folder& folder) {
  namespace fs = std::filesystem;
  for (const char* shared : {"scenarios", "tests"}) fs::create_symlink(kRoot + "/" + shared, folder / shared);
  for (const char* own : {"hardware/calibrated", "docs", "measured"}) fs::create_directories(folder / own);
  const std::string model =
      "title: Is it faster?\n"
      "base:\n"
      "  model: gpt-3-1.3b\n"
      "  train: {seq_len: 1024, global_batch: 64, precision: bf16, tokens: 1e9}\n"
      "  software: deepspeed\n";
  const std::string a100 = "cluster: {gpu: a100-sxm4-40gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}";
  write_file(folder / "my-question.yaml",
             model + "cases:\n  - name: 8 x A100-40G\n    " + a100 + "\n    plan: {zero: 1, micro_batch: 1}\n");
  write_file(folder / "my-run.yaml",
             model +
                 "cases:\n  - name: two nodes\n    cluster: {gpu: a100-sxm4-40gb, gpus: 16, gpus_per_node: 8, intra: "
                 "nvswitch, nics: 1, nic_gbps: 25, net: ethernet}\n    plan: {zero: 2, micro_batch: 1}\n");
  write_file(folder / "my-model.yaml", model + "cases:\n  - name: a card\n    " + a100 + "\n    plan: auto\n");
  write_file(folder / "ds_config.json",
             R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "bf16": {"enabled": true},
                 "zero_optimization": {"stage": 2}})");
  write_file(
      folder / "train.log",
      "  0%|          | 1/3527 [01:05<63:50:18, 65.25s/it]\n  0%|          | 5/3527 [04:17<63:50:18, 65.25s/it]\n");
  write_file(folder / "my-claims.yaml",
             "claims:\n  - id: a\n    claim: It fits.\n    base: {model: llama-2-7b, cluster: {node: hgx-a100-4}}\n"
             "    cases: [{name: one, plan: {zero: 3, micro_batch: 1}}]\n    checks: [{fits: one}]\n");
  const auto copy = [&](const std::string& from, const std::string& to) { fs::copy(kRoot + "/" + from, folder / to); };
  copy("scenarios/rent/3090-to-a100-40g.yaml", "my-job.yaml");
  copy("configs/offers/idc10000.yaml", "my-prices.yaml");
  copy("lessons/bubble.yaml", "my-own.yaml");
  copy("tests/validation/flags.yaml", "flags.yaml");
  copy("tests/validation/measured/seqsel-recompute.yaml", "measured/runs.yaml");
  copy("tests/validation/measured/seqsel-recompute.yaml", "my-runs.yaml");
  copy("hardware/measurements/gemm-a100-pcie-simumax.csv", "my-gpu.csv");
  copy("hardware/measurements/gemm-a100-pcie-simumax.csv", "measured.csv");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    // A command may go on in the next line.
    if (!lines.empty() && lines.back().ends_with("\\")) {
      lines.back().pop_back();
      lines.back() += line;
    } else {
      lines.push_back(line);
    }
  }
  return lines;
}

// A shown command in full, without what is said beside it; empty if it is none.
std::string command_of(std::string line) {
  std::smatch found;
  if (!std::regex_match(line, found,
                        std::regex(R"(\s*(?:\$ )?((?:foretrain|tools/run|tools/measure-kernels\.py) .*))"))) {
    return "";
  }
  line = found[1];
  line = std::regex_replace(line, std::regex(R"(\s+#.*$|\s{3,}.*$|\s+$)"), "");
  line = std::regex_replace(line, std::regex(R"(^tools/run \|)"), "foretrain run scenarios/8x40g-vs-4x80g.yaml |");
  line = std::regex_replace(line, std::regex("^tools/run "), "foretrain ");
  for (const auto& [shown, filled] : kFilledIn) {
    if (const std::size_t at = line.find(shown); at != std::string::npos) line.replace(at, shown.size(), filled);
  }
  return line;
}

// What is said of a command in the middle of a sentence may be its name alone, or hold a word for something else
// ("foretrain COMMAND"), which is no command.
void add_inline(const std::string& line, const std::string& place, std::map<std::string, std::string>& commands) {
  const std::regex code("`([^`]+)`"), name_only("foretrain [a-z-]+"), other("foretrain (?:[A-Z\\x80-\\xff.].*)");
  for (std::sregex_iterator at(line.begin(), line.end(), code), end; at != end; ++at) {
    std::string command = command_of((*at)[1]);
    if (command.empty() || std::regex_match(command, other)) continue;
    if (std::regex_match(command, name_only)) command += " --help";
    commands.emplace(std::move(command), place);
  }
}

void add_document(const std::filesystem::path& path, std::map<std::string, std::string>& commands) {
  bool fenced = false;
  for (const std::string& line : lines_of(read_file(path))) {
    if (line.starts_with("```")) {
      fenced = !fenced;
    } else if (!fenced && !line.starts_with("    ")) {
      add_inline(line, path, commands);
    } else if (const std::string command = command_of(line); !command.empty()) {
      commands.emplace(command, path);
    }
  }
}

// Of all documents and of the help of every command, each once, with where it is shown.
std::map<std::string, std::string> shown_commands() {
  std::map<std::string, std::string> commands;
  for (auto entry = std::filesystem::recursive_directory_iterator(kRoot); entry != decltype(entry)(); ++entry) {
    const std::string name = entry->path().filename();
    if (name == "build" || name == "node_modules" || name.starts_with(".")) entry.disable_recursion_pending();
    if (entry->path().extension() == ".md") add_document(entry->path(), commands);
  }
  const std::regex subcommand(R"(^  ([a-z-]+)  +\S.*$)");
  std::smatch parts;
  for (const std::string& line : lines_of(run_program("--help").out)) {
    if (!std::regex_match(line, parts, subcommand)) continue;
    const std::string name = parts[1];
    for (const std::string& of_help : lines_of(run_program(name + " --help").out)) {
      const std::string command = of_help.starts_with("  ") ? command_of(of_help) : "";
      if (!command.empty()) commands.emplace(command, "foretrain " + name + " --help");
    }
  }
  return commands;
}

// Given in a folder with the files that examples name; why it failed, empty if it was answered.
std::string failure_of(const std::string& command) {
  const Folder folder;
  prepare(folder);
  if (contains(command, "init my-question.yaml")) std::filesystem::remove(folder / "my-question.yaml");
  write_file(folder / "command.sh",
             "cd '" + folder.path().string() +
                 "'\nexport LC_ALL=C.UTF-8\n"
                 "foretrain() { '" FORETRAIN_BINARY
                 "' \"$@\"; local s=$?; [[ $s == 0 || $s == 141 ]] || echo \"status $s\" >>failed; }\n"
                 "tools/measure-kernels.py() { cat measured.csv; }\nless() { cat; }\n"
                 "command -v jq >/dev/null || jq() { cat; }\n" +
                 command + "\n");
  std::system(("bash '" + folder / "command.sh" + "' >/dev/null 2>'" + folder / "errors" + "' </dev/null").c_str());
  const std::string failed = read_file(folder / "failed");
  return failed.empty() ? "" : failed + read_file(folder / "errors");
}

}  // namespace

TEST_CASE("every command that is shown is answered" * doctest::skip(kSanitized)) {
  const std::map<std::string, std::string> commands = shown_commands();
  CHECK(commands.size() > 60);
  for (const auto& [command, place] : commands) {
    if (kTooLong.contains(command)) continue;
    const std::string failure = failure_of(command);
    CHECK_MESSAGE(failure.empty(), place << ": " << command << "\n" << failure);
  }
}
