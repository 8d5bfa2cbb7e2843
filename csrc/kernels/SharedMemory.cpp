#include "kernels/SharedMemory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "observe/MemoryHistory.h"
#include "record/Lazy.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

[[noreturn]] void no_descriptor(int error) {
  TORCH_CHECK(
      false, "An hpu tensor can't be shared with another process: ", std::strerror(error), ".",
      error == EMFILE || error == ENFILE
          ? " Each shared storage takes a file descriptor: raise `ulimit -n`, or send fewer tensors at a time."
          : "");
}

// Nobody may make it shorter: a process that reads beyond its end would be killed.
int new_file(size_t nbytes) {
  const int file = ::memfd_create("hpu tensor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) no_descriptor(errno);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (::ftruncate(file, static_cast<off_t>((nbytes + page - 1) / page * page)) != 0) {
    const int error = errno;
    ::close(file);
    no_descriptor(error);
  }
  ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return file;
}

// Moves what a storage holds to the first whole page of a block that is a file's contents.
void move_to_file(c10::StorageImpl& storage, device::Device& d) {
  require_memory(storage);
  const size_t nbytes = storage.nbytes();
  auto block = map_block(d, nbytes, new_file(nbytes));
  auto& recorder = Recorder::of(d);
  Recorder::Lock lock(recorder);
  recorder.flush_locked();
  if (shared_file(storage) >= 0) return;  // by another thread meanwhile
  auto* memory = memory_of(storage);
  TORCH_CHECK(
      !memory->shared || memory->shared.use_count() == 1,
      "An hpu tensor whose address a captured graph holds can't be moved to memory that is shared with another "
      "process. "
      "Send it, or a clone of it, before the capture.");
  copy_in_order(d, "move to shared memory", block->data, memory->data, nbytes);
  free_block(d, place_in(storage, std::move(block)));
}

}  // namespace

int shared_file(const c10::StorageImpl& storage) noexcept {
  const auto* memory = memory_of(storage);
  return memory && memory->shared ? memory->shared->file : -1;
}

int share_storage(c10::StorageImpl& storage) {
  auto* memory = memory_of(storage);
  TORCH_CHECK(
      storage.device_type() == c10::kHPU && memory && storage.nbytes() > 0,
      "expected a storage with memory of an hpu device, got one of ", storage.nbytes(), " bytes on ", storage.device());
  auto& d = device_of(memory->device);
  check_wait(d, "sharing a tensor with another process");
  if (shared_file(storage) < 0) {
    move_to_file(storage, d);
    storage.set_resizable(false);
  }
  wait_for_commands(d, "sharing a tensor with another process");
  return shared_file(storage);
}

c10::Storage open_shared_storage(int file, size_t nbytes, c10::DeviceIndex index) {
  struct stat found{};
  TORCH_CHECK(
      ::fstat(file, &found) == 0 && static_cast<size_t>(found.st_size) >= nbytes && nbytes > 0,
      "expected a file of at least ", nbytes, " bytes, a tensor's of another process, got one of ", found.st_size);
  index = normalize_index(index);
  auto& d = device_of(index);
  const int own = ::fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (own < 0) no_descriptor(errno);
  auto block = map_block(d, nbytes, own);
  return c10::Storage(
      c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), nbytes, make_mapped(index, nbytes, std::move(block)), hpu_allocator(),
          /*resizable=*/false));
}

}  // namespace openhpu
