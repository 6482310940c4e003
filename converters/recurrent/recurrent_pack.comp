// y: w, [GATES · H][H] by strides, as [tiles of WIDTH units][K / FOURS][GATES][WIDTH][FOURS]: FOURS
// steps of k of a unit, side by side, for WIDTH of them, in the order of gates that PLACES says; 0
// past H. Where H is no multiple of WIDTH, the last tile begins at H - WIDTH.

const uint PLACE[GATES] = uint[GATES](PLACES);

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint vector = id / FOURS, column = vector / WIDTH, in_tile = vector - column * WIDTH;
  const uint step = column / GATES, gate = column - step * GATES, tile = step / (K / FOURS);
  const uint k = (step - tile * (K / FOURS)) * FOURS + id % FOURS;
  const uint row = PLACE[gate] * H + min(tile * WIDTH, H - WIDTH) + in_tile;
  y_store(id, k < H ? y_T(w_raw(row * w_row + k * w_k)) : y_T(0));
}
