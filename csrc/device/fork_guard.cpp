#include "device/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace openhpu::device {
namespace {

std::atomic<uint32_t> generation{0};

void in_child() { generation.fetch_add(1, std::memory_order_relaxed); }

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, in_child);

}  // namespace

uint32_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

}  // namespace openhpu::device
