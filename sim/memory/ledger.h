#pragma once

#include <string>
#include <vector>

#include "sim/plan/stage_layout.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

// What holds the bytes of one GPU. Every figure is what the allocator counts; what the driver adds is apart.
struct MemoryParts {
  Bytes weights, gradients, optimizer;  // this rank's share after ZeRO
  Bytes gathered_parameters;            // ZeRO-3: blocks whose weights are whole for the moment
  Bytes communication_buffers;          // gradient buckets and the like
  Bytes activations;                    // kept between forward and backward, all micro-batches in flight
  Bytes working_set;                    // of the pass that runs: recomputed activations, their gradients
  Bytes logits;                         // output scores and their gradient
  Bytes optimizer_extra;                // temporaries of the optimizer step

  Bytes total() const;
  std::vector<std::pair<std::string, Bytes>> named() const;
};

// The memory of a pipeline stage's rank, as amounts that passes take and give back.
struct StageMemory {
  MemoryParts always;     // weights, optimizer, buffers; gradients unless they come and go
  Bytes gathered;         // whole blocks of ZeRO-3: in forward and backward passes, not while the optimizer steps
  Bytes optimizer_extra;  // only while the optimizer steps
  struct ChunkMemory {
    Bytes kept;              // taken by a forward pass of one micro-batch, given back by its backward pass
    Bytes last_kept;         // of `kept`: what is still there when the backward pass is at its last block
    Bytes deferred;          // held from the first half of a backward pass to the second, where they are apart
    Bytes gradients;         // taken by the chunk's first backward pass, given back by the optimizer; 0 if they stay
    Bytes dropped;           // made and dropped by the forward pass of a layer that is recomputed
    Bytes backward_working;  // held by the backward pass of the layers
    Bytes logits;            // held at the end of the forward pass and at the start of the backward pass
    Bytes logits_kept;       // of `logits`: what stays between the two
    Bytes offloaded;         // beside `kept`, in host memory for as long
  };
  std::vector<ChunkMemory> chunks;

  Bytes passing_gradients() const;  // of all chunks
};

// Formulas of activation memory: Korthikanti et al., arXiv 2205.05198, section 4, with the framework's own habits
// (fused or not, selective recompute, precision of gradients) from its profile.
std::vector<StageMemory> stage_memories(const Case& subject, const std::vector<StageLayout>& layouts);

// Bytes of activations that one layer keeps for the backward pass of one micro-batch on one rank.
Bytes kept_activations_of_layer(const Case& subject, bool recomputed, LayerKind kind);
// What of it goes to the host until the backward pass.
Bytes offloaded_activations_of_layer(const Case& subject, bool recomputed, LayerKind kind);

// Of a block's weights where they live on the host: a rank's part after ZeRO, and whole; and of each, those of a
// trained parameter.
double offloaded_weight_bytes(const Case& subject, const Block& block);
double whole_offloaded_weight_bytes(const Case& subject, const Block& block);
// A rank's part of the second copy of a block's weights that ZeRO++ keeps in every group, and whether that is on the
// host: it lies with the sharded weights, unless those are on drives.
double second_copy_bytes(const Case& subject, const Block& block);
bool second_copy_on_host(const Case& subject);
double trained_weight_bytes(const Case& subject);
// Whether a rank keeps fp8 copies of the linear layers' weights, of which the 16-bit ones are the master copy.
bool has_fp8_copies(const Case& subject);
// Of optimizer state, on average a trained parameter of a stage.
double host_state_bytes(const Case& subject, const StageLayout& layout);

// The three figures a user meets.
struct MemoryFigures {
  Bytes allocated;  // torch.cuda.max_memory_allocated
  Bytes reserved;   // max_memory_reserved: the allocator's pool with its slack
  Bytes device;     // what nvidia-smi shows: pool, CUDA context, communicator buffers
};
// `allocated`: the peak; `pooled`: the same if nothing that was freed were used again for other sizes.
MemoryFigures figures(const Case& subject, Bytes allocated, Bytes pooled);

// What must fit of the allocator's bytes: those of `parts`, and the gaps between passing tensors
// (Software::activation_fragmentation).
Bytes with_fragments(const MemoryParts& parts, double fragmentation);

// What must fit beside the allocator's bytes: the CUDA context and the communicators' buffers.
Bytes outside_the_allocator(const Case& subject);

}  // namespace foretrain
