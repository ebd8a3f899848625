import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planTasks } from '../../src/engines/products/plan-tasks.ts';
import { PlannedTasks } from '../../src/engines/products/planned-tasks.ts';
import type { MatrixProduct } from '../../src/program/work/matrix-product.ts';
import { codes } from './support.ts';

const size = fc.integer({ min: 1, max: 3 });
const byteOffset = fc.constantFrom(0, 64);
const place = fc.record({ byteOffset, rowStride: size });
const layout = fc.record({ byteOffset, rowStride: size, columnStride: fc.constantFrom(1, 2) });
/** Few values, so that many draws differ in one of them only. */
const drawn: fc.Arbitrary<MatrixProduct> = fc.record({
  kind: fc.constant('f32 to f32' as const),
  leftPacking: fc.constant('f32' as const),
  rightPacking: fc.constant('f32' as const),
  rows: size,
  columns: size,
  depth: size,
  left: layout,
  right: layout,
  result: place,
  scale: fc.constantFrom(1, 0, -0, 0.5),
  addend: fc.option(place),
  rounds: fc.boolean(),
});

describe.each(Object.entries(codes))('with %s', (_, code) => {
  it('tasks are those of planTasks, whatever was planned before', () => {
    const planned = new PlannedTasks(code);
    fc.assert(
      fc.property(fc.array(drawn, { minLength: 1, maxLength: 2 }), (products) => {
        expect(planned.of(products)).toEqual(planTasks(products, code));
      }),
      { numRuns: 500 },
    );
  });

  it('equal products share their tasks', () => {
    const planned = new PlannedTasks(code);
    const [product] = fc.sample(drawn, { numRuns: 1, seed: 1 });
    if (product === undefined) throw new RangeError('nothing was drawn');
    expect(planned.of([{ ...product }])).toBe(planned.of([product]));
    expect(planned.of([product, product])).not.toBe(planned.of([product]));
  });

  it('those that were used last are kept, as long as they take no more than the most bytes', () => {
    const products = fc.sample(drawn, { numRuns: 40, seed: 2 });
    const [first] = products;
    if (first === undefined) throw new RangeError('nothing was drawn');
    const planned = new PlannedTasks(code, 4 * planTasks([first], code).byteLength);
    const kept = planned.of([first]);
    for (const product of products.slice(1)) {
      planned.of([product]);
      expect(planned.of([first])).toBe(kept);
    }
    for (const product of products.slice(1)) planned.of([product]);
    expect(planned.of([first])).not.toBe(kept);
  });
});
