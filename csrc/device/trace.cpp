#include "device/trace.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "Above.h"
#include "device/shared.h"

namespace openhpu::device {

std::atomic<uint32_t> Trace::listeners_{0};

namespace {

struct Listener {
  uint64_t id;
  uint64_t after;  // the last correlation before its start
  size_t first_record, first_span;
  size_t most_records;
  uint64_t dropped;
  uint64_t begin;
};

// The threads that run commands add to it, so no function is called under the lock.
struct Store {
  std::mutex mutex;
  std::vector<std::unique_ptr<TraceRecord>> records;
  std::vector<TraceSpan> spans;
  std::vector<Listener> listeners;
  uint64_t next_listener = 1;
  std::atomic<uint64_t> issued{0};

  // Whether a listener takes one more of `kept` records, or spans. The others count it as dropped.
  bool has_room(size_t kept, size_t Listener::* first, uint64_t correlation) {
    bool any = false;
    for (auto& l : listeners) {
      if (correlation <= l.after) continue;
      if (kept - l.*first < l.most_records)
        any = true;
      else
        ++l.dropped;
    }
    return any;
  }
};
Store& store() { return held_across_forks<Store>(); }

thread_local Trace::Running* running = nullptr;

}  // namespace

uint64_t trace_clock() noexcept {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

int32_t trace_thread() noexcept {
  static thread_local const auto id = static_cast<int32_t>(syscall(SYS_gettid));
  return id;
}

const char* trace_name(std::string_view name) {
  static auto* mutex = new std::mutex();
  static auto* names = new std::unordered_set<std::string>();
  std::lock_guard lock(*mutex);
  return names->emplace(name).first->c_str();
}

uint64_t Trace::start(size_t most_records) {
  auto& s = store();
  std::lock_guard lock(s.mutex);
  const uint64_t id = s.next_listener++;
  s.listeners.push_back({id, s.issued.load(), s.records.size(), s.spans.size(), most_records, 0, trace_clock()});
  listeners_.store(static_cast<uint32_t>(s.listeners.size()), std::memory_order_relaxed);
  return id;
}

TraceData Trace::stop(uint64_t id) {
  auto& s = store();
  TraceData out;
  std::vector<std::unique_ptr<TraceRecord>> taken;  // freed without the lock
  {
    std::lock_guard lock(s.mutex);
    const auto it = std::find_if(s.listeners.begin(), s.listeners.end(), [&](const auto& l) { return l.id == id; });
    if (it == s.listeners.end()) return out;
    const Listener self = *it;
    s.listeners.erase(it);
    listeners_.store(static_cast<uint32_t>(s.listeners.size()), std::memory_order_relaxed);
    out.dropped = self.dropped;
    out.begin = self.begin;
    out.end = trace_clock();
    const bool last = s.listeners.empty();
    for (size_t i = self.first_record; i < s.records.size(); ++i) {
      auto& record = *s.records[i];
      if (record.correlation <= self.after) continue;
      if (last)
        out.records.push_back(std::move(record));
      else
        out.records.push_back(record);
    }
    out.spans.assign(s.spans.begin() + static_cast<std::ptrdiff_t>(self.first_span), s.spans.end());
    if (last) {
      taken = std::exchange(s.records, {});
      s.spans.clear();
    }
  }
  return out;
}

std::unique_ptr<TraceRecord> Trace::issue(const char* name, int device, uint32_t site) {
  auto& s = store();
  auto record = std::make_unique<TraceRecord>();
  record->launch_begin = trace_clock();
  record->name = name;
  record->device = device;
  record->site = site;
  record->thread = trace_thread();
  record->correlation = s.issued.fetch_add(1, std::memory_order_relaxed) + 1;
  above.describe_origin(*record);
  return record;
}

void Trace::add(std::unique_ptr<TraceRecord> record) {
  auto& s = store();
  std::lock_guard lock(s.mutex);
  if (s.has_room(s.records.size(), &Listener::first_record, record->correlation))
    s.records.push_back(std::move(record));
}

void Trace::add(TraceSpan span) {
  auto& s = store();
  std::lock_guard lock(s.mutex);
  if (s.has_room(s.spans.size(), &Listener::first_span, UINT64_MAX)) s.spans.push_back(std::move(span));
}

TraceRecord* Trace::current() noexcept { return running ? running->record_.get() : nullptr; }

std::unique_ptr<TraceRecord> Trace::take_current() noexcept { return running ? std::move(running->record_) : nullptr; }

Trace::Running::Running(std::unique_ptr<TraceRecord> record) noexcept
    : record_(std::move(record)), outer_(std::exchange(running, this)) {
  // Of one that has held up the queue, that is its begin.
  if (!record_->begin) record_->begin = trace_clock();
}

Trace::Running::~Running() {
  running = outer_;
  if (!record_) return;
  record_->end = trace_clock();
  Trace::add(std::move(record_));
}

void SpanScope::end() {
  TraceRecord here;
  above.describe_origin(here);
  Trace::add(
      {.name = name_,
       .detail = std::move(detail_),
       .thread = trace_thread(),
       .operation = here.operation,
       .begin = begin_,
       .end = trace_clock()});
}

}  // namespace openhpu::device
