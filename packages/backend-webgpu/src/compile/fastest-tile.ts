import type { ProductTile } from '../kernels/product-tile.ts';

/** Milliseconds of some runs of a product with a tile, which are waited for together. */
export type TimeOfRuns = (tile: ProductTile, runs: number) => Promise<number>;

/** Runs of a fast device are waited for together until they take so long, since waiting takes time of its own. */
const leastMs = 8;
const mostTogether = 64;
/** How often each tile is measured, after the run in which its kernel is compiled. */
const rounds = 3;
/** A tile that takes so many times as long as the best one is not measured again. */
const hopeless = 1.5;
/** No further tile is tried after so long, compilation included, once two have been. */
const mostMs = 1000;

/** The tile that a device is fastest with. Where trying all of them takes long, only some are tried, in their order. */
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
