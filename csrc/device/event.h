#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace openhpu::device {

class CommandQueue;
class Stream;

// A point in a queue. One outside of it (the end of a collective) gets its place when somebody waits for it.
struct Point {
  CommandQueue& queue;
  std::function<bool()> reached;
  // Of one that lies outside: queues a wait for it, once. Returns the wait's place in the queue.
  std::function<uint64_t()> place;
};

// A point in a stream, with the time at which the worker reached it. Copies share the point.
// An event never recorded counts as reached. Recording again replaces the point.
class Event {
 public:
  explicit Event(bool timing) : timing_(timing) {}

  void record(Stream& stream);
  void record(std::shared_ptr<Point> point);
  // On a stream of a device that is not open: nothing is before the point, so it is reached at once.
  void record_at_once();
  bool has_point() const { return point_ != nullptr; }  // false: reached
  bool query() const;                                   // reached?
  void synchronize() const;                             // blocks until reached
  // Makes the stream's later commands run after this point, and waits for the stream end after it. Within one device
  // the queue already orders them; for a stream of another device a command is queued there that waits.
  void block(Stream& stream) const;
  // Whether the point lies in another queue than the stream.
  bool is_elsewhere(const Stream& stream) const;
  // Nanoseconds of worker time at the point (steady clock); waits until reached. Throws std::invalid_argument
  // when the event was not recorded or was created without timing.
  uint64_t timestamp_ns() const;
  static double elapsed_ms(const Event& begin, const Event& end);

 private:
  bool timing_;
  std::shared_ptr<Point> point_;
  std::shared_ptr<std::atomic<uint64_t>> stamp_ns_;  // of a point in a stream, if it has a time
};

}  // namespace openhpu::device
