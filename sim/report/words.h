#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/base/message.h"

namespace foretrain::report {

// The words of one language. English is what the messages are written in and needs no catalogue; what a catalogue lacks
// is said in English.
class Words {
 public:
  Words() = default;
  // Catalogues: YAML maps of English patterns to translated ones, whose places may come in another order (`{1}`,
  // `{0}`); an earlier catalogue goes before a later one. Reports entries whose places do not match.
  static std::optional<Words> load(const std::vector<std::string>& paths, Diagnostics& diagnostics);

  std::string operator()(const Message& message) const;
  template <class... Arguments>
  std::string operator()(fmt::format_string<detail::Printed<Arguments>...> pattern, Arguments&&... arguments) const {
    return (*this)(message(pattern, std::forward<Arguments>(arguments)...));
  }
  // A word that is known by name only, such as "optimizer_states"; underscores read as spaces.
  std::string term(std::string_view name) const;
  // A text of a data file, such as a lesson's. It has no places: braces are only braces.
  std::string text(const std::string& english) const { return translated(english); }

 private:
  using Catalogue = std::map<std::string, std::string, std::less<>>;
  const std::string& translated(const std::string& pattern) const;
  std::shared_ptr<const Catalogue> catalogue_;  // null: English
};

}  // namespace foretrain::report
