// Prints what the device's basic steps cost, in nanoseconds: `cmake --build build/cpp -t device_bench`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "device/command_queue.h"
#include "device/memory_pool.h"

using namespace openhpu::device;

namespace {

// The best of several runs: the others measure the neighbours.
template <class Run>
double best_ns(int per_run, Run run) {
  double best = 1e30;
  for (int i = 0; i < 15; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const auto end = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double, std::nano>(end - begin).count() / per_run);
  }
  return best;
}

struct Recycled : Command {
  void run() override {}
  void retire() override {}
};

void measure_pool() {
  constexpr int kPairs = 200000;
  MemoryPool pool("bench", size_t{8} << 30);
  std::printf("allocate + free, one block of 512 B       %6.1f\n", best_ns(kPairs, [&] {
                for (int i = 0; i < kPairs; ++i) pool.free(pool.allocate(512));
              }));
  std::printf("allocate + free, one block of 256 MiB     %6.1f\n", best_ns(kPairs, [&] {
                for (int i = 0; i < kPairs; ++i) pool.free(pool.allocate(size_t{256} << 20));
              }));
  std::mt19937 random(1);
  std::vector<void*> live(1000);
  for (auto& p : live) p = pool.allocate(128 * (1 + random() % 64));
  std::vector<uint32_t> picks(kPairs), sizes(kPairs);
  for (auto& p : picks) p = random() % live.size();
  for (auto& s : sizes) s = 128 * (1 + random() % 64);
  std::printf("allocate + free, 1,000 live, to 8 KiB     %6.1f\n", best_ns(kPairs, [&] {
                for (int i = 0; i < kPairs; ++i) {
                  pool.free(live[picks[i]]);
                  live[picks[i]] = pool.allocate(sizes[i]);
                }
              }));
}

void measure_queue() {
  constexpr int kCommands = 200000;
  CommandQueue queue("bench");
  Recycled command;
  std::printf("submit to a busy worker, and drain        %6.1f\n", best_ns(kCommands, [&] {
                for (int i = 0; i < kCommands; ++i) queue.submit(&command);
                queue.drain();
              }));
  // The ring is large enough and the worker held back: what the host alone pays.
  CommandQueue held("held", kCommands + 1);
  std::atomic<bool> go{true};
  double best = 1e30;
  for (int round = 0; round < 15; ++round) {
    go = false;
    held.submit("hold", [&] { while (!go) std::this_thread::yield(); });
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCommands; ++i) held.submit(&command);
    const auto end = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double, std::nano>(end - begin).count() / kCommands);
    go = true;
    held.drain();
  }
  std::printf("submit, host alone                        %6.1f\n", best);
  std::printf("submit and wait, worker awake             %6.1f\n", best_ns(20000, [&] {
                for (int i = 0; i < 20000; ++i) queue.wait(queue.submit(&command));
              }));
  queue.set_spin_us(0);
  std::printf("submit and wait, both asleep              %6.1f\n", best_ns(2000, [&] {
                for (int i = 0; i < 2000; ++i) queue.wait(queue.submit(&command));
              }));
}

}  // namespace

int main() {
  measure_pool();
  measure_queue();
}
