#include <algorithm>
#include <bit>

#include "sim/hardware/node_graph.h"

namespace foretrain {

namespace {

using Links = std::array<std::array<int, 8>, 8>;

// Walks every ring that starts at the lowest member; of the two directions only one.
void find_rings(unsigned members, std::vector<int>& path, unsigned visited, MeshRings& rings) {
  const int here = path.back();
  if (visited == members) {
    if (path[1] < here && cube_mesh_links(here, path[0]) > 0) rings.push_back(path);
    return;
  }
  for (int next = 0; next < 8; ++next) {
    const unsigned bit = 1u << next;
    if ((members & bit) == 0 || (visited & bit) != 0 || cube_mesh_links(here, next) == 0) continue;
    path.push_back(next);
    find_rings(members, path, visited | bit, rings);
    path.pop_back();
  }
}

bool take(Links& left, const std::vector<int>& ring) {
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const auto a = static_cast<std::size_t>(ring[i]);
    const auto b = static_cast<std::size_t>(ring[(i + 1) % ring.size()]);
    if (left[a][b] == 0) return false;
    --left[a][b];
    --left[b][a];
  }
  return true;
}

// Depth-first search for the largest set of edge-disjoint rings; stops at `most`.
void pack(const MeshRings& rings, std::size_t from, const Links& left, MeshRings& chosen, MeshRings& best,
          std::size_t most) {
  if (chosen.size() > best.size()) best = chosen;
  for (std::size_t i = from; i < rings.size() && best.size() < most; ++i) {
    Links rest = left;
    if (!take(rest, rings[i])) continue;
    chosen.push_back(rings[i]);
    pack(rings, i, rest, chosen, best, most);
    chosen.pop_back();
  }
}

}  // namespace

int cube_mesh_links(int a, int b) {
  // pytorch/pytorch benchmarks/distributed/ddp/README.md, topology matrix of an 8x V100 server.
  static constexpr int kLinks[8][8] = {
      {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
      {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1}, {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0},
  };
  return kLinks[a][b];
}

MeshRings cube_mesh_rings(unsigned members) {
  const int count = std::popcount(members);
  if (count < 2) return {};
  const int first = std::countr_zero(members);
  if (count == 2) {
    const int second = std::countr_zero(members & (members - 1));
    return MeshRings(static_cast<std::size_t>(cube_mesh_links(first, second)), {first, second});
  }
  MeshRings rings;
  std::vector<int> path{first};
  find_rings(members, path, 1u << first, rings);
  Links left{};
  std::size_t fewest = 6;
  for (int a = 0; a < 8; ++a) {
    std::size_t degree = 0;
    for (int b = 0; b < 8; ++b) {
      if ((members >> a & members >> b & 1u) == 0) continue;
      left[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = cube_mesh_links(a, b);
      degree += static_cast<std::size_t>(cube_mesh_links(a, b));
    }
    if ((members >> a & 1u) != 0) fewest = std::min(fewest, degree);
  }
  MeshRings chosen, best;
  pack(rings, 0, left, chosen, best, fewest / 2);
  return best;
}

}  // namespace foretrain
