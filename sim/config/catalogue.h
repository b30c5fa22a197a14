#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/tree.h"

namespace foretrain::config {

// A folder of YAML files, one thing a file, the file's stem being the thing's name. A file may list other names in
// `aliases:` (case is ignored, '_' and ' ' equal '-'). Files are .yaml or .yml; hidden ones are passed over.
//
// Parsed files are kept, also between calls on a const catalogue: use a catalogue from one thread at a time.
class Catalogue {
 public:
  // `what` names the kind in messages ("GPU"). The folder is listed once; files are parsed when asked for.
  Catalogue(std::string folder, std::string what);

  // Names in the folder, sorted.
  const std::vector<std::string>& names() const { return names_; }

  struct Found {
    std::string name;                  // the catalogue's own name for it
    std::shared_ptr<const Node> node;  // never null
  };
  // The thing called `name` (or one of its aliases). An unknown name is an error at `asked_at` with suggestions:
  // never some other thing's data. A name of a file is looked up without reading the others; so a file's name wins
  // over another's alias. An alias of two files is an error. What is wrong in the file found is reported too, at every
  // call. A name is only compared with the listed ones, so it cannot lead out of the folder.
  std::optional<Found> find(std::string_view name, SourcePosition asked_at, Diagnostics& diagnostics) const;

  // The catalogue's spelling of a name: lower case, '-' for '_' and ' '.
  static std::string normalised(std::string_view name);

 private:
  // What a file held; `node` is null if it could not be parsed.
  struct Parsed {
    std::shared_ptr<const Node> node;
    std::vector<std::string> aliases;
    Diagnostics diagnostics;
  };
  struct Item {
    std::string name;
    std::string path;
    mutable std::shared_ptr<const Parsed> parsed;  // filled when first asked for
  };
  struct ByName {
    bool operator()(const Item& item, const std::string& name) const { return item.name < name; }
    bool operator()(const std::string& name, const Item& item) const { return name < item.name; }
  };

  const Parsed& parsed(const Item& item) const;
  std::optional<Found> take(const Item& item, Diagnostics& diagnostics) const;
  void report_unknown(std::string_view name, const std::string& wanted, SourcePosition asked_at,
                      Diagnostics& diagnostics) const;

  std::string folder_, what_;
  std::vector<Item> items_;  // sorted by name, then path
  std::vector<std::string> names_;
};

}  // namespace foretrain::config
