import type { ProductTile } from '../kernels/product-tile.ts';

/** Runs a product with a tile `runs` times, waits for all runs together, and gives the milliseconds that they took. */
export type TimeOfRuns = (tile: ProductTile, runs: number) => Promise<number>;

/** More and more runs are waited for together until they take this long, because waiting itself takes time. */
const leastMs = 8;
const mostTogether = 64;
/** How often each tile is measured. The run in which its kernel is compiled does not count. */
const rounds = 3;
/** A tile that takes this many times as long as the best one is not measured again. */
const hopeless = 1.5;
/** Once two tiles were tried and this much time has passed, compilation included, no further tile is tried. */
const mostMs = 1000;

/** The tile with which a device is fastest. If it takes long to try all of them, only the first ones are tried. */
export async function fastestTile(
  tiles: readonly [ProductTile, ...ProductTile[]],
  timeOf: TimeOfRuns,
): Promise<ProductTile> {
  let [spentMs, tried, together] = [0, 0, 1];
  let best: { readonly tile: ProductTile; readonly ms: number } | undefined;
  const measure = async (tile: ProductTile): Promise<number> => {
    const ms = await timeOf(tile, together);
    spentMs += ms;
    return ms;
  };
  for (const tile of tiles) {
    if (tried >= 2 && spentMs > mostMs) break;
    spentMs += await timeOf(tile, 1);
    let ms = await measure(tile);
    if (best === undefined) {
      while (ms < leastMs && together < mostTogether) {
        together *= 4;
        ms = await measure(tile);
      }
    }
    for (let round = 1; round < rounds; round++) {
      if (best !== undefined && ms > hopeless * best.ms) break;
      ms = Math.min(ms, await measure(tile));
    }
    if (best === undefined || ms < best.ms) best = { tile, ms };
    tried += 1;
  }
  return best?.tile ?? tiles[0];
}
