#include "distributed/NodeMemory.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace openhpu {
namespace {

constexpr long kSleepNs = 20'000'000;

// What two processes of one machine have in common that can open each other's files: the kernel's start, the numbers of
// processes, the user.
std::string place() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  struct stat numbers{};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &numbers) != 0) return "";
  return c10::str(boot, "/", numbers.st_ino, "/", ::geteuid());
}

std::vector<uint8_t> as_bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string of_rank(const char* what, int rank) { return c10::str("openhpu/node/", what, rank); }

// A lock on this rank's byte of the file. It goes when the process ends, and no child inherits it.
struct flock mark_of(int rank) {
  return {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1, .l_pid = 0};
}

}  // namespace

std::unique_ptr<NodeMemory> NodeMemory::create(c10d::Store& store, int rank, int size, bool wanted) {
  const auto text_at = [&](const std::string& key) {
    const auto found = store.get(key);
    return std::string(found.begin(), found.end());
  };
  // Rank 0 makes the file; the others open it through its process.
  int file = -1;
  const std::string here = wanted && size > 1 && static_cast<size_t>(size) <= kMostRanks ? place() : "";
  if (rank == 0 && !here.empty()) {
    file = ::memfd_create("hccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file >= 0 && (::ftruncate(file, static_cast<off_t>(bytes(size))) != 0 ||
                      ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
      ::close(file);
      file = -1;
    }
  }
  const bool can = !here.empty() && (rank != 0 || file >= 0);
  store.set(of_rank("place", rank), as_bytes(can ? c10::str(here, " ", ::getpid(), " ", file) : ""));
  std::vector<int> processes;
  std::string first;
  bool together = can;
  for (int other = 0; other < size; ++other) {
    std::istringstream told(text_at(of_rank("place", other)));
    std::string there;
    int process = 0, its_file = -1;
    told >> there >> process >> its_file;
    together = together && there == here && !told.fail();
    processes.push_back(process);
    if (other == 0) first = c10::str("/proc/", process, "/fd/", its_file);
  }
  std::unique_ptr<NodeMemory> made;
  if (together) {
    if (rank != 0) file = ::open(first.c_str(), O_RDWR | O_CLOEXEC);
    if (file >= 0) {
      made.reset(new NodeMemory(std::exchange(file, -1), rank, processes));
      if (!made->base_) made.reset();
    }
  }
  if (file >= 0) ::close(file);
  store.set(of_rank("has", rank), as_bytes(made ? "1" : "0"));
  bool all = true;
  for (int other = 0; other < size; ++other) all = text_at(of_rank("has", other)) == "1" && all;
  if (!all) made.reset();
  return made;
}

NodeMemory::NodeMemory(int file, int rank, std::vector<int> processes)
    : file_(file), rank_(rank), processes_(std::move(processes)) {
  struct flock mark = mark_of(rank);
  if (::fcntl(file_, F_SETLK, &mark) != 0) return;
  void* found = ::mmap(nullptr, bytes(size()), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (found == MAP_FAILED) return;
  ::madvise(found, bytes(size()), MADV_DONTFORK);
  base_ = static_cast<std::byte*>(found);
}

NodeMemory::~NodeMemory() {
  if (base_) ::munmap(base_, bytes(size()));
  ::close(file_);
}

bool NodeMemory::all_here() const noexcept {
  for (int rank = 0; rank < size(); ++rank)
    if (behind(head(rank).published.load(std::memory_order_acquire))) return false;
  return true;
}

void NodeMemory::publish(const Label& label) noexcept {
  Rank& own = head(rank_);
  own.labels[next_ % 2] = label;
  own.published.store(next_++, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst))
    ::syscall(SYS_futex, &own.published, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

const NodeMemory::Label& NodeMemory::label_of(int rank) const noexcept { return head(rank).labels[(next_ - 1) % 2]; }

int NodeMemory::sleep() {
  for (int rank = 0; rank < size(); ++rank) {
    Rank& other = head(rank);
    other.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = other.published.load(std::memory_order_seq_cst);
    const bool late = behind(seen);
    if (late) {
      const timespec most{0, kSleepNs};
      ::syscall(SYS_futex, &other.published, FUTEX_WAIT, seen, &most, nullptr, 0);
    }
    other.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (late) return rank;
  }
  return -1;
}

bool NodeMemory::left(int rank) const {
  if (process_of(rank) == process_of(rank_)) return false;
  struct flock mark = mark_of(rank);
  if (::fcntl(file_, F_GETLK, &mark) != 0 || mark.l_type != F_UNLCK) return false;
  return behind(head(rank).published.load(std::memory_order_acquire));  // it may have come before it went
}

}  // namespace openhpu
