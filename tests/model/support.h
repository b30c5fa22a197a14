#pragma once

#include <string>

// Where the models of the catalogue are.
inline const std::string kModels = std::string(FORETRAIN_SOURCE_DIR) + "/configs/models";
