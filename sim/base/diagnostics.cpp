#include "sim/base/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace foretrain {

bool operator==(const SourcePosition& a, const SourcePosition& b) {
  const bool same_file = a.file == b.file || (a.file && b.file && *a.file == *b.file);
  return same_file && a.line == b.line && a.column == b.column;
}

void Diagnostics::add(Severity severity, SourcePosition position, Message message) {
  // A hostile file can be wrong in millions of places; nobody reads past the first hundreds.
  constexpr std::size_t kLimit = 500;
  if (severity == Severity::error || severity == Severity::unsupported) ++errors_;
  // What several cases take from one place is said once.
  const bool placed = position.file && !position.file->empty();
  const bool said = placed && std::any_of(all_.begin(), all_.end(), [&](const Diagnostic& d) {
                      return d.severity == severity && d.position == position && d.message == message;
                    });
  if (!said && all_.size() < kLimit) all_.push_back({severity, std::move(position), std::move(message)});
}

void Diagnostics::error(SourcePosition p, Message m) { add(Severity::error, std::move(p), std::move(m)); }
void Diagnostics::unsupported(SourcePosition p, Message feature) {
  add(Severity::unsupported, std::move(p), std::move(feature));
}
void Diagnostics::warning(SourcePosition p, Message m) { add(Severity::warning, std::move(p), std::move(m)); }
void Diagnostics::note(SourcePosition p, Message m) { add(Severity::note, std::move(p), std::move(m)); }

void Diagnostics::append(const Diagnostics& other) {
  for (const Diagnostic& d : other.all_) add(d.severity, d.position, d.message);
}

namespace {

Message said(Severity severity, const Message& what) {
  switch (severity) {
    case Severity::unsupported:
      return message("error: {} is not simulated yet; leave it out", what);
    case Severity::warning:
      return message("warning: {}", what);
    case Severity::note:
      return message("note: {}", what);
    default:
      return message("error: {}", what);
  }
}

}  // namespace

Message as_message(const Diagnostic& d) {
  const Message what = said(d.severity, d.message);
  const auto& [file, line, column] = d.position;
  if (!file) return what;
  return message("{}{}", line == 0 ? *file + ": " : fmt::format("{}:{}:{}: ", *file, line, column), what);
}

std::string to_string(const Diagnostic& diagnostic) { return as_message(diagnostic).english(); }

namespace {

// Levenshtein distance, with words cut at 64 characters: suggestions need no more.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, 64);
  b = b.substr(0, 64);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> closest(std::string_view word, const std::vector<std::string>& candidates, std::size_t limit) {
  std::vector<std::pair<std::size_t, std::string>> scored;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(word, candidate);
    const bool part = word.size() >= 3 && candidate.find(word) != std::string::npos;
    if (part) distance = std::min<std::size_t>(distance, 2);
    if (distance <= std::max<std::size_t>(2, word.size() / 3)) scored.emplace_back(distance, candidate);
  }
  std::sort(scored.begin(), scored.end());
  std::vector<std::string> best;
  for (auto& [distance, candidate] : scored) {
    if (best.size() == limit) break;
    best.push_back(std::move(candidate));
  }
  return best;
}

Message did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> best = closest(word, candidates);
  if (best.empty()) return {};
  std::vector<Message> quoted;
  for (const std::string& candidate : best) quoted.push_back(fmt::format("'{}'", candidate));
  return message("; did you mean {}?", joined(quoted, message(" or ")));
}

}  // namespace foretrain
