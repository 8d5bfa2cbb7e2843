#include "observe/site.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>

#include "Above.h"

namespace openhpu {
namespace {

// Lines of recent forward operators by autograd sequence number. A fixed ring: an entry that was overwritten is
// recognised by its tag, and the backward operator then has no line rather than a wrong one.
struct ForwardSite {
  std::atomic<uint64_t> tag{0};
  std::atomic<uint32_t> site{0};
};
constexpr size_t kRing = 1 << 14;
std::array<ForwardSite, kRing> ring;

uint64_t tag_of(uint64_t sequence, uint64_t thread) { return (sequence << 8 | (thread & 0xff)) + 1; }

}  // namespace

uint32_t current_site() {
  if (uint32_t site = above.executing_site()) {
    if (const uint64_t next = at::sequence_number::peek(); next > 0 && c10::GradMode::is_enabled()) {
      // The autograd node of this operator was created just before its kernel was called.
      const uint64_t sequence = next - 1;
      auto& slot = ring[sequence % kRing];
      const uint64_t tag = tag_of(sequence, at::RecordFunction::currentThreadId());
      // Later operators that make no node see the same number: the first is the one.
      if (slot.tag.load(std::memory_order_relaxed) != tag) {
        slot.site.store(site, std::memory_order_relaxed);
        slot.tag.store(tag, std::memory_order_release);
      }
    }
    return site;
  }
  // A node that accumulates a gradient has the largest number, and belongs to no operator.
  if (auto node = torch::autograd::get_current_node()) {
    auto& slot = ring[node->sequence_nr() % kRing];
    if (slot.tag.load(std::memory_order_acquire) == tag_of(node->sequence_nr(), node->thread_id()))
      return slot.site.load(std::memory_order_relaxed);
  }
  return 0;
}

std::pair<std::string, int> resolve_site(uint32_t site) {
  if (site == 0) return {"", 0};
  return above.place_of_site(site);
}

std::string describe_site(uint32_t site) {
  auto [file, line] = resolve_site(site);
  return line == 0 ? "" : "\"" + file + "\", line " + std::to_string(line);
}

}  // namespace openhpu
