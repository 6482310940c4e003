// What tv::reduce combines two partial results by: OP, of the type ACC; FLOAT_ACC: a float.

#define OP_SUM 0
#define OP_PROD 1
#define OP_MAX 2
#define OP_MIN 3
#define OP_ANY 4
#define OP_ALL 5

#if FLOAT_ACC
bool is_nan(ACC v) { return (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u; }
#else
bool is_nan(ACC v) { return false; }
#endif

#if OP == OP_SUM
ACC combine(ACC a, ACC b) { return a + b; }
#elif OP == OP_PROD
ACC combine(ACC a, ACC b) { return a * b; }
#elif OP == OP_MAX
ACC combine(ACC a, ACC b) { return is_nan(a) || a > b ? a : b; }
#elif OP == OP_MIN
ACC combine(ACC a, ACC b) { return is_nan(a) || a < b ? a : b; }
#elif OP == OP_ANY
ACC combine(ACC a, ACC b) { return a | b; }
#else
ACC combine(ACC a, ACC b) { return a & b; }
#endif
