// Batches of matrices: matrix z of an operand that runs over up to three batch dimensions, of which
// n1 and n2 are what the inner ones hold (kernels of converters that call add_batch).

#if BATCH_DIMS == 0
#define BATCH_OFFSET(z, s) 0u
#elif BATCH_DIMS == 1
#define BATCH_OFFSET(z, s) ((z) * s##0)
#elif BATCH_DIMS == 2
#define BATCH_OFFSET(z, s) ((z) / n1 * s##0 + (z) % n1 * s##1)
#else
#define BATCH_OFFSET(z, s) ((z) / n1 * s##0 + (z) % n1 / n2 * s##1 + (z) % n2 * s##2)
#endif
