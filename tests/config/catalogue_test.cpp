#include "sim/config/catalogue.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support.h"

namespace foretrain::config {
namespace {

using testing::contains;
using testing::shown;

// A folder of its own, removed at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "foretrain-catalogue-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  Folder& add(const std::string& name, const std::string& text) {
    std::ofstream(path_ / name) << text;
    return *this;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct Outcome {
  std::optional<Catalogue::Found> found;
  std::string errors;
};

Outcome look_up(const Catalogue& catalogue, std::string_view name) {
  Diagnostics diagnostics;
  const SourcePosition asked_at{std::make_shared<const std::string>("s.yaml"), 3, 8};
  Outcome outcome{catalogue.find(name, asked_at, diagnostics), ""};
  outcome.errors = shown(diagnostics);
  return outcome;
}

void fill(Folder& folder) {
  folder.add("H100_SXM.yaml", "memory: 80GB\naliases: [h100, H100 80GB]\n")
      .add("a100-80gb.yml", "memory: 79GB\naliases: a100\n")
      .add("a100-40gb.yaml", "memory: 40GB\naliases:\n  - A100\n")
      .add("b200.yaml", "memory: 180GB\n")
      .add("notes.txt", "not yaml")
      .add(".hidden.yaml", "x: 1\n");
}

TEST_CASE("names are the files', sorted and in one spelling") {
  Folder folder;
  fill(folder);
  std::filesystem::create_directory(folder.path() + "/folder.yaml");
  const Catalogue catalogue(folder.path(), "GPU");
  CHECK(catalogue.names() == std::vector<std::string>{"a100-40gb", "a100-80gb", "b200", "h100-sxm"});
}

TEST_CASE("a name or an alias finds its file, whatever its case and separators") {
  Folder folder;
  fill(folder);
  const Catalogue catalogue(folder.path(), "GPU");
  for (const char* name : {"h100-sxm", "H100-SXM", "h100_sxm", "H100 SXM", "h100", "H100", "h100-80gb", "h100 80GB"}) {
    CAPTURE(name);
    const Outcome outcome = look_up(catalogue, name);
    CHECK(outcome.errors == "");
    REQUIRE(outcome.found);
    CHECK(outcome.found->name == "h100-sxm");
    CHECK(outcome.found->node->find("memory")->scalar() == "80GB");
  }
  const Node* first = look_up(catalogue, "b200").found->node.get();
  CHECK(look_up(catalogue, "B200").found->node.get() == first);  // read once
}

TEST_CASE("what is not there is never something else") {
  Folder folder;
  fill(folder);
  const Catalogue catalogue(folder.path(), "GPU");
  CHECK(look_up(catalogue, "h10").errors ==
        "s.yaml:3:8: error: unknown GPU 'h10'; did you mean 'h100' or 'a100' or 'h100-80gb'?");
  CHECK(look_up(catalogue, "zzzzzzzz").errors ==
        "s.yaml:3:8: error: unknown GPU 'zzzzzzzz'; there are 4 GPUs, see 'foretrain catalog'");
  for (const char* name : {"", ".", "..", "/", "../b200", "./b200", "b200.yaml", "/etc/passwd", "notes", ".hidden",
                           "hidden", "folder", "b200/", "*"}) {
    CAPTURE(name);
    const Outcome outcome = look_up(catalogue, name);
    CHECK_FALSE(outcome.found);
    CHECK(contains(outcome.errors, "s.yaml:3:8: error: unknown GPU"));
  }
}

TEST_CASE("an alias of two files is an error that names both") {
  Folder folder;
  fill(folder);
  const Outcome outcome = look_up(Catalogue(folder.path(), "GPU"), "a100");
  CHECK_FALSE(outcome.found);
  CHECK(outcome.errors ==
        "s.yaml:3:8: error: GPU 'a100' is another name of both 'a100-40gb' and 'a100-80gb'; write one of them");
}

TEST_CASE("a file's name wins over another's alias, and two spellings of one name are an error") {
  Folder folder;
  fill(folder);
  folder.add("h100.yaml", "memory: 1GB\n").add("B200.yml", "memory: 2GB\n");
  const Catalogue catalogue(folder.path(), "GPU");
  CHECK(look_up(catalogue, "h100").found->name == "h100");
  const Outcome twice = look_up(catalogue, "b200");
  CHECK_FALSE(twice.found);
  CHECK(contains(twice.errors, "GPU 'b200' is in two files"));
}

TEST_CASE("a broken file matters where it could have held the answer") {
  Folder folder;
  fill(folder);
  folder.add("broken.yaml", "a: [1\n");
  const Catalogue catalogue(folder.path(), "GPU");
  CHECK(look_up(catalogue, "b200").errors == "");
  CHECK(look_up(catalogue, "h100").errors == "");
  const Outcome direct = look_up(catalogue, "broken");
  CHECK_FALSE(direct.found);
  CHECK(contains(direct.errors, "/broken.yaml:"));
  CHECK(look_up(catalogue, "broken").errors == direct.errors);  // not only the first time
  CHECK(contains(look_up(catalogue, "unheard-of").errors, "/broken.yaml:"));
}

TEST_CASE("wrong aliases are reported with their file") {
  Folder folder;
  folder.add("x.yaml", "aliases: [good, {a: 1}]\n");
  const Catalogue catalogue(folder.path(), "GPU");
  CHECK(contains(look_up(catalogue, "x").errors, "x.yaml:1:17: error: aliases must be a list of names"));
  CHECK(look_up(catalogue, "good").found->name == "x");
}

TEST_CASE("an empty or absent folder has nothing") {
  const Catalogue catalogue("/no/such/folder", "fabric");
  CHECK(catalogue.names().empty());
  CHECK(look_up(catalogue, "x").errors == "s.yaml:3:8: error: unknown fabric 'x'; there are none in '/no/such/folder'");
}

}  // namespace
}  // namespace foretrain::config
