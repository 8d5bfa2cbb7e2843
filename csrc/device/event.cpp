#include "device/event.h"

#include <stdexcept>

#include "device/stream.h"

namespace openhpu::device {
namespace {

uint64_t steady_now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

void Event::record(Stream& stream) {
  std::shared_ptr<std::atomic<uint64_t>> stamp;
  // Without a time to stamp, the stream's last command is the point: nothing needs to be queued.
  uint64_t sequence = stream.last();
  if (timing_) {
    stamp = std::make_shared<std::atomic<uint64_t>>(0);
    const auto set = [stamp] { stamp->store(steady_now_ns(), std::memory_order_relaxed); };
    sequence = stream.queue().submit("event", set, /*site=*/0, /*anywhere=*/true);
    stream.note(sequence);
  }
  const auto reached = [&queue = stream.queue(), sequence] { return queue.completed() >= sequence; };
  point_ = std::make_shared<Point>(Point{stream.queue(), reached, [sequence] { return sequence; }});
  stamp_ns_ = std::move(stamp);
}

void Event::record(std::shared_ptr<Point> point) {
  point_ = std::move(point);
  stamp_ns_ = nullptr;
}

void Event::record_at_once() {
  point_ = nullptr;
  stamp_ns_ = timing_ ? std::make_shared<std::atomic<uint64_t>>(steady_now_ns()) : nullptr;
}

bool Event::query() const { return !point_ || point_->reached(); }

void Event::synchronize() const {
  if (point_) point_->queue.wait(point_->place(), OnInterrupt::Throw);
}

bool Event::is_elsewhere(const Stream& stream) const { return point_ && &point_->queue != &stream.queue(); }

void Event::block(Stream& stream) const {
  if (query()) return;
  uint64_t place = point_->place();
  // In the same queue the order exists already. But a wait for the stream also waits for the events that it waits for.
  // In another one, the waiting command was submitted after the point, so that waits between queues cannot form a
  // cycle.
  if (is_elsewhere(stream))
    place = stream.queue().submit("event wait", [point = point_, place] { point->queue.wait(place); });
  stream.note(place);
}

uint64_t Event::timestamp_ns() const {
  if (!timing_) throw std::invalid_argument("the event has no time: it was created with enable_timing=False");
  if (!stamp_ns_) throw std::invalid_argument("the event has no time: it was not recorded in a stream");
  synchronize();
  return stamp_ns_->load(std::memory_order_relaxed);
}

double Event::elapsed_ms(const Event& begin, const Event& end) {
  const uint64_t from = begin.timestamp_ns();
  const uint64_t to = end.timestamp_ns();
  return static_cast<double>(static_cast<int64_t>(to - from)) / 1e6;
}

}  // namespace openhpu::device
