#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

// Random kernels on CPU aliases. Element i (in logical order) is a function of the seed and i.
namespace openhpu::random {

void uniform(const at::Tensor& out, uint32_t seed, double from, double to);
void normal(const at::Tensor& out, uint32_t seed, double mean, double std);
void bernoulli(const at::Tensor& out, uint32_t seed, double p);
void bernoulli_tensor(const at::Tensor& out, uint32_t seed, const at::Tensor& p);
// Integers in [from, from + range); range 0 means all 2^64 values.
void integers(const at::Tensor& out, uint32_t seed, int64_t from, uint64_t range);
void exponential(const at::Tensor& out, uint32_t seed, double lambda);
void cauchy(const at::Tensor& out, uint32_t seed, double median, double sigma);
void log_normal(const at::Tensor& out, uint32_t seed, double mean, double std);
void geometric(const at::Tensor& out, uint32_t seed, double p);
// The integers below the number of elements, in some order.
void permutation(const at::Tensor& out, uint32_t seed);
void dropout(const at::Tensor& out, const at::Tensor& mask, const at::Tensor& input, uint32_t seed, double p);
void rrelu(const at::Tensor& out, const at::Tensor& noise, const at::Tensor& input, uint32_t seed, double lower,
           double upper);
void poisson(const at::Tensor& out, uint32_t seed, const at::Tensor& rate);
void binomial(const at::Tensor& out, uint32_t seed, const at::Tensor& count, const at::Tensor& p);
void gamma(const at::Tensor& out, uint32_t seed, const at::Tensor& alpha);

}  // namespace openhpu::random
