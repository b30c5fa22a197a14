#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/config/catalogue.h"
#include "sim/hardware/mig.h"

namespace foretrain {

// Number formats a training run computes in. tf32 is fp32 storage with tensor-core multiplication.
// nvfp4: four bits, with an fp8 scale for every 16 elements.
enum class Precision { fp32, tf32, fp16, bf16, fp8, nvfp4 };
inline constexpr int kPrecisions = 6;
// Those that kernels are measured in. Products in nvfp4 reach the same share of their datasheet rate as those in fp8.
inline constexpr int kMeasuredPrecisions = 5;
const char* to_string(Precision precision);
// fp8 and nvfp4: linear layers quantise what they multiply, and everything else stays in bf16.
bool is_quantised(Precision precision);
// Of everything but the products of linear layers.
Precision unquantised(Precision precision);
// Bytes of one stored activation or weight element: 4 for fp32 and tf32, 2 for all others, since quantised runs keep
// weights and most activations in bf16.
double element_bytes(Precision precision);
// Bytes of an element that a product reads, with its share of a block's scale.
double operand_bytes(Precision precision);

enum class AttentionKernel { standard, flash1, flash2, flash3 };
inline constexpr int kAttentionKernels = 4;
const char* to_string(AttentionKernel kernel);

// What a GPU's kernels reach in sustained training, as fractions of its datasheet rates. From hardware/calibrated.
struct AchievedRates {
  // Fraction of the dense matrix rate; 0 where the precision is not supported.
  std::array<double, kPrecisions> matmul{};
  // Fraction of the memory bandwidth that a fused streaming kernel reaches.
  double memory = 0.0;
  Seconds kernel_floor;  // device time of an empty kernel in a stream
  // The same for the elementwise kernels of a training step (norms, activations, copies), which come in long chains of
  // small ones: what a whole step pays for each, 4 us (study of whole steps).
  Seconds elementwise_floor;
  struct Attention {
    double forward = 0.0, backward = 0.0;  // fraction of the dense rate on the causal FLOPs, head dim 128
    double prologue = 0.0;                 // S0: tokens of sequence lost to masked diagonal blocks
  };
  // Flash kernels only; standard attention is a chain of GEMMs and memory-bound kernels. All zero where a kernel does
  // not run on the GPU (no flash kernel on Volta, FlashAttention-3 needs Hopper; on Blackwell the entry of flash3 is
  // that of the kernels current there). Fractions are of the bf16 rate (fp16 where there is no bf16).
  std::array<Attention, kAttentionKernels> flash{};
  // Share of the SMs that a collective's kernel holds while it runs (NCCL channels / SM count).
  double collective_sm_share = 0.0;
  std::string source;
  std::string inherited_from;  // empty if measured on this GPU; else the family whose values stand in
};

// A GPU of the catalogue (hardware/gpus): the datasheet, and beside it what is achieved.
struct Gpu {
  std::string name;   // catalogue name, e.g. "a100-sxm4-80gb"
  std::string slice;  // its MIG profile, e.g. "3g.40gb"; empty for a whole card
  std::string vendor;
  std::string architecture;        // volta turing ampere ada hopper blackwell cdna1 cdna2 cdna3 gcn5
  Bytes memory;                    // total as the driver reports it, not the nominal size
  double nominal_memory_gb = 0.0;  // the name's figure, for display
  BytesPerSecond memory_bandwidth;
  std::array<std::optional<FlopsPerSecond>, kPrecisions> dense_rate;  // datasheet, no sparsity
  int sm_count = 0;
  Bytes l2;  // second-level cache
  struct NvLink {
    int generation = 0, links = 0;
    BytesPerSecond per_direction;  // all links together
    bool xgmi = false;             // AMD's links; `generation` then counts Infinity Fabric generations
    bool bridge = false;           // an optional bridge between cards; else links of the board, always there
    // The values of a cluster's `intra` (other than pcie ones) these links can be built into; the first is the usual
    // one. Empty: unknown, anything goes.
    std::vector<std::string> layouts;
  };
  std::optional<NvLink> nvlink;
  // To the memory of its CPU where both are one module (NVLink-C2C), one direction: datasheet, and what copies reach; 0
  // where there is only PCIe.
  BytesPerSecond c2c, c2c_copy;
  int pcie_generation = 3, pcie_lanes = 16;
  bool one_way_copies = false;  // one copy engine only, which goes one way at a time (small MIG slices)
  double tdp_watts = 0.0;
  double drawn = 1.0;         // of it, by matrix products without a power limit: less for a card that its clock binds
  bool p2p_over_pcie = true;  // false: the driver refuses, copies between GPUs go through host memory
  std::optional<Mig> mig;     // how it may be cut into slices, where it can
  AchievedRates achieved;
  std::string usual_node;  // of the catalogue: how several nodes of it are mostly built and joined; may be empty
  std::string source;

  std::string full_name() const { return slice.empty() ? name : name + " " + slice; }
  std::optional<FlopsPerSecond> dense(Precision p) const { return dense_rate[static_cast<std::size_t>(p)]; }
};

// Where the data of the product lives: the folder that holds hardware/ and configs/.
struct DataFolder {
  std::string path;
};

// Loads a GPU by catalogue name or alias, with its achieved rates (hardware/calibrated/<achieved>.yaml). A name that
// fits several cards ("a100" without a memory size) is an error that lists them.
std::optional<Gpu> load_gpu(const DataFolder& data, std::string_view name, SourcePosition asked_at,
                            Diagnostics& diagnostics);

// A GPU of the catalogue without its achieved rates: what the calibration starts from.
struct Datasheet {
  Gpu gpu;               // `achieved` is empty
  std::string achieved;  // name of its file in hardware/calibrated, which may not be there yet
  SourcePosition achieved_at;
};
std::optional<Datasheet> load_datasheet(const DataFolder& data, std::string_view name, SourcePosition asked_at,
                                        Diagnostics& diagnostics);

// One slice of a card as a GPU of its own: its SMs with their part of the matrix rates, its memory and bandwidth. Rates
// are those of a card that is busy as a whole, since slices share its power and clock.
Gpu slice_of(const Gpu& card, const MigProfile& profile);

// The same card held at a lower power: matmul and attention rates fall with (limit / drawn)^0.67 (study of whole
// steps, 500 W H100 rows). A limit above what it draws changes nothing.
Gpu with_power_limit(Gpu gpu, double watts);

}  // namespace foretrain
