#include "torch/HPUAllocator.h"

#include <unistd.h>

#include "Above.h"
#include "observe/MemoryHistory.h"
#include "observe/events.h"
#include "observe/site.h"
#include "torch/CompileOnly.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

// The number of blocks that are shared with other processes and that a command, still in a queue, will give back.
std::atomic<int> blocks_on_their_way{0};
// Bytes of pending storages, and how many there are, by device.
std::array<std::atomic<uint64_t>, kMaxDevices> promised_bytes{};
std::array<std::atomic<uint64_t>, kMaxDevices> promised_blocks{};

// `blocks`: 1 or, where the promise is over, -1.
void promise(const HPUMemory& memory, int64_t blocks) {
  promised_bytes[memory.pool].fetch_add(static_cast<uint64_t>(blocks) * memory.nbytes, std::memory_order_relaxed);
  promised_blocks[memory.pool].fetch_add(static_cast<uint64_t>(blocks), std::memory_order_relaxed);
}

void delete_memory(void* context) {
  auto* memory = static_cast<HPUMemory*>(context);
  if (C10_UNLIKELY(memory->born != 0)) forget_made(*memory);
  if (memory->pending()) promise(*memory, -1);
  const bool recorded = (memory->graph.load(std::memory_order_relaxed) | memory->capture) != 0;
  auto* d = device::DeviceRegistry::instance().get_if_open(memory->pool);
  if (C10_UNLIKELY(!d)) {
    // In a forked child, and after the shutdown: the recorder may be locked by a thread that does not exist here or
    // that never goes on, and it may still point to what it recorded, which is therefore left.
    if (!recorded) delete memory;
    return;
  }
  if (recorded && above.forget_memory(*memory)) {
    delete memory;
    return;
  }
  // In-order reuse: the block may be handed out again at once, since every command that could still touch it was
  // queued before any command of its next owner.
  if (C10_UNLIKELY(memory->in_order.load(std::memory_order_relaxed))) share_memory(*memory);
  if (!memory->shared) free_block(*d, memory->data);
  delete memory;
}

std::array<std::atomic<uint64_t>, kMaxDevices> reported_peak{};

void report_peak(device::Device& d, uint32_t site) {
  const uint64_t peak = d.memory().stats().max_in_use;
  auto& seen = reported_peak[d.index()];
  if (peak > seen.load(std::memory_order_relaxed)) {
    seen.store(peak, std::memory_order_relaxed);
    emit(
        kAllocationPeak, {{"device", static_cast<int64_t>(d.index())}, {"bytes", static_cast<int64_t>(peak)}},
        site ? site : current_site());
  }
}

std::unique_ptr<HPUMemory> new_memory(c10::DeviceIndex index, device::Device& d, size_t nbytes) {
  auto memory = std::make_unique<HPUMemory>();
  memory->device = index;
  memory->pool = d.index();
  memory->nbytes = nbytes;
  if (C10_UNLIKELY(compile_only() != 0)) note_made(*memory);
  return memory;
}

c10::DataPtr owning(std::unique_ptr<HPUMemory> memory) {
  const c10::Device device(c10::kHPU, memory->device);
  void* data = memory->data;
  return c10::DataPtr(data, memory.release(), &delete_memory, device);
}

// The storage's memory, which is `memory`'s from now on.
void point_to(c10::StorageImpl& storage, HPUMemory& memory, void* data) {
  memory.data = data;
  auto& ptr = storage._mutable_data_ptr_no_checks();
  const auto device = ptr.device();
  (void)ptr.release_context();
  ptr = c10::DataPtr(data, &memory, &delete_memory, device);
}

void require(HPUMemory& memory) {
  if (memory.graph.load(std::memory_order_relaxed) != 0 || memory.pending()) above.require_memory(memory);
}

void materialize(c10::StorageImpl* storage) { require_memory(*storage); }  // for any purpose

}  // namespace

void* allocate_block(device::Device& d, size_t nbytes, uint32_t site) {
  if (nbytes == 0) return nullptr;
  for (bool again = true;; again = false) {
    try {
      void* data = d.memory().allocate(nbytes);
      if (C10_UNLIKELY(listening(kAllocationPeak))) report_peak(d, site);
      note_block(d, data, site);
      return data;
    } catch (const device::OutOfMemory& e) {
      bool more = again && above.make_room(d.index());
      const bool returning = blocks_on_their_way.load(std::memory_order_relaxed) > 0;
      if (again && (e.of_machine || returning) && !d.queue().on_worker()) {
        // Free blocks may hold the pages that are missing. They are free once the commands before are done, as are
        // blocks that were shared with other processes.
        d.queue().drain();
        d.memory().trim();
        d.workspace().trim();
        more = true;
      }
      if (more) continue;
      if (listening(kError))
        emit(kError, {{"op", std::string("allocate")}, {"message", std::string(e.what())}}, current_site());
      TORCH_CHECK_WITH(OutOfMemoryError, false, e.what());
    }
  }
}

c10::DataPtr allocate_on(c10::DeviceIndex index, size_t nbytes) {
  index = normalize_index(index);
  auto& d = device_of(index);
  auto memory = new_memory(index, d, nbytes);
  memory->data = allocate_block(d, nbytes);
  return owning(std::move(memory));
}

c10::intrusive_ptr<c10::StorageImpl> storage_over(c10::DataPtr memory, size_t nbytes) {
  auto* allocator = c10::GetAllocator(memory.device().type());
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), nbytes, std::move(memory), allocator, /*resizable=*/true);
}

void replace_memory(c10::StorageImpl& storage, c10::DataPtr memory, size_t nbytes) {
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(nbytes);
  storage.clear_materializer();
}

void HPUMemory::begin_write() noexcept {
  static std::atomic<uint64_t> last{0};
  made_by.store(0, std::memory_order_relaxed);
  if (small()) version.store(last.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void require_memory_to_read(const c10::StorageImpl& storage) {
  if (auto* memory = memory_of(storage)) require(*memory);
}

void require_memory(const c10::StorageImpl& storage) {
  auto* memory = memory_of(storage);
  if (!memory) return;
  require(*memory);
  memory->expose();  // last: the storage may be a result of what was recorded
}

uint64_t made_by(device::Device& d, const c10::StorageImpl& storage) {
  const auto* memory = memory_of(storage);
  const uint64_t made = memory ? memory->made_by.load(std::memory_order_acquire) : 0;
  return made ? made : d.queue().submitted();
}

void make_pending(c10::StorageImpl& storage, c10::DeviceIndex index, size_t nbytes) {
  auto* memory = new_memory(index, device_of(index), nbytes).release();
  memory->owner = c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim_copy(&storage);
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, memory, &delete_memory, c10::Device(c10::kHPU, index)));
  storage.set_nbytes(nbytes);
  if (nbytes > 0) promise(*memory, 1);
  if (nbytes > 0 && !storage.has_materializer()) storage.set_materializer(&materialize);
}

c10::intrusive_ptr<c10::StorageImpl> make_pending_storage(c10::DeviceIndex index, size_t nbytes) {
  auto storage = storage_over(c10::DataPtr(nullptr, c10::Device(c10::kHPU, index)), 0);
  make_pending(*storage, index, nbytes);
  return storage;
}

void assign_memory(HPUMemory& memory) {
  if (memory.pending()) assign_memory(memory, allocate_block(device_of(memory.device), memory.nbytes));
}

void assign_memory(HPUMemory& memory, void* data) noexcept {
  if (memory.nbytes == 0) return;
  promise(memory, -1);
  auto& storage = *memory.owner._unsafe_get_target();
  point_to(storage, memory, data);
  storage.clear_materializer();
  memory.owner.reset();
}

SharedBlock::~SharedBlock() {
  auto* d = device::DeviceRegistry::instance().get_if_open(pool);
  if (!d) {  // the end of the process, or a forked child, which has a descriptor of its own
    if (file >= 0) ::close(file);
    return;
  }
  if (file < 0 && !in_order) {
    free_block(*d, data);
    return;
  }
  blocks_on_their_way.fetch_add(1);
  const auto give_back = [d, at = data, from = block, bytes = mapped, fd = file] {
    if (fd < 0)
      free_block(*d, at);
    else if (d->memory().unmap_file(at, bytes))
      free_block(*d, from);
    if (fd >= 0) ::close(fd);
    blocks_on_their_way.fetch_sub(1);
  };
  try {
    if (d->queue().on_worker())
      give_back();
    else
      d->queue().submit("release of memory", give_back);
  } catch (...) {  // the queue was closed meanwhile, at the end of the process
    if (file >= 0) ::close(file);
    blocks_on_their_way.fetch_sub(1);
  }
}

std::shared_ptr<SharedBlock> map_block(device::Device& d, size_t nbytes, int file) {
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t bytes = (nbytes + page - 1) / page * page;
  auto close_file = c10::make_scope_exit([file] { ::close(file); });
  void* block = allocate_block(d, bytes + page);
  void* data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(block) + page - 1) / page * page);
  auto give_back = c10::make_scope_exit([&] { free_block(d, block); });
  // Commands of the block's last owner may still be waiting.
  d.queue().drain(device::OnInterrupt::Throw);
  d.memory().map_file(data, bytes, file);
  give_back.release();
  close_file.release();
  auto shared = std::make_shared<SharedBlock>(data, d.index());
  shared->file = file;
  shared->block = block;
  shared->mapped = bytes;
  return shared;
}

c10::DataPtr make_mapped(c10::DeviceIndex index, size_t nbytes, std::shared_ptr<SharedBlock> block) {
  index = normalize_index(index);
  auto memory = new_memory(index, device_of(index), nbytes);
  memory->data = block->data;
  memory->shared = std::move(block);
  return owning(std::move(memory));
}

void* place_in(c10::StorageImpl& storage, std::shared_ptr<SharedBlock> block) {
  auto* memory = memory_of(storage);
  void* before = memory->shared ? nullptr : memory->data;  // of a graph that is gone: freed with what `shared` holds
  memory->watched.store(nullptr, std::memory_order_relaxed);
  memory->expose();
  memory->shared = std::move(block);
  point_to(storage, *memory, memory->shared->data);
  return before;
}

std::shared_ptr<SharedBlock> share_memory(HPUMemory& memory) {
  memory.expose();  // from now on replays write to it
  if (!memory.shared && memory.data) memory.shared = std::make_shared<SharedBlock>(memory.data, memory.pool);
  if (memory.shared && memory.in_order.load(std::memory_order_relaxed)) memory.shared->in_order = true;
  return memory.shared;
}

void watch_memory(HPUMemory& memory) {
  if (auto block = share_memory(memory)) {
    block->watched.store(true, std::memory_order_relaxed);
    memory.watched.store(block.get(), std::memory_order_relaxed);
  }
}

void note_write(const c10::StorageImpl& storage) {
  const auto* memory = memory_of(storage);
  if (!memory) return;
  if (auto* block = memory->watched.load(std::memory_order_relaxed); C10_UNLIKELY(block != nullptr))
    block->writes.fetch_add(1, std::memory_order_relaxed);
}

HPUMemory* memory_of(const c10::StorageImpl& storage) {
  const auto& ptr = storage.data_ptr();
  return ptr.get_deleter() == &delete_memory ? static_cast<HPUMemory*>(ptr.get_context()) : nullptr;
}

void copy_in_order(
    device::Device& d, const char* name, void* to, const void* from, size_t nbytes, uint32_t site,
    std::shared_ptr<void> kept) {
  d.queue().submit(
      name,
      [&d, to, from, nbytes, kept = std::move(kept)] {
        device::MemoryPool::AccessScope access(d.memory());
        std::memcpy(to, from, nbytes);
      },
      site);
}

device::MemoryStats memory_stats_of(c10::DeviceIndex index) {
  index = normalize_index(index);
  if (auto* d = open_device(index)) return memory_stats_of(*d);
  device::MemoryStats nothing{};
  nothing.limit = device::DeviceRegistry::instance().capacity(index);
  return nothing;
}

device::MemoryStats memory_stats_of(device::Device& d) {
  flush(d);
  auto s = d.memory().stats();
  constexpr uint64_t kAlign = device::MemoryPool::kAlignment;
  if (const uint64_t bytes = promised_bytes[d.index()].load(std::memory_order_relaxed)) {
    const uint64_t blocks = promised_blocks[d.index()].load(std::memory_order_relaxed);
    s.in_use += (bytes + kAlign - 1) / kAlign * kAlign;
    s.max_in_use = std::max(s.max_in_use, s.in_use);
    s.active_allocs += blocks;
    s.num_allocs += blocks;
  }
  return s;
}

namespace {

class HPUAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override { return allocate_on(-1, nbytes); }
  // The context is not the data pointer, so raw allocation is not offered.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* dest, const void* src, std::size_t nbytes) const override {
    auto& registry = device::DeviceRegistry::instance();
    const int owner = registry.owner_of(dest);
    copy_in_order(registry.get(owner < 0 ? 0 : owner), "copy_data", dest, src, nbytes, current_site());
  }
  bool initialized() override { return !device::DeviceRegistry::instance().open().empty(); }
  void emptyCache(c10::MempoolId_t) override {
    for (auto* d : device::DeviceRegistry::instance().open()) {
      flush(*d);
      d->queue().drain(device::OnInterrupt::Throw);
      d->memory().trim();
      d->workspace().trim();
    }
  }
  // One in-order queue per device: commands never use memory ahead of its last owner's. What a stream is recorded for
  // is the address, which no other tensor gets meanwhile.
  void recordStream(const c10::DataPtr& ptr, c10::Stream) override {
    if (ptr.get_deleter() == &delete_memory)
      static_cast<HPUMemory*>(ptr.get_context())->in_order.store(true, std::memory_order_relaxed);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const auto s = memory_stats_of(index);
    c10::CachingDeviceAllocator::DeviceStats out;
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto set = [&](auto& stats, uint64_t current, uint64_t peak) {
      stats[all].current = stats[all].allocated = static_cast<int64_t>(current);
      stats[all].peak = static_cast<int64_t>(peak);
    };
    for (auto* stats : {&out.allocated_bytes, &out.active_bytes, &out.requested_bytes})
      set(*stats, s.in_use, s.max_in_use);
    set(out.reserved_bytes, s.limit, s.limit);
    set(out.allocation, s.active_allocs, s.active_allocs);
    out.allocation[all].allocated = static_cast<int64_t>(s.num_allocs);
    out.allocation[all].freed = static_cast<int64_t>(s.num_frees);
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    if (auto* d = open_device(index)) d->memory().reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    auto* d = open_device(index);
    if (!d) return;
    flush(*d);
    d->memory().reset_peak();
    reported_peak[d->index()].store(0, std::memory_order_relaxed);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const auto s = memory_stats_of(index);
    return {s.limit - s.in_use, s.limit};
  }
};

// Leaked: storages may be freed after static destructors have run.
HPUAllocator* const the_allocator = new HPUAllocator();
REGISTER_ALLOCATOR(c10::kHPU, the_allocator);

}  // namespace

c10::DeviceAllocator* hpu_allocator() { return the_allocator; }

}  // namespace openhpu
