// Elementary functions with stated errors; GLSL's own promise little.

#include "arith.glsl"
