#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace openhpu::device {

// The parts of a reserved range for which the machine was found to have memory.
//
// Pages are backed when they are first touched. If the machine has no memory then, the system kills a process. So a
// part is promised before a block of it is handed out. A refusal is an error for the script. A promised part is never
// checked again, so a pool in a steady state asks nothing. Pages that were promised and not yet touched count as taken,
// in all ranges of this process.
class Backing {
 public:
  static constexpr size_t kChunk = size_t{2} << 20;  // a huge page: one touch backs all of it

  Backing(uintptr_t base, size_t bytes);
  ~Backing();
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // Functions of one object are called under one lock (its pool's). Offsets are from the base.
  bool covers(size_t begin, size_t end) const noexcept {
    for (size_t chunk = begin / kChunk; chunk <= (end - 1) / kChunk; ++chunk)
      if (!promised_[chunk]) return false;
    return true;
  }
  // Promises the parts that are not promised yet. If the machine is short of memory, it changes nothing and returns the
  // reason.
  std::string promise(size_t begin, size_t end);
  // The pages were given back to the system.
  void forget(size_t begin, size_t end) noexcept;

  // Held across a fork, after the locks under which the functions are called.
  static void lock_all();
  static void unlock_all();
  // Reads the machine's state below this folder (tests).
  static void set_root(std::string root);

 private:
  struct Shared;
  static Shared& shared();
  size_t untouched();

  const uintptr_t base_;
  const size_t bytes_;
  std::vector<bool> promised_;       // by chunk
  std::vector<bool> touched_;        // found to be backed as a whole
  size_t first_open_ = 0, end_ = 0;  // promised chunks that are not in `touched_` lie between
};

}  // namespace openhpu::device
