#include "device/backing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "device/host.h"

namespace openhpu::device {
namespace {

// Promised without another look at the machine, so that growing by small blocks does not read files each time.
constexpr uint64_t kCredit = uint64_t{64} << 20;

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f MB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

struct Backing::Shared {
  std::mutex mutex;  // also guards all objects' members against `untouched`
  std::vector<Backing*> all;
  uint64_t credit = 0;
  std::string root;
};

Backing::Shared& Backing::shared() {
  static auto* one = new Shared;
  return *one;
}

Backing::Backing(uintptr_t base, size_t bytes) : base_(base), bytes_(bytes) {
  const size_t chunks = (bytes + kChunk - 1) / kChunk;
  promised_.resize(chunks);
  touched_.resize(chunks);
  std::lock_guard lock(shared().mutex);
  shared().all.push_back(this);
}

Backing::~Backing() {
  std::lock_guard lock(shared().mutex);
  std::erase(shared().all, this);
}

std::string Backing::promise(size_t begin, size_t end) {
  const size_t first = begin / kChunk, last = (end - 1) / kChunk;
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  uint64_t bytes = 0;
  for (size_t chunk = first; chunk <= last; ++chunk)
    if (!promised_[chunk]) bytes += kChunk;
  if (bytes > s.credit) {
    const HostMemory host = host_memory(s.root);
    const uint64_t kept = kept_for_host(host.total);
    uint64_t waiting = 0;
    for (Backing* each : s.all) waiting += each->untouched();
    const uint64_t room = host.available - std::min(host.available, kept + waiting);
    if (bytes > room) {
      s.credit = 0;
      return "the machine has no room for " + megabytes(bytes) + " more: " + megabytes(host.available) +
             " are available (" + host.bound + "), less " + megabytes(kept) + " kept for the host's side" +
             (waiting ? " and " + megabytes(waiting) + " of device memory that is in use but not yet written" : "");
    }
    s.credit = bytes + std::min(kCredit, room - bytes);
  }
  s.credit -= bytes;
  for (size_t chunk = first; chunk <= last; ++chunk) {
    if (promised_[chunk]) continue;
    promised_[chunk] = true;
    first_open_ = std::min(first_open_, chunk);
    end_ = std::max(end_, chunk + 1);
  }
  return {};
}

void Backing::forget(size_t begin, size_t end) noexcept {
  std::lock_guard lock(shared().mutex);
  for (size_t chunk = begin / kChunk; chunk <= (end - 1) / kChunk; ++chunk) promised_[chunk] = touched_[chunk] = false;
}

// Bytes that are promised and not backed. Each chunk is asked about until it has been touched.
size_t Backing::untouched() {
  static const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(kChunk / page);
  size_t missing = 0;
  size_t first_open = end_;
  for (size_t chunk = first_open_; chunk < end_; ++chunk) {
    if (!promised_[chunk] || touched_[chunk]) continue;
    const size_t bytes = std::min(kChunk, bytes_ - chunk * kChunk);
    // Where the system can't say, nothing is assumed to wait.
    if (::mincore(reinterpret_cast<void*>(base_ + chunk * kChunk), bytes, resident.data()) != 0) return 0;
    size_t absent = 0;
    for (size_t i = 0; i < bytes / page; ++i) absent += !(resident[i] & 1);
    missing += absent * page;
    touched_[chunk] = absent == 0;
    if (absent) first_open = std::min(first_open, chunk);
  }
  first_open_ = first_open;
  return missing;
}

void Backing::lock_all() { shared().mutex.lock(); }
void Backing::unlock_all() { shared().mutex.unlock(); }

void Backing::set_root(std::string root) {
  std::lock_guard lock(shared().mutex);
  shared().root = std::move(root);
  shared().credit = 0;
}

}  // namespace openhpu::device
