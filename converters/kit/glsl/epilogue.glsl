// Loops over what an invocation holds in registers that end in a fused epilogue.
//
// Compilers do not unroll a loop whose body is long, whatever its hint says (NVIDIA's: four numbers
// with an exponential each are too long), and what such a loop's variable indexes lies in memory
// then, from the kernel's beginning: a product with GELU took eight times its time. So the loop
// stays one where the epilogue is long (LONG_EPILOGUE: it calls elementary functions, has many
// instructions or a branch), and PICK(q, i, n, what) does `what` for the constant q that equals i.

#if LONG_EPILOGUE
#define EACH_STORE(i, n) [[dont_unroll]] for (uint i = 0u; i < uint(n); i++)
#define PICK(q, i, n, what) [[unroll]] for (uint q = 0u; q < uint(n); q++) { if (q == i) { what; } }
#else
#define EACH_STORE(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)
#define PICK(q, i, n, what) { const uint q = i; what; }
#endif
