/**
 * 32 random bits that follow from three integers: the seed of a stream, the epoch, and the number of the draw. No state
 * has to be kept to continue (the mixing function of MurmurHash3, once for each integer).
 */
export function draw(seed: number, epoch: number, number: number): number {
  let bits = 0x9e3779b9;
  for (const value of [seed, epoch, number]) {
    bits = Math.imul(bits ^ (value >>> 0) ^ Math.floor(value / 2 ** 32), 0x85ebca6b);
    bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
    bits ^= bits >>> 16;
  }
  return bits >>> 0;
}
