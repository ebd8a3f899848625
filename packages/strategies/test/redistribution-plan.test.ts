import type { Layout, MeshAxis } from '@shardwise/core';
import { chunkRange, dimRanges, localShape, type PlaceOf } from '@shardwise/core/extend';
import { formatRedistribution, layoutOf, planRedistribution } from '@shardwise/strategies';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

/** A rank's coordinates in the mesh. */
function at(dp: number, tp: number): PlaceOf {
  return (axis) => (axis === 'dp' ? { size: 2, rank: dp } : { size: 3, rank: tp });
}

const axes: readonly MeshAxis[] = [
  { name: 'dp', size: 2 },
  { name: 'tp', size: 3 },
];

function operations(from: Layout, to: Layout, shape: readonly number[] = [6, 12]): string[] {
  return planRedistribution(from, to, shape, axes).steps.map(({ move }) => move.operation);
}

describe('shards of a dim', () => {
  it.each([
    [5, 3, [2, 2, 1]],
    [4, 3, [2, 2, 0]],
    [6, 4, [2, 2, 2, 0]],
  ])("are torch.chunk's: %i elements over %i ranks", (size, parts, sizes) => {
    const chunks = sizes.map((_, index) => chunkRange(size, parts, index));
    expect(chunks.map(({ start, stop }) => stop - start)).toEqual(sizes);
  });

  it('over two axes are chunks of chunks, in the order of the axes', () => {
    const rangeAt = (dp: number, tp: number, order: readonly string[]): unknown => {
      const [{ start, stop } = { start: -1, stop: -1 }] = dimRanges(9, order, {}, at(dp, tp));
      return [start, stop];
    };
    expect([
      rangeAt(0, 0, ['dp', 'tp']),
      rangeAt(0, 2, ['dp', 'tp']),
      rangeAt(1, 0, ['dp', 'tp']),
    ]).toEqual([
      [0, 2],
      [4, 5],
      [5, 7],
    ]);
    expect([
      rangeAt(0, 0, ['tp', 'dp']),
      rangeAt(1, 0, ['tp', 'dp']),
      rangeAt(0, 1, ['tp', 'dp']),
    ]).toEqual([
      [0, 2],
      [2, 3],
      [3, 5],
    ]);
  });

  it('cover the dim, whatever its size and axes', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 40 }),
        fc.constantFrom(['dp'], ['tp', 'dp'], ['dp', 'tp'], []),
        (size, order) => {
          const seen = new Set<number>();
          for (const dp of [0, 1]) {
            for (const tp of [0, 1, 2]) {
              for (const range of dimRanges(size, order, {}, at(dp, tp))) {
                for (let index = range.start; index < range.stop; index++) seen.add(index);
              }
            }
          }
          expect(seen.size).toBe(size);
        },
      ),
    );
  });

  it('shards of a dim give the shape of a part', () => {
    expect(localShape([5, 4], layoutOf(['tp', 'dp']), at(0, 0))).toEqual([2, 2]);
    expect(localShape([5, 4], layoutOf(['tp', null]), at(0, 2))).toEqual([1, 4]);
  });
});

describe('the plan of a redistribution', () => {
  const replicate = layoutOf([null, null]);

  const flat: Layout = { ...replicate, flat: ['dp'] };
  const fused: Layout = { ...layoutOf([null, 'tp']), sections: { tp: [6, 3, 3] } };

  it.each<[string, Layout, Layout, readonly string[], number]>([
    ['replicate to flat', replicate, flat, ['slice'], 0],
    ['flat to replicate', flat, replicate, ['allGather'], 144],
    ['partial to flat', layoutOf([null, null], ['dp']), flat, ['reduceScatter'], 144],
    ['flat to shard', flat, layoutOf(['dp', null]), ['allGather', 'slice'], 144],
    ['sections to replicate', fused, replicate, ['allGather'], 192],
    ['sections to shard', fused, layoutOf([null, 'tp']), ['allToAll', 'allToAll'], 128],
    ['sections to another dim', fused, layoutOf(['tp', null]), ['allToAll'], 64],
    ['shard to sections', layoutOf(['tp', null]), fused, ['allToAll'], 64],
    [
      'replicated to what each rank uses in its own way',
      replicate,
      { ...replicate, replicate: ['dp'] },
      ['reinterpret'],
      0,
    ],
    ['shard to replicate', layoutOf(['dp', null]), replicate, ['allGather'], 144],
    ['partial to replicate', layoutOf([null, null], ['dp']), replicate, ['allReduce'], 288],
    [
      'partial to shard',
      layoutOf([null, null], ['dp']),
      layoutOf(['dp', null]),
      ['reduceScatter'],
      144,
    ],
    [
      'shard to shard of another dim',
      layoutOf(['dp', null]),
      layoutOf([null, 'dp']),
      ['allToAll'],
      72,
    ],
    ['replicate to shard', replicate, layoutOf(['dp', null]), ['slice'], 0],
    ['replicate to partial', replicate, layoutOf([null, null], ['dp']), ['keepOnFirst'], 0],
    ['nothing to do', layoutOf(['dp', 'tp']), layoutOf(['dp', 'tp']), [], 0],
    [
      'what a dim begins with stays',
      layoutOf([['dp', 'tp'], null]),
      layoutOf(['dp', null]),
      ['allGather'],
      96,
    ],
  ])('is one collective or none: %s', (_, from, to, expected, bytes) => {
    const plan = planRedistribution(from, to, [6, 12], axes);
    expect(plan.steps.map(({ move }) => move.operation)).toEqual(expected);
    expect(plan.bytes).toBe(bytes);
  });

  it('reduces what is small before it gathers', () => {
    expect(operations(layoutOf(['dp', null], ['tp']), replicate)).toEqual([
      'allReduce',
      'allGather',
    ]);
  });

  it('reduces into shards where they are wanted, and leaves partial sums that stay', () => {
    expect(
      operations(layoutOf([null, null], ['dp', 'tp']), layoutOf(['dp', null], ['tp'])),
    ).toEqual(['reduceScatter']);
  });

  it('the plan of a redistribution counts padding: 5 rows over 3 ranks travel as 6', () => {
    const plan = planRedistribution(layoutOf(['tp', null]), replicate, [5, 4], axes);
    expect(plan.bytes).toBe(2 * 2 * 4 * 4);
  });

  it('the plan of a redistribution counts the bytes of the dtype', () => {
    expect(planRedistribution(layoutOf(['dp', null]), replicate, [6, 12], axes, 'f16').bytes).toBe(
      72,
    );
  });

  it('the plan of a redistribution prints, with the bytes that a rank receives', () => {
    const plan = planRedistribution(
      layoutOf(['dp', null], ['tp']),
      layoutOf([null, 'tp']),
      [6, 12],
      axes,
    );
    expect(formatRedistribution(plan)).toBe(
      [
        '[6, 12] shard(0: dp) partial(tp) -> shard(1: tp): 144 bytes',
        '  reduceScatter tp, dim 1 -> shard(0: dp) shard(1: tp): 96 bytes',
        '  allGather dp, dim 0 -> shard(1: tp): 48 bytes',
      ].join('\n'),
    );
  });

  const axis = fc.constantFrom<readonly number[]>(
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 1],
    [2, 0],
    [3, 2],
    [2, 3],
    [3, 3],
  );
  const layout = axis.map((places): Layout => {
    const on = (place: number): string[] =>
      axes.flatMap(({ name }, index) => (places[index] === place ? [name] : []));
    return { dims: [on(0), on(1)], partial: on(2) };
  });

  it('the plan of a redistribution is never dearer than to replicate and slice, where no part is padded', () => {
    const size = fc.constantFrom(6, 12, 18);
    fc.assert(
      fc.property(layout, layout, fc.tuple(size, size), (from, to, shape) => {
        const direct = planRedistribution(from, to, shape, axes);
        const whole = planRedistribution(from, replicate, shape, axes);
        expect(direct.bytes).toBeLessThanOrEqual(whole.bytes);
      }),
    );
  });

  it('the plan of a redistribution ends in the layout that was asked for, also where parts are uneven or empty', () => {
    const size = fc.integer({ min: 1, max: 9 });
    fc.assert(
      fc.property(layout, layout, fc.tuple(size, size), (from, to, shape) => {
        const { steps } = planRedistribution(from, to, shape, axes);
        expect(steps.at(-1)?.layout ?? from).toEqual(
          steps.length === 0 ? from : { dims: to.dims, partial: expect.any(Array) },
        );
      }),
    );
  });

  it.each<[string, Layout, string]>([
    ['an axis twice', layoutOf(['dp', 'dp']), "the axis 'dp' 2 times"],
    ['an axis as shard and as sum', layoutOf(['tp', null], ['tp']), "the axis 'tp' 2 times"],
    ['an unknown axis', layoutOf(['pp', null]), "the axis 'pp' on a mesh of dp 2 x tp 3"],
    ['too many dims', layoutOf([null, null, 'dp']), 'axes for 3 dims, and the tensor has 2'],
    [
      'an axis that shards a dim and the elements',
      { ...layoutOf(['dp', null]), flat: ['dp'] },
      "the axis 'dp' 2 times",
    ],
    [
      'chunks of a size of their own',
      { ...layoutOf(['dp', null]), chunkSizes: { dp: 5 } },
      'the layout shard(0: dp by 5) of a tensor of shape [6, 12]: chunks of 5 over dp, which no collective moves. Shard it in chunks of ceil(size / ranks): leave chunkSizes out',
    ],
    [
      'a tensor that one rank has',
      { ...replicate, only: { axis: 'dp', rank: 1 } },
      'a tensor that rank 1 of dp has alone, which no collective moves',
    ],
    [
      'sections that do not make up the dim',
      { ...layoutOf([null, 'tp']), sections: { tp: [6, 3] } },
      'sections of 9 = 6 + 3 elements, and tp shards 12. Give the sizes of all sections',
    ],
    [
      'sections that are no multiple of the ranks',
      { ...layoutOf([null, 'tp']), sections: { tp: [7, 5] } },
      'a section of 7 elements over the 3 ranks of tp. Use sections that are multiples of 3',
    ],
    [
      'sections of an axis that shards no dim',
      { ...layoutOf([null, 'tp']), sections: { dp: [6, 6] } },
      "sections of the axis 'dp', which shards no dim",
    ],
  ])('refuses %s', (_, layout, message) => {
    expect(() => planRedistribution(replicate, layout, [6, 12], axes)).toThrow(message);
    expect(() => planRedistribution(layout, replicate, [6, 12], axes)).toThrow(
      expect.objectContaining({ code: 'LAYOUT' }),
    );
  });
});
