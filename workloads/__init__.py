"""What tests and benchmarks share: networks, how their results are checked, and problems for single
kernels, in C++. Both find it from the root of the checkout."""
