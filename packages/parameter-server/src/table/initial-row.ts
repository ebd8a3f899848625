/** Hashes a seed and a place to a pseudorandom number from 0 to 2^32 - 1, as the finalizer of MurmurHash3 does. */
function hash(seed: number, place: number): number {
  let mixed = Math.imul(seed ^ Math.imul(place, 0x9e_37_79_b1), 0x85_eb_ca_6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2_b2_ae_35);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x27_d4_eb_2f);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

/** Fills a row with normally distributed values. They depend only on the seed and the row. Shape: values [dims]. */
export function fillInitialRow(
  values: Float32Array,
  row: number,
  { seed, standardDeviation }: { readonly seed: number; readonly standardDeviation: number },
): void {
  const rowSeed = hash(seed, row);
  for (let index = 0; index < values.length; index++) {
    // The Box-Muller transform. `first` is never 0.
    const first = (hash(rowSeed, 2 * index) + 1) / 2 ** 32;
    const second = hash(rowSeed, 2 * index + 1) / 2 ** 32;
    const normal = Math.sqrt(-2 * Math.log(first)) * Math.cos(2 * Math.PI * second);
    values[index] = standardDeviation * normal;
  }
}
