#pragma once

#include <cstdint>
#include <memory>

namespace openhpu::device {

class CommandQueue;
class Stream;

// A point outside of the queue (the end of a collective), until it gets a place in the queue.
class PointBeside {
 public:
  virtual ~PointBeside() = default;
  virtual bool reached() = 0;
  // Queues a wait for it, once. Returns the wait's place in the queue.
  virtual uint64_t place() = 0;
  virtual CommandQueue& queue() = 0;
};

// A point in a stream, with the time at which the worker reached it. Copies share the point.
// An event never recorded counts as reached. Recording again replaces the point.
class Event {
 public:
  explicit Event(bool timing) : timing_(timing) {}

  void record(Stream& stream);
  void record(std::shared_ptr<PointBeside> point);
  bool recorded() const noexcept { return point_ || beside_; }
  bool query() const;        // reached?
  void synchronize() const;  // blocks until reached
  // Makes the stream's later commands run after this point, and waits for the stream end after it. Within one device the
  // queue already orders them; for a stream of another device a command is queued there that waits.
  void block(Stream& stream) const;
  // Whether the point lies in another queue than the stream.
  bool is_elsewhere(const Stream& stream) const;
  // Nanoseconds of worker time at the point (steady clock); waits until reached. Throws std::invalid_argument
  // when the event was not recorded or was created without timing.
  uint64_t timestamp_ns() const;
  static double elapsed_ms(const Event& begin, const Event& end);

 private:
  struct Point;
  bool timing_;
  std::shared_ptr<Point> point_;
  std::shared_ptr<PointBeside> beside_;
};

}  // namespace openhpu::device
