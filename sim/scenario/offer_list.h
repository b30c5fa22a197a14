#pragma once

#include <string>
#include <vector>

#include "sim/scenario/offers.h"

namespace foretrain {

// Where the names of a list of offers lead.
struct OfferPlaces {
  DataFolder data;     // its configs/offers are known by their names
  std::string folder;  // paths are relative to it; empty: to the working directory
};

// What `node` lists: "idc10000" is all offers of a file of the catalogue, "idc10000/t4" one of them, a path that ends
// in .yaml a file of the user's, and a map is an offer (purchase) itself. One such value is a list of one. Without a
// list: all of the catalogue but what is historic. Exchange rates come with the files. Everything wrong is reported.
OfferFile gather_offers(const config::Node* node, const OfferPlaces& places, Diagnostics& diagnostics);
std::vector<Purchase> gather_purchases(const config::Node* node, const OfferPlaces& places, Diagnostics& diagnostics);

}  // namespace foretrain
