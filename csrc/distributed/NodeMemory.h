#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

// Memory that all ranks of a group share, if they are processes of one machine. Each rank writes its chunks there, one
// after another, and reads the chunks of the others. The memory is the contents of a file without a name (memfd).
//
// A rank has two slots, for even and odd chunks. A rank publishes chunk n - 1 only after it has read chunk n - 2 of all
// others. So a rank that has seen chunk n - 1 of all others may write chunk n into the slot of chunk n - 2. Two slots
// suffice, without further messages.
namespace openhpu {

class NodeMemory {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;  // of one rank
  // Facts that ranks compare before they read each other's chunk.
  struct Label {
    uint32_t kind, reduction, dtype, root;
    uint64_t nbytes;
    bool operator==(const Label&) const = default;
  };

  // All ranks call it. Either all get the memory or none does. None gets it if the ranks are not on one machine, if
  // they cannot open each other's files (other users, other process namespaces), or if one does not want it. `store`:
  // the group's.
  static std::unique_ptr<NodeMemory> create(c10d::Store& store, int rank, int size, bool wanted);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(processes_.size()); }

  // Whether every rank has published as many chunks as this one: its last can be read, its next be written.
  bool all_here() const noexcept;
  // This rank's slot for its next chunk, until `publish`.
  std::byte* slot() noexcept { return slot(rank_, next_); }
  void publish(const Label& label) noexcept;
  // The chunk of a rank that belongs to this one's last.
  const std::byte* slot_of(int rank) const noexcept { return slot(rank, next_ - 1); }
  const Label& label_of(int rank) const noexcept;
  // Sleeps until a rank that is behind has published, for 20 ms at most. Its rank; -1: none is behind.
  int sleep();
  // Whether a rank that was behind has ended, or has closed the memory.
  bool left(int rank) const;
  int process_of(int rank) const { return processes_[static_cast<size_t>(rank)]; }

 private:
  struct alignas(64) Rank {
    std::atomic<uint32_t> published;
    std::atomic<uint32_t> sleepers;
    Label labels[2];
  };
  static constexpr size_t kHeadBytes = 4096;
  static constexpr size_t kMostRanks = kHeadBytes / sizeof(Rank);

  NodeMemory(int file, int rank, std::vector<int> processes);
  static size_t bytes(int ranks) { return kHeadBytes + static_cast<size_t>(ranks) * 2 * kChunkBytes; }
  Rank& head(int rank) const noexcept { return reinterpret_cast<Rank*>(base_)[rank]; }
  std::byte* slot(int rank, uint32_t chunk) const noexcept {
    return base_ + kHeadBytes + (static_cast<size_t>(rank) * 2 + chunk % 2) * kChunkBytes;
  }
  bool behind(uint32_t published) const noexcept { return static_cast<int32_t>(published - (next_ - 1)) < 0; }

  const int file_;
  const int rank_;
  const std::vector<int> processes_;
  std::byte* base_ = nullptr;
  uint32_t next_ = 1;  // number of this rank's next chunk
};

}  // namespace openhpu
