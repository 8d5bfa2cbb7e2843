#include "ops/Fallback.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_map>

#include "runtime/events.h"
#include "runtime/site.h"

namespace openhpu {
namespace {

using c10::ScalarType;

constexpr uint64_t bit(ScalarType t) { return uint64_t{1} << static_cast<int>(t); }
constexpr uint64_t kDeviceDtypes = bit(ScalarType::Float) | bit(ScalarType::BFloat16) | bit(ScalarType::Half) |
    bit(ScalarType::Long) | bit(ScalarType::Int) | bit(ScalarType::Short) | bit(ScalarType::Char) |
    bit(ScalarType::Byte) | bit(ScalarType::Bool);

struct Tables {
  std::mutex mutex;
  std::unordered_map<std::string, uint64_t> native;
  bool loaded = false;
  bool half = true;
  bool forbid_all = false;
  bool allow_all = true;
  std::set<std::string> allowed;
  std::map<std::string, uint64_t> counts;
};
Tables& tables() {
  // Held across a fork, so that the child does not find it locked for ever.
  static auto* t = [] {
    pthread_atfork([] { tables().mutex.lock(); }, [] { tables().mutex.unlock(); }, [] { tables().mutex.unlock(); });
    return new Tables();
  }();
  return *t;
}
std::atomic<uint64_t> version{1};

uint64_t parse_dtypes(const std::string& text) {
  if (text == "*") return kDeviceDtypes;
  uint64_t mask = 0;
  std::istringstream in(text);
  for (std::string name; in >> name;) {
    for (int i = 0; i < static_cast<int>(ScalarType::NumOptions); ++i)
      if (name == c10::toString(static_cast<ScalarType>(i))) mask |= uint64_t{1} << i;
  }
  // Masks and indices accompany the listed dtypes in every operator.
  return mask ? mask | bit(ScalarType::Bool) | bit(ScalarType::Long) | bit(ScalarType::Int) : 0;
}

}  // namespace

uint64_t fallback_version() noexcept { return version.load(std::memory_order_acquire); }

void set_native_ops(const std::vector<std::pair<std::string, std::string>>& rows) {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.native.clear();
  for (const auto& [name, dtypes] : rows) t.native["aten::" + name] = parse_dtypes(dtypes);
  t.loaded = true;
  version.fetch_add(1, std::memory_order_release);
}

void set_fallback_policy(const std::string& place_on_cpu) {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.forbid_all = place_on_cpu == "none";
  t.allow_all = place_on_cpu.empty();
  t.allowed.clear();
  std::istringstream in(place_on_cpu);
  for (std::string name; std::getline(in, name, ',');) t.allowed.insert(name);
}

uint64_t native_dtypes(const std::string& op) {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  if (!t.loaded) return ~uint64_t{0};
  auto it = t.native.find(op);
  return it == t.native.end() ? 0 : it->second;
}

void note_fallback(const std::string& op, int scalar_type) {
  auto& t = tables();
  const auto colons = op.find("::");
  const std::string bare = colons == std::string::npos ? op : op.substr(colons + 2);
  const std::string base = bare.substr(0, bare.find('.'));
  uint64_t n = 0;
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    const bool allowed = !t.forbid_all &&
        (t.allow_all || t.allowed.count(op) || t.allowed.count(bare) || t.allowed.count(base) ||
         t.allowed.count(op.substr(0, op.find('.'))));
    TORCH_CHECK(
        allowed, "CPU fallback of ", op, " is forbidden by PT_HPU_PLACE_ON_CPU: the operator is not native on the chosen",
        " device generation", scalar_type >= 0 ? " for dtype " : "",
        scalar_type >= 0 ? c10::toString(static_cast<ScalarType>(scalar_type)) : "",
        ". Use another operator or dtype, add it to PT_HPU_PLACE_ON_CPU, or unset that variable.");
    n = ++t.counts[op];
  }
  count(Counter::OpsFallback);
  if (listening(kCpuFallback)) {
    emit(kCpuFallback,
         {{"op", op},
          {"dtype", std::string(scalar_type >= 0 ? c10::toString(static_cast<ScalarType>(scalar_type)) : "")},
          {"count", static_cast<int64_t>(n)}},
         current_site());
  }
}

std::map<std::string, uint64_t> fallback_ops() {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  return t.counts;
}

void reset_fallback_ops() {
  auto& t = tables();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.counts.clear();
}

}  // namespace openhpu
