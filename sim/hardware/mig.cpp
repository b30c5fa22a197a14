#include "sim/hardware/mig.h"

#include <algorithm>
#include <cstdint>

#include "sim/config/reader.h"

namespace foretrain {
namespace {

constexpr int kMostMemorySlices = 8;  // as cards have; the places of slices are searched

MigProfile read_profile(const config::Node& node, int slices, int sm_count, Bytes memory, Diagnostics& diagnostics) {
  config::MapReader map(node, diagnostics, "mig.profiles");
  MigProfile profile;
  profile.name = map.required_text("profile");
  profile.memory = {map.required_number("memory_gib", config::Unit::count, {1e-3, memory.value / kGiB}) * kGiB};
  profile.sm_count = static_cast<int>(map.required_integer("sm_count", {1, static_cast<double>(sm_count)}));
  profile.memory_slices = static_cast<int>(map.required_integer("slices", {1, static_cast<double>(slices)}));
  profile.copy_engines = static_cast<int>(map.required_integer("copy_engines", {1, 64}));
  const config::Range places{0, static_cast<double>(slices - profile.memory_slices)};
  for (const double start : map.number_list("starts", config::Unit::count, places).value_or(std::vector<double>{})) {
    profile.starts.push_back(static_cast<int>(start));
  }
  if (profile.starts.empty())
    map.error("starts", message("mig.profiles.starts must list the memory slices where it may begin"));
  map.finish();
  return profile;
}

// Puts the slices from `next` on beside those that `taken` (a bit a memory slice) already holds.
bool place(std::span<const MigProfile* const> slices, std::uint64_t taken) {
  if (slices.empty()) return true;
  for (const int start : slices.front()->starts) {
    const std::uint64_t place_bits = ((1ULL << slices.front()->memory_slices) - 1) << start;
    if ((taken & place_bits) == 0 && place(slices.subspan(1), taken | place_bits)) return true;
  }
  return false;
}

}  // namespace

const MigProfile* Mig::find(std::string_view name) const {
  const auto found = std::find_if(profiles.begin(), profiles.end(), [&](const auto& p) { return p.name == name; });
  return found == profiles.end() ? nullptr : &*found;
}

std::vector<std::string> Mig::names() const {
  std::vector<std::string> all;
  for (const MigProfile& profile : profiles) all.push_back(profile.name);
  return all;
}

bool Mig::holds(std::span<const MigProfile* const> slices) const {
  if (slices.size() > static_cast<std::size_t>(memory_slices)) return false;
  // The largest first: they have the fewest places.
  std::vector<const MigProfile*> sorted(slices.begin(), slices.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->starts.size() < b->starts.size(); });
  return place(sorted, 0);
}

int Mig::most(const MigProfile& profile) const {
  std::vector<const MigProfile*> slices;
  do slices.push_back(&profile);
  while (holds(slices));
  return static_cast<int>(slices.size()) - 1;
}

std::optional<Mig> read_mig(config::MapReader& gpu, int sm_count, Bytes memory, Diagnostics& diagnostics) {
  const config::Node* node = gpu.node("mig");
  if (present(node) == nullptr) return std::nullopt;
  config::MapReader map(*node, diagnostics, "mig");
  Mig mig;
  mig.memory_slices = static_cast<int>(map.required_integer("memory_slices", {1, kMostMemorySlices}));
  const config::Node* list = map.node("profiles");
  if (list == nullptr || !list->is_sequence() || list->sequence().empty()) {
    map.error(
        "profiles",
        message("mig.profiles must be a list of {{profile, memory_gib, sm_count, slices, starts, copy_engines}}"));
  } else {
    for (const config::Node& entry : list->sequence()) {
      mig.profiles.push_back(read_profile(entry, mig.memory_slices, sm_count, memory, diagnostics));
    }
  }
  map.text("source");
  map.finish();
  return mig;
}

}  // namespace foretrain
