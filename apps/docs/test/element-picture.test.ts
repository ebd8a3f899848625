import { expect, it } from 'vitest';
import { elementPicture, placeOf } from '../explorers/element-picture.ts';

const axes = [
  { name: 'dp', size: 2 },
  { name: 'tp', size: 2 },
];

it('the last axis of a mesh has neighbouring ranks', () => {
  const places = [0, 1, 2, 3].map((rank) => [placeOf(rank, axes)('dp'), placeOf(rank, axes)('tp')]);
  expect(places.map(([dp, tp]) => [dp?.rank, tp?.rank])).toEqual([
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 1],
  ]);
});

it('elements that are shared out row by row are drawn with the ranks that have them, also within columns', () => {
  const flat = { dims: [[], []], partial: [], flat: ['dp'] };
  expect(elementPicture(flat, [3, 3], axes)).toBe(
    [
      '[3, 3] shard(flat: dp) on dp=2 × tp=2; ranks of each element',
      '0,1 0,1 0,1',
      '0,1 0,1 2,3',
      '2,3 2,3 2,3',
    ].join('\n'),
  );
  const columns = { dims: [[], ['tp']], partial: [], flat: ['dp'] };
  expect(elementPicture(columns, [2, 4], axes).split('\n').slice(1)).toEqual([
    '0 0 1 1',
    '2 2 3 3',
  ]);
});
