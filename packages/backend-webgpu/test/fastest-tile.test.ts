import { describe, expect, it } from 'vitest';
import { fastestTile } from '../src/compile/fastest-tile.ts';
import { largeTiles, type ProductTile } from '../src/kernels/product-tile.ts';

/** A device on which a product takes `msOf(tile)` milliseconds. Compiling a kernel takes `compileMs` more. */
function deviceOf(msOf: (tile: number) => number, compileMs: number) {
  const products = largeTiles.map(() => 0);
  const timeOf = async (tile: ProductTile, runs: number): Promise<number> => {
    const number = largeTiles.indexOf(tile);
    const isFirst = products[number] === 0;
    products[number] = (products[number] ?? 0) + runs;
    return runs * msOf(number) + (isFirst ? compileMs : 0);
  };
  return { products, timeOf };
}

describe('the trial of tiles', () => {
  it('takes the tile that is fastest, of which a kernel is compiled once and measured three times', async () => {
    for (const fastest of largeTiles.keys()) {
      const { products, timeOf } = deviceOf((tile) => (tile === fastest ? 10 : 12), 30);
      expect(await fastestTile(largeTiles, timeOf)).toBe(largeTiles[fastest]);
      expect(products).toEqual(largeTiles.map(() => 4));
    }
  });

  it('runs a product several times together on a fast device, whose products are shorter than waiting for them', async () => {
    const { products, timeOf } = deviceOf((tile) => (tile === 3 ? 0.4 : 0.5), 30);
    expect(await fastestTile(largeTiles, timeOf)).toBe(largeTiles[3]);
    // Measuring takes 16 products of half a millisecond. To find that number, the first tile is measured with 1, 4 and
    // then 16 products.
    expect(products).toEqual([1 + 1 + 4 + 3 * 16, ...largeTiles.slice(1).map(() => 1 + 3 * 16)]);
    const endless = deviceOf(() => 0, 0);
    await fastestTile(largeTiles, endless.timeOf);
    expect(endless.products[0]).toBe(1 + 1 + 4 + 16 + 3 * 64);
  });

  it('measures a tile once that is much slower than the best one', async () => {
    const { products, timeOf } = deviceOf((tile) => (tile === 0 ? 10 : 20), 30);
    expect(await fastestTile(largeTiles, timeOf)).toBe(largeTiles[0]);
    expect(products).toEqual([4, ...largeTiles.slice(1).map(() => 2)]);
  });

  it('ends after two tiles where that has taken long, in products or in compilation', async () => {
    const others = largeTiles.slice(2).map(() => 0);
    const slow = deviceOf((tile) => (tile === 1 ? 200 : 250), 30);
    expect(await fastestTile(largeTiles, slow.timeOf)).toBe(largeTiles[1]);
    expect(slow.products).toEqual([4, 4, ...others]);
    const compiling = deviceOf((tile) => (tile === 1 ? 10 : 40), 3000);
    expect(await fastestTile(largeTiles, compiling.timeOf)).toBe(largeTiles[1]);
    expect(compiling.products).toEqual([4, 4, ...others]);
  });
});
