#include "device/command_queue.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "Above.h"
#include "device/blocking_wait.h"
#include "gates.h"
#include "signal_calls.h"

namespace openhpu::device {
namespace {

using testing::Gate;
using testing::in_threads;
using testing::SignalCalls;

// A command of its owner, whose runs and retirements are counted.
struct Failing : Command {
  void run() override {
    ++runs;
    throw std::runtime_error("fails");
  }
  void retire() override { ++retirements; }
  int runs = 0, retirements = 0;
};

TEST(CommandQueue, SeveralProducersKeepTheirOrder) {
  constexpr int kProducers = 4, kEach = 5000;
  CommandQueue queue("test", 64);
  std::vector<std::pair<int, int>> ran;
  std::vector<std::vector<uint64_t>> numbers(kProducers);
  in_threads(kProducers, [&](int p) {
    for (int i = 0; i < kEach; ++i) {
      numbers[p].push_back(queue.submit("c", [&ran, p, i] { ran.emplace_back(p, i); }));
    }
  });
  queue.drain();
  ASSERT_EQ(ran.size(), size_t(kProducers * kEach));
  // Each number names the place in which its command ran.
  for (int p = 0; p < kProducers; ++p) {
    for (int i = 0; i < kEach; ++i) ASSERT_EQ(ran[numbers[p][i] - 1], std::pair(p, i));
    EXPECT_TRUE(std::is_sorted(numbers[p].begin(), numbers[p].end()));
  }
}

TEST(CommandQueue, AFullQueueHoldsTheProducerBack) {
  CommandQueue queue("test", 4);
  Gate gate(queue);
  static std::latch blocked(1);
  static std::atomic<int> entered{0}, left{0};
  above.enter_wait = []() -> void* {
    if (++entered == 1) blocked.count_down();
    return &entered;
  };
  above.leave_wait = [](void* state) { left += state == &entered; };
  int ran = 0;
  std::thread producer([&] {
    for (int i = 0; i < 20; ++i) queue.submit("c", [&ran] { ++ran; });
  });
  blocked.wait();  // the producer enters a wait only when it is about to block
  EXPECT_EQ(queue.submitted(), 4u);
  EXPECT_EQ(queue.completed(), 0u);
  gate.open();
  producer.join();
  queue.drain();
  above.enter_wait = Above().enter_wait;
  above.leave_wait = Above().leave_wait;
  EXPECT_EQ(ran, 20);
  EXPECT_EQ(entered, left);
}

TEST(CommandQueue, WhoDoesNotHearIsNotInterrupted) {
  CommandQueue queue("test");
  SignalCalls signals;
  SignalCalls::pending = true;
  for (const auto& [hears, what] :
       {std::pair(false, OnInterrupt::Throw), std::pair(false, OnInterrupt::Return),
        std::pair(true, OnInterrupt::GoOn)}) {
    SignalCalls::hears = hears;
    Gate gate(queue);
    std::thread opener([&] {
      std::this_thread::sleep_for(2 * BlockingWait::kAsk);
      gate.open();
    });
    EXPECT_TRUE(queue.drain(what));
    opener.join();
  }
  EXPECT_EQ(SignalCalls::asked, 0);
}

TEST(CommandQueue, AnInterruptEndsASubmissionToAFullQueue) {
  CommandQueue queue("test", 2);
  SignalCalls signals;
  Gate gate(queue);
  int ran = 0;
  queue.submit("c", [&] { ++ran; });
  Failing command;
  SignalCalls::pending = true;
  EXPECT_THROW(queue.submit(&command, OnInterrupt::Throw), SignalCalls::Interrupt);
  EXPECT_EQ(command.retirements, 1);
  EXPECT_EQ(queue.submitted(), 2u);
  gate.open();
  queue.submit("c", [&] { ++ran; });
  queue.drain();
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(command.runs, 0);
  EXPECT_EQ(command.retirements, 1);
}

TEST(CommandQueue, CommandIsGoneWhenWaitReturnsAlsoWhereBothSidesSleep) {
  struct Counting : Command {
    Counting(int& ran, int& gone) : ran(ran), gone(gone) {}
    ~Counting() override { ++gone; }
    void run() override { ++ran; }
    int& ran;
    int& gone;
  };
  for (const int spin_us : {CommandQueue::kDefaultSpinUs, 0}) {
    CommandQueue queue("test");
    queue.set_spin_us(spin_us);
    int ran = 0, gone = 0;  // not atomic: `wait` must order them, and ThreadSanitizer watches
    for (int i = 1; i <= 2000; ++i) {
      queue.wait(queue.submit(new Counting(ran, gone)));
      ASSERT_EQ(ran, i);
      ASSERT_EQ(gone, i);
    }
  }
}

TEST(CommandQueue, RetireIsCalledAlsoAfterAnError) {
  Failing command;
  CommandQueue queue("test");
  for (int i = 0; i < 3; ++i) queue.submit(&command);
  queue.drain();
  EXPECT_EQ(command.runs, 3);
  EXPECT_EQ(command.retirements, 3);
}

TEST(CommandQueue, WaitingOnTheWorkerOrForTheFutureIsAnError) {
  CommandQueue queue("test");
  EXPECT_THROW(queue.wait(1), std::invalid_argument);
  EXPECT_FALSE(queue.on_worker());
  bool on_worker = false;
  queue.submit("waits", [&] {
    on_worker = queue.on_worker();
    queue.drain();
  });
  queue.drain();
  EXPECT_TRUE(on_worker);
  auto error = queue.take_error();
  ASSERT_TRUE(error);
  EXPECT_THROW(std::rethrow_exception(error->error), std::logic_error);
}

TEST(CommandQueue, CommandsMaySubmitUntilTheQueueIsFull) {
  CommandQueue queue("test", 2);
  int ran = 0;
  const auto token = std::make_shared<int>(0);
  queue.submit("outer", [&] {
    queue.submit("inner", [&] { ++ran; });
    EXPECT_THROW(queue.submit("refused", [token] {}), std::logic_error);
  });
  queue.wait(1);
  queue.drain();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(token.use_count(), 1);
}

TEST(CommandQueue, ClosedQueueRefusesAndDisposes) {
  CommandQueue queue("test");
  int ran = 0;
  queue.submit("c", [&] { ++ran; });
  queue.close();
  EXPECT_EQ(ran, 1);
  const auto token = std::make_shared<int>(0);
  EXPECT_THROW(queue.submit("late", [token] {}), std::runtime_error);
  EXPECT_EQ(token.use_count(), 1);
  queue.drain();
  queue.close();
}

TEST(CommandQueue, EachWaiterWakesAtItsOwnNumber) {
  CommandQueue queue("test");
  queue.set_spin_us(0);
  constexpr int kWaiters = 4;
  std::vector<std::unique_ptr<Gate>> gates;
  for (int i = 0; i < kWaiters; ++i) gates.push_back(std::make_unique<Gate>(queue));
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&queue, number = gates[i]->sequence()] {
      queue.wait(number);
      EXPECT_GE(queue.completed(), number);
    });
  }
  // With the next gate still closed, only this waiter can have been woken: a lost waking would hang here.
  for (int i = 0; i < kWaiters; ++i) {
    gates[i]->open();
    waiters[i].join();
    EXPECT_EQ(queue.completed(), gates[i]->sequence());
  }
}

TEST(CommandQueue, AWorkerIsSetUpFirstAndOnce) {
  static std::vector<std::string> steps;
  static std::thread::id host = std::this_thread::get_id();
  above.set_up_worker = [] { steps.push_back(std::this_thread::get_id() == host ? "set up elsewhere" : "set up"); };
  {
    CommandQueue queue("test");
    for (int i = 0; i < 3; ++i) queue.submit("c", [&] { steps.push_back("command"); });
    queue.drain();
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"set up", "command", "command", "command"}));

  above.set_up_worker = [] { throw std::runtime_error("no threads"); };
  CommandQueue queue("test");
  queue.submit("c", [&] { steps.push_back("command"); });
  queue.drain();
  above.set_up_worker = Above().set_up_worker;
  EXPECT_EQ(steps.size(), 5u);
  auto error = queue.take_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->name, "worker initialisation");
}

TEST(CommandQueue, BusyTimeCountsCommandsAndNotIdleness) {
  using namespace std::chrono;
  CommandQueue queue("test");
  const auto begin = steady_clock::now();
  queue.wait(queue.submit("works for 2 ms", [] {
    const auto until = steady_clock::now() + milliseconds(2);
    while (steady_clock::now() < until) {
    }
  }));
  const uint64_t busy = queue.busy_ns();
  EXPECT_GE(busy, 2000000u);
  EXPECT_LE(busy, uint64_t(duration_cast<nanoseconds>(steady_clock::now() - begin).count()));
  // Idle until the clock has visibly moved on.
  const auto until = steady_clock::now() + milliseconds(2);
  while (steady_clock::now() < until) {
  }
  EXPECT_EQ(queue.busy_ns(), busy);
}

TEST(CommandQueue, WorkerHasANameAndTakesNoSignals) {
  CommandQueue queue("a long name of a queue");
  char name[32] = {};
  sigset_t blocked;
  queue.wait(queue.submit("c", [&] {
    pthread_getname_np(pthread_self(), name, sizeof name);
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  }));
  EXPECT_EQ(std::string(name), "hpu:a long name");
  EXPECT_TRUE(sigismember(&blocked, SIGINT));
  EXPECT_TRUE(sigismember(&blocked, SIGTERM));
  EXPECT_FALSE(sigismember(&blocked, SIGSEGV));
}

TEST(CommandQueue, TwoThreadsMayCloseIt) {
  CommandQueue queue("test");
  int ran = 0;
  queue.submit("c", [&] { ++ran; });
  std::thread other([&] { queue.close(); });
  queue.close();
  other.join();
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace openhpu::device
