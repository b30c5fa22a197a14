#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/message.h"

namespace foretrain {

// Where something was read: file (or "command line"), line and column, both from 1; 0 where there is none.
struct SourcePosition {
  std::shared_ptr<const std::string> file;
  int line = 0;
  int column = 0;
};
bool operator==(const SourcePosition& a, const SourcePosition& b);

enum class Severity {
  error,        // the input is wrong
  unsupported,  // the input is right, but asks for something that is not simulated yet
  warning,
  note,
};

struct Diagnostic {
  Severity severity = Severity::error;
  SourcePosition position;
  Message message;  // what is wrong; what would be right
};

// Collects everything that is wrong with an input, so that the user sees all of it at once, and the same at the same
// place once.
// Loaders take a Diagnostics&, report into it and carry on where they can.
class Diagnostics {
 public:
  void error(SourcePosition position, Message message);
  void error(SourcePosition position, std::string message) = delete;  // a bare text would have no translation
  // Names a feature that is not simulated ("plan.offload"). It counts as an error, and validation can tell such
  // cases from faulty ones.
  void unsupported(SourcePosition position, Message feature);
  void unsupported(SourcePosition position, std::string feature) = delete;
  void warning(SourcePosition position, Message message);
  // An assumption made on the user's behalf ("7b is taken as llama-2-7b").
  void note(SourcePosition position, Message message);

  bool has_errors() const { return errors_ > 0; }
  int error_count() const { return errors_; }
  const std::vector<Diagnostic>& all() const { return all_; }
  void append(const Diagnostics& other);

 private:
  void add(Severity severity, SourcePosition position, Message message);
  std::vector<Diagnostic> all_;
  int errors_ = 0;
};

// "file:line:column: error: message", the form editors and compilers share.
Message as_message(const Diagnostic& diagnostic);
std::string to_string(const Diagnostic& diagnostic);

// The candidates nearest to `word` by edit distance, best first, at most `limit`; none that is far off.
std::vector<std::string> closest(std::string_view word, const std::vector<std::string>& candidates,
                                 std::size_t limit = 3);

// "; did you mean 'a' or 'b'?" from closest(), or an empty message.
Message did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace foretrain
