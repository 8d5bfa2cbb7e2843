#include "device/trace.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "device/command_queue.h"

namespace openhpu::device {
namespace {

TEST(Trace, ACommandMayLeaveItsRecordToWhatItBegan) {
  CommandQueue queue("0");
  const auto listener = Trace::start();
  std::unique_ptr<TraceRecord> left;
  queue.submit("test::begins", [&] { left = Trace::take_current(); });
  queue.drain();
  ASSERT_NE(left, nullptr);
  left->end = trace_clock();
  Trace::add(std::move(left));
  EXPECT_EQ(Trace::stop(listener).records.size(), 1u);
}

TEST(Trace, FullTracesCountWhatTheyDrop) {
  CommandQueue queue("0");
  const auto listener = Trace::start(/*most_records=*/2);
  for (int i = 0; i < 5; ++i) queue.submit("test::op", [] {});
  queue.drain();
  const auto data = Trace::stop(listener);
  EXPECT_EQ(data.records.size(), 2u);
  EXPECT_EQ(data.dropped, 3u);
}

}  // namespace
}  // namespace openhpu::device
