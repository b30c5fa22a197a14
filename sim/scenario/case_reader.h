#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "sim/config/catalogue.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/software_default.h"

namespace foretrain {

// What was read from a description, by its text: cases of one file mostly share their model, cluster and software, and
// each is looked up in the catalogues once. Only flawless readings are kept, so that errors always carry their own
// position.
template <class T>
class ReadOnce {
 public:
  using Read = std::function<std::optional<T>(const config::Node&, Diagnostics&)>;

  std::optional<T> operator()(const config::Node& node, const Read& read, Diagnostics& diagnostics);

 private:
  struct Reading {
    T value;
    Diagnostics said;  // warnings and notes, repeated for every case
  };
  std::map<std::string, Reading> readings_;
};

// Reads the cases of one file.
class CaseReader {
 public:
  explicit CaseReader(DataFolder data, OpenPlans open_plans = OpenPlans::refused)
      : data_(std::move(data)), open_plans_(open_plans) {}

  // Cases that are read next are compared with each other: of those that name no software each gets the one that
  // `needs` of all of them call for. Without it every case is judged by itself.
  void compare_by(SoftwareNeeds needs) { compared_ = needs; }

  // A case map with the base merged in. Everything wrong, refused, odd or assumed is reported; nullopt if anything is
  // wrong or refused. Keys of measured runs are known here but left aside, except that what a run lists as guessed
  // gives way to what the catalogues know: the network of the machine it ran on, the framework's choice of adapted
  // layers.
  std::optional<Case> read(const config::Node& node, const std::string& name, Diagnostics& diagnostics);

 private:
  config::Node cluster_of(const config::Node& written, bool network_is_guessed, Diagnostics& diagnostics);

  // The name of the one that is taken, which is said; empty after reporting why there is none.
  config::Node assumed_software(const config::Node& node, Diagnostics& diagnostics);

  DataFolder data_;
  OpenPlans open_plans_;
  std::optional<SoftwareNeeds> compared_;
  std::optional<SoftwareDefaults> software_defaults_;  // once a case names no software
  std::optional<config::Catalogue> nodes_;             // once a run guesses its network
  ReadOnce<Model> models_;
  ReadOnce<ClusterDescription> clusters_;
  ReadOnce<Software> software_;
};

// The same, with the case's assumptions and warnings kept in it.
std::optional<Case> read_case(CaseReader& reader, const config::Node& node, const std::string& name, Diagnostics& said);

// What a description says, without its positions: the same text for the same values.
std::string canonical_text(const config::Node& node);

}  // namespace foretrain
