#include "device/memory_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gates.h"

namespace openhpu::device {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

char* as_bytes(void* p) { return static_cast<char*>(p); }

// What the pool promises, in the simplest form that can be right.
class Model {
 public:
  explicit Model(size_t capacity) { add(0, capacity); }

  // The offset of the block, -1 if there is none.
  int64_t allocate(size_t nbytes) {
    const size_t bytes = std::max<size_t>(1, (nbytes + 127) / 128) * 128;
    auto it = by_size_.lower_bound({bytes, 0});
    if (it == by_size_.end()) return -1;
    const auto [size, offset] = *it;
    drop(offset, size);
    if (size > bytes) add(offset + bytes, size - bytes);
    live_[offset] = bytes;
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    return static_cast<int64_t>(offset);
  }
  void free(size_t offset) {
    size_t size = live_.at(offset);
    live_.erase(offset);
    in_use_ -= size;
    auto after = free_.find(offset + size);
    if (after != free_.end()) {
      size += after->second;
      drop(after->first, after->second);
    }
    auto before = free_.lower_bound(offset);
    if (before != free_.begin() && std::prev(before)->first + std::prev(before)->second == offset) {
      --before;
      const size_t start = before->first;
      size += before->second;
      drop(start, before->second);
      offset = start;
    }
    add(offset, size);
  }
  size_t in_use() const { return in_use_; }
  size_t peak() const { return peak_; }
  size_t live() const { return live_.size(); }
  size_t bytes_at(size_t offset) const { return live_.at(offset); }

 private:
  void add(size_t offset, size_t size) {
    free_[offset] = size;
    by_size_.insert({size, offset});
  }
  void drop(size_t offset, size_t size) {
    free_.erase(offset);
    by_size_.erase({size, offset});
  }
  std::map<size_t, size_t> free_, live_;
  std::set<std::pair<size_t, size_t>> by_size_;
  size_t in_use_ = 0, peak_ = 0;
};

size_t random_size(std::mt19937_64& random) {
  // 96 MiB is beyond the exact bins.
  constexpr size_t kBelow[] = {3, 96 * kMiB, 4 * kMiB, 4 * kMiB, 65536, 65536, 65536};
  const size_t kind = random() % 16;
  return kind < std::size(kBelow) ? random() % kBelow[kind] : 128 * (1 + random() % 12);  // many equals
}

void fuzz(uint64_t seed, int operations, size_t capacity) {
  std::mt19937_64 random(seed);
  MemoryPool pool("fuzz", capacity);
  Model model(capacity);
  std::vector<char*> live;
  const char* base = as_bytes(pool.allocate(1));
  pool.free(const_cast<char*>(base));
  uint64_t allocs = 1, frees = 1, failures = 0;
  int growing = 50;
  for (int i = 0; i < operations; ++i) {
    if (i % 5000 == 0) growing = 30 + static_cast<int>(random() % 41);
    if (live.empty() || static_cast<int>(random() % 100) < growing) {
      const size_t nbytes = random_size(random);
      const int64_t expected = model.allocate(nbytes);
      if (expected < 0) {
        ++failures;
        ASSERT_THROW(pool.allocate(nbytes), OutOfMemory);
        continue;
      }
      char* got = as_bytes(pool.allocate(nbytes));
      // The model's blocks cannot overlap; equal addresses prove best fit, order among equals, and coalescing.
      ASSERT_EQ(got - base, expected) << "operation " << i << ", " << nbytes << " bytes";
      ASSERT_EQ(reinterpret_cast<uintptr_t>(got) % MemoryPool::kAlignment, 0u);
      live.push_back(got);
      ++allocs;
    } else {
      std::swap(live[random() % live.size()], live.back());
      char* ptr = live.back();
      live.pop_back();
      ASSERT_EQ(pool.block_size(ptr), model.bytes_at(ptr - base));
      pool.free(ptr);
      model.free(ptr - base);
      ++frees;
    }
    if (i % 1000 == 0) {
      const MemoryStats stats = pool.stats();
      ASSERT_EQ(stats.in_use, model.in_use());
      ASSERT_EQ(stats.max_in_use, std::max<size_t>(model.peak(), 128));
      ASSERT_EQ(stats.active_allocs, model.live());
      ASSERT_EQ(stats.num_allocs, allocs);
      ASSERT_EQ(stats.num_frees, frees);
    }
  }
  for (char* ptr : live) pool.free(ptr);
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(pool.stats().active_allocs, 0u);
  EXPECT_EQ(pool.allocate(capacity), base);  // all pieces have grown together again
  EXPECT_GT(failures, 0u) << "the fuzz never filled the pool";
}

TEST(MemoryPool, FuzzAgainstTheModel) { fuzz(1, 700000, 4096 * kMiB); }
TEST(MemoryPool, FuzzAgainstTheModelWhenShortOfMemory) { fuzz(2, 300000, 64 * kMiB); }

TEST(MemoryPool, ForeignAddressesAreRefused) {
  MemoryPool pool("test", kMiB), other("other", kMiB);
  char* block = as_bytes(pool.allocate(256));
  int local = 0;
  EXPECT_THROW(pool.free(nullptr), std::invalid_argument);
  EXPECT_THROW(pool.free(&local), std::invalid_argument);
  EXPECT_THROW(pool.free(block + 128), std::invalid_argument);
  EXPECT_THROW(other.free(block), std::invalid_argument);
  pool.free(block);
  EXPECT_THROW(pool.free(block), std::invalid_argument);
  EXPECT_EQ(pool.block_size(block), 0u);
  EXPECT_EQ(pool.stats().num_frees, 1u);
  EXPECT_EQ(pool.allocate(kMiB), block);
}

TEST(MemoryPool, CapacityMayExceedTheMachine) {
  MemoryPool pool("large", size_t{1} << 42);
  char* block = as_bytes(pool.allocate(size_t{1} << 41));
  block[(size_t{1} << 41) - 1] = 1;
  pool.free(block);
  EXPECT_THROW(MemoryPool("too large", size_t{1} << 60), std::runtime_error);
  EXPECT_THROW(MemoryPool("too large", SIZE_MAX), std::invalid_argument);
}

TEST(MemoryPool, TrimGivesFreePagesBackAndKeepsLiveOnes) {
  MemoryPool pool("test", 16 * kMiB);
  char* kept = as_bytes(pool.allocate(kMiB + 128));
  char* freed = as_bytes(pool.allocate(kMiB));
  char* last = as_bytes(pool.allocate(128));
  std::memset(kept, 1, kMiB + 128);
  std::memset(freed, 2, kMiB);
  *last = 3;
  pool.free(freed);
  pool.trim();
  EXPECT_TRUE(std::all_of(kept, kept + kMiB + 128, [](char c) { return c == 1; }));
  EXPECT_EQ(*last, 3);
  ASSERT_EQ(pool.allocate(kMiB), freed);
  EXPECT_EQ(freed[kMiB / 2], 0);  // a new page
}

TEST(MemoryPool, SteadyStateHasNoPageFaults) {
  MemoryPool pool("test", 256 * kMiB);
  auto step = [&] {
    void* blocks[6];
    for (int i = 0; i < 6; ++i) {
      blocks[i] = pool.allocate(kMiB << (i % 4));
      std::memset(blocks[i], i, kMiB << (i % 4));
    }
    for (int i : {1, 4, 0, 5, 2, 3}) pool.free(blocks[i]);
  };
  auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  step();
  const long before = faults();
  for (int i = 0; i < 20; ++i) step();
  EXPECT_LE(faults() - before, 8);  // of 20 * 19 MiB; the system may move a page now and then
}

TEST(MemoryPool, ThreadsDoNotDisturbEachOther) {
  MemoryPool pool("test", 64 * kMiB);
  std::atomic<int> damaged{0};
  testing::in_threads(4, [&](int number) {
    std::mt19937 random(static_cast<unsigned>(number));
    std::vector<std::pair<char*, size_t>> live;
    for (int i = 0; i < 20000; ++i) {
      if (live.size() < 50) {
        const size_t bytes = 1 + random() % 4096;
        char* p = as_bytes(pool.allocate(bytes));
        p[0] = p[bytes - 1] = static_cast<char>(number);
        live.emplace_back(p, bytes);
      } else {
        std::swap(live[random() % live.size()], live.back());
        auto [p, bytes] = live.back();
        live.pop_back();
        if (p[0] != number || p[bytes - 1] != number) ++damaged;
        pool.free(p);
      }
    }
    for (auto [p, bytes] : live) pool.free(p);
  });
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(pool.block_size(pool.allocate(64 * kMiB)), 64 * kMiB);
}

// A file without a name, of whole pages.
class PoolFile : public ::testing::Test {
 protected:
  void SetUp() override {
    file = ::memfd_create("test", MFD_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::ftruncate(file, static_cast<off_t>(kBytes)), 0);
  }
  void TearDown() override { ::close(file); }
  // The first whole page of a block.
  static char* page_in(void* block) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(block) + page - 1) / page * page);
  }
  static constexpr size_t kBytes = 1 << 16;
  int file = -1;
};

TEST_F(PoolFile, ProtectionCoversIt) {
  MemoryPool pool("HPU 0", kMiB);
  char* at = page_in(pool.allocate(2 * kBytes));
  pool.set_protection(true);
  pool.map_file(at, kBytes, file);
  EXPECT_DEATH(at[0] = 1, "");
  {
    MemoryPool::AccessScope access(pool);
    at[0] = 1;
    EXPECT_EQ(at[0], 1);
  }
  EXPECT_DEATH(at[0] = 1, "");
  EXPECT_TRUE(pool.unmap_file(at, kBytes));
  EXPECT_DEATH(at[0] = 1, "");
}

TEST_F(PoolFile, ARefusalChangesNothing) {
  MemoryPool pool("HPU 0", kMiB);
  char* at = page_in(pool.allocate(2 * kBytes));
  at[0] = 5;
  try {
    pool.map_file(at, kBytes, -1);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("HPU 0: cannot map 65536 (0.06 MB) of shared memory"), std::string::npos);
  }
  EXPECT_EQ(at[0], 5);
}

}  // namespace
}  // namespace openhpu::device
