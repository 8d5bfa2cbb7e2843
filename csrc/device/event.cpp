#include "device/event.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "device/command_queue.h"
#include "device/stream.h"

namespace openhpu::device {

struct Event::Point {
  explicit Point(CommandQueue& q) : queue(q) {}
  CommandQueue& queue;
  uint64_t sequence = 0;
  std::atomic<uint64_t> stamp_ns{0};

  bool reached() const noexcept { return queue.completed() >= sequence; }
};

void Event::record(Stream& stream) {
  auto point = std::make_shared<Point>(stream.queue());
  if (timing_) {
    class Stamp : public Command {
     public:
      explicit Stamp(std::shared_ptr<Point> point) : point_(std::move(point)) {}
      void run() override {
        const auto now = std::chrono::steady_clock::now().time_since_epoch();
        point_->stamp_ns.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                               std::memory_order_relaxed);
      }
      const char* name() const override { return "event"; }
      void describe(TraceRecord& record) const override { record.kind = TraceKind::Hidden; }
      bool runs_anywhere() const noexcept override { return true; }

     private:
      std::shared_ptr<Point> point_;
    };
    point->sequence = stream.queue().submit(new Stamp(point));
    stream.note(point->sequence);
  } else {
    // Without a time to stamp, the stream's last command is the point: nothing needs to be queued.
    point->sequence = stream.last();
  }
  point_ = std::move(point);
  beside_ = nullptr;
}

void Event::record(std::shared_ptr<PointBeside> point) {
  beside_ = std::move(point);
  point_ = nullptr;
}

bool Event::query() const { return beside_ ? beside_->reached() : !point_ || point_->reached(); }

void Event::synchronize() const {
  if (beside_) beside_->queue().wait(beside_->place(), OnInterrupt::Throw);
  if (point_) point_->queue.wait(point_->sequence, OnInterrupt::Throw);
}

bool Event::is_elsewhere(const Stream& stream) const { return point_ && &point_->queue != &stream.queue(); }

void Event::block(Stream& stream) const {
  if (query()) return;
  if (beside_) {
    const uint64_t place = beside_->place();
    if (&beside_->queue() == &stream.queue())
      stream.note(place);
    else
      stream.note(stream.queue().submit("event wait", [beside = beside_, place] { beside->queue().wait(place); }));
    return;
  }
  if (!is_elsewhere(stream)) {
    // The order exists already. But a wait for the stream also waits for the events that the stream waits for.
    stream.note(point_->sequence);
    return;
  }
  // The waiting command was submitted after the point, so that waits between queues cannot form a cycle.
  stream.note(stream.queue().submit("event wait", [point = point_] { point->queue.wait(point->sequence); }));
}

uint64_t Event::timestamp_ns() const {
  if (!timing_) throw std::invalid_argument("the event has no time: it was created with enable_timing=False");
  if (!point_) throw std::invalid_argument("the event has no time: it was not recorded in a stream");
  synchronize();
  return point_->stamp_ns.load(std::memory_order_relaxed);
}

double Event::elapsed_ms(const Event& begin, const Event& end) {
  const uint64_t from = begin.timestamp_ns();
  const uint64_t to = end.timestamp_ns();
  return static_cast<double>(static_cast<int64_t>(to - from)) / 1e6;
}

}  // namespace openhpu::device
