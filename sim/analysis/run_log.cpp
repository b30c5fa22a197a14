#include "sim/analysis/run_log.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace foretrain {
namespace {

constexpr std::size_t kMostOfALine = 16 * 1024;
constexpr double kLargest = 1e18;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// A number that the text starts with: "5,762", "0.194", "1.2e3". Moves past it.
std::optional<double> take_number(std::string_view& text) {
  constexpr std::size_t kMostDigits = 40;
  std::string digits;
  std::size_t at = 0;
  for (; at < text.size() && digits.size() < kMostDigits; ++at) {
    const char c = text[at];
    const bool exponent = !digits.empty() && (c == 'e' || c == 'E') && at + 1 < text.size() &&
                          (is_digit(text[at + 1]) || text[at + 1] == '-' || text[at + 1] == '+');
    const bool sign = (c == '-' || c == '+') && !digits.empty() && (digits.back() == 'e' || digits.back() == 'E');
    const bool comma = c == ',' && at > 0 && is_digit(text[at - 1]) && at + 3 < text.size() && is_digit(text[at + 1]) &&
                       is_digit(text[at + 2]) && is_digit(text[at + 3]);
    if (comma) continue;
    if (!is_digit(c) && c != '.' && !exponent && !sign) break;
    digits += c;
  }
  double value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  text.remove_prefix(at);
  if (fault != std::errc{} || end == digits.data() || !(value > 0 && value < kLargest)) return std::nullopt;
  return value;
}

// The text after a key that stands for itself ("forward" is not part of "forward_microstep"), its colon, equals sign,
// brackets, quotes and blanks.
std::optional<std::string_view> after(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at > 0 && (is_word(line[at - 1]) || line[at - 1] == '/')) continue;
    std::string_view rest = line.substr(at + key.size());
    const std::size_t value = rest.find_first_not_of(" \t:='\")");
    constexpr std::size_t kFar = 12;
    if (value == std::string_view::npos || value == 0 || value > kFar) continue;
    return rest.substr(value);
  }
  return std::nullopt;
}

std::optional<double> number_after(std::string_view line, std::string_view key) {
  std::optional<std::string_view> rest = after(line, key);
  return rest ? take_number(*rest) : std::nullopt;
}

// The number that ends where the unit starts: "65.25s/it".
std::optional<double> number_before(std::string_view line, std::string_view unit) {
  for (std::size_t at = line.find(unit); at != std::string_view::npos; at = line.find(unit, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && at - begin < 24 && (is_digit(line[begin - 1]) || line[begin - 1] == '.')) --begin;
    std::string_view number = line.substr(begin, at - begin);
    const std::size_t after_unit = at + unit.size();
    const bool whole_unit = after_unit >= line.size() || !is_word(line[after_unit]);
    const bool whole_number =
        begin == 0 || !(is_word(line[begin - 1]) || line[begin - 1] == '-' || line[begin - 1] == '+');
    if (!number.empty() && whole_unit && whole_number) {
      if (const auto value = take_number(number)) return value;
    }
  }
  return std::nullopt;
}

// "2.00 GiB": a number with a binary or decimal unit.
std::optional<Bytes> take_bytes(std::string_view text) {
  const std::optional<double> number = take_number(text);
  if (!number) return std::nullopt;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::pair<std::string_view, double> units[] = {
      {"GiB", kGiB}, {"MiB", kMiB}, {"KiB", 1024.0}, {"TiB", 1024 * kGiB}, {"GB", kGiga}, {"MB", 1e6}, {"bytes", 1}};
  for (const auto& [unit, size] : units) {
    if (text.starts_with(unit)) return Bytes{*number * size};
  }
  return std::nullopt;
}

std::optional<Bytes> bytes_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + words.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" :"), rest.size()));
  return take_bytes(rest);
}

// "36.60 GiB already allocated": the amount whose end is where the words start.
std::optional<Bytes> bytes_before(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  constexpr std::size_t kLongest = 40;
  const std::string_view before = line.substr(at > kLongest ? at - kLongest : 0, std::min(at, kLongest));
  const std::size_t digit = before.find_last_of("0123456789");
  if (digit == std::string_view::npos) return std::nullopt;
  const std::size_t other = before.substr(0, digit).find_last_not_of("0123456789.");
  return take_bytes(before.substr(other == std::string_view::npos ? 0 : other + 1));
}

// Both forms of the sentence:
//   Tried to allocate 2.00 GiB (GPU 0; 39.59 GiB total capacity; 36.60 GiB already allocated; 1.18 GiB free; 37.40 GiB
//   reserved in total by PyTorch)
//   Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.18 GiB is free. [...] this process
//   has 77.96 GiB memory in use. Of the allocated memory 70.30 GiB is allocated by PyTorch, and 6.20 GiB is reserved by
//   PyTorch but unallocated.
std::optional<OutOfMemory> read_out_of_memory(std::string_view line) {
  const auto tried = bytes_after(line, "Tried to allocate");
  if (!tried) return std::nullopt;
  OutOfMemory found;
  found.tried = *tried;
  const auto either = [](std::optional<Bytes> one, std::optional<Bytes> other) { return one ? one : other; };
  std::optional<Bytes> capacity = bytes_before(line, " total capacity;");
  // PyTorch 2.0 to 2.1: "has a total capacty of", with the letter missing.
  for (const char* words : {"a total capacity of", "a total capacty of"})
    capacity = either(capacity, bytes_after(line, words));
  found.capacity = capacity;
  found.free = either(bytes_before(line, " is free"), bytes_before(line, " free;"));
  found.in_use = bytes_before(line, " memory in use");
  found.allocated = either(bytes_before(line, " already allocated"), bytes_before(line, " is allocated by PyTorch"));
  found.reserved_unallocated = bytes_before(line, " is reserved by PyTorch but unallocated");
  const auto reserved = bytes_before(line, " reserved in total");
  if (!found.reserved_unallocated && reserved && found.allocated && *reserved >= *found.allocated) {
    found.reserved_unallocated = *reserved - *found.allocated;
  }
  return found;
}

class Samples {
 public:
  void add(LogFigure figure, std::optional<double> value, double scale = 1.0) {
    if (value) of_[static_cast<std::size_t>(figure)].push_back(*value * scale);
  }
  void add_rate(LogFigure figure, std::optional<double> per_second) {
    if (per_second) add(figure, 1.0 / *per_second);
  }
  std::array<std::optional<double>, kLogFigures> medians() {
    std::array<std::optional<double>, kLogFigures> result;
    for (std::size_t i = 0; i < kLogFigures; ++i) {
      std::vector<double>& values = of_[i];
      if (values.empty()) continue;
      const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      std::nth_element(values.begin(), middle, values.end());
      result[i] = *middle;
    }
    return result;
  }

 private:
  std::array<std::vector<double>, kLogFigures> of_;
};

// The first that the line states.
std::optional<double> first_of(std::string_view line, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    if (const auto value = number_after(line, key)) return value;
  }
  return std::nullopt;
}

void read_line(std::string_view line, Samples& samples) {
  samples.add(LogFigure::iteration_s, number_before(line, "s/it"));
  samples.add_rate(LogFigure::iteration_s, number_before(line, "it/s"));
  samples.add_rate(LogFigure::iteration_s, number_after(line, "train_speed(iter/s"));
  samples.add(LogFigure::step_s, number_after(line, "elapsed time per iteration (ms"), 1e-3);
  samples.add_rate(LogFigure::step_s, number_after(line, "train_steps_per_second"));
  samples.add_rate(LogFigure::step_s, number_after(line, "throughput/batches_per_sec"));
  samples.add(LogFigure::samples_per_s,
              first_of(line, {"train_samples_per_second", "CurrSamplesPerSec", "throughput/samples_per_sec"}));
  samples.add(LogFigure::tflops_per_gpu, first_of(line, {"throughput per GPU (TFLOP/s/GPU", "tflops", "TFLOPs"}));
  samples.add(LogFigure::tokens_per_s_per_gpu,
              first_of(line, {"throughput/device/tokens_per_sec", "tps", "wps", "tokens_per_second_per_gpu"}));
  samples.add(LogFigure::tokens_per_s,
              first_of(line, {"throughput/tokens_per_sec", "tokens_per_second", "tokens per second"}));
  if (auto rest = after(line, "mfu"); rest || (rest = after(line, "throughput/device/mfu"))) {
    const auto value = take_number(*rest);
    if (value) samples.add(LogFigure::mfu, *value, rest->starts_with('%') || *value > 1 ? 0.01 : 1.0);
  }
  const bool breakdown = line.find('|') != std::string_view::npos;
  if (breakdown) {
    samples.add(LogFigure::forward_s, first_of(line, {"forward", "fwd"}), 1e-3);
    samples.add(LogFigure::backward_s, first_of(line, {"backward", "bwd"}), 1e-3);
    const bool has_passes = first_of(line, {"backward", "bwd"}).has_value();
    if (has_passes) samples.add(LogFigure::optimizer_s, number_after(line, "step"), 1e-3);
  }
  for (const char* words : {"MaxMemAllocated=", "max mem allocated:"}) {
    if (const auto bytes = bytes_after(line, words)) samples.add(LogFigure::memory_bytes, bytes->value);
  }
}

}  // namespace

std::string_view to_string(LogFigure figure) {
  constexpr std::array<std::string_view, kLogFigures> names = {
      "iteration_s", "step_s",    "samples_per_s", "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
      "mfu",         "forward_s", "backward_s",    "optimizer_s",  "memory_bytes"};
  return names[static_cast<std::size_t>(figure)];
}

bool RunLog::empty() const {
  return !out_of_memory && std::none_of(figures.begin(), figures.end(), [](const auto& f) { return f.has_value(); });
}

RunLog read_run_log(std::string_view text) {
  RunLog log;
  Samples samples;
  while (!text.empty()) {
    // A progress bar returns to the start of its line.
    const std::size_t end = std::min(text.find_first_of("\n\r"), text.size());
    const std::string_view line = text.substr(0, std::min(end, kMostOfALine));
    read_line(line, samples);
    if (const auto failed = read_out_of_memory(line)) log.out_of_memory = failed;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  log.figures = samples.medians();
  return log;
}

}  // namespace foretrain
